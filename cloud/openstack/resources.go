package openstack

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"iter"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// server is one of Nova's.
type server struct {
	ID        string               `json:"id"`
	Name      string               `json:"name"`
	Status    string               `json:"status"`
	Created   time.Time            `json:"created"`
	Updated   time.Time            `json:"updated"`
	Metadata  map[string]string    `json:"metadata"`
	Addresses map[string][]address `json:"addresses"`
	Launched  string               `json:"OS-SRV-USG:launched_at"` // empty until it has run
	Zone      string               `json:"OS-EXT-AZ:availability_zone"`
	Task      string               `json:"OS-EXT-STS:task_state"`
	Flavor    struct {
		ID string `json:"id"`
	} `json:"flavor"`
	Fault struct {
		Message string `json:"message"`
	} `json:"fault"`
}

type address struct {
	Address string `json:"addr"`
	Type    string `json:"OS-EXT-IPS:type"`
}

// going reports whether its deletion has begun.
func (s server) going() bool {
	return strings.EqualFold(s.Task, "deleting") || s.Status == statusDeleted || s.Status == statusSoftDeleted
}

// unplaced reports whether Nova still looks for a host for a server.
func (s server) unplaced() bool { return s.Status == statusBuild && s.Task == "scheduling" }

// unexplained reports whether a server has just failed to build. Nova records why a
// moment later.
func (s server) unexplained(now time.Time) bool {
	const moment = 10 * time.Second
	return s.Status == statusError && s.Launched == "" && s.Fault.Message == "" && now.Sub(s.Updated) < moment
}

// undecided reports whether Nova has not said yet whether it has a host.
func (s server) undecided(now time.Time) bool { return s.unplaced() || s.unexplained(now) }

// owns reports whether a server is provably of r: it carries the ownership keys of
// the class, the machine's owner id or none, and the machine's name. One with
// the machine's owner id may have any name, because machines that are restored
// elsewhere keep only the id.
func (c *config) owns(s server, r cloud.Ref) bool {
	return c.marks(s.Metadata) && driverkit.IsOf(r, s.Metadata[ownerKey], s.Name)
}

// marks reports whether metadata has all ownership keys of the class.
func (c *config) marks(metadata map[string]string) bool {
	return driverkit.Carries(metadata, c.ownership)
}

// part is a port, a volume or a floating IP.
type part struct {
	kind       cloud.Kind
	id, name   string            // the name of a floating IP is that of its machine
	tags       map[string]string // of a port or a floating IP: from its tags, without values
	class      string            // digest in its birthmark; empty if it has none
	owner      string
	attachedTo string // id of the server; of a floating IP without server that of the port
	state      string
	created    time.Time
	port       *port
	address    *floatingIP
}

// ownsPart reports whether a part is provably of r.
func (c *config) ownsPart(p part, r cloud.Ref) bool {
	return c.listsPart(p) && driverkit.IsOf(r, p.owner, p.name)
}

// listsPart reports whether a part carries the marks of the class.
func (c *config) listsPart(p part) bool {
	return c.marks(p.tags) || len(c.ownership) > 0 && p.class == digest(c.ownership)
}

// port is one of Neutron's.
type port struct {
	ID           string    `json:"id"`
	Name         string    `json:"name"`
	Description  string    `json:"description"`
	NetworkID    string    `json:"network_id"`
	DeviceID     string    `json:"device_id"`
	Status       string    `json:"status"`
	Tags         []string  `json:"tags"`
	Created      time.Time `json:"created_at"`
	PortSecurity *bool     `json:"port_security_enabled"`
	Pairs        []pair    `json:"allowed_address_pairs"`
	Fixed        []struct {
		Address string `json:"ip_address"`
	} `json:"fixed_ips"`
}

type pair struct {
	IP  string `json:"ip_address"`
	MAC string `json:"mac_address,omitempty"`
}

func (p port) part() part {
	out := part{
		kind: cloud.KindInterface, id: p.ID, name: p.Name, tags: map[string]string{}, attachedTo: p.DeviceID,
		state: p.Status, created: p.Created, port: &p,
	}
	for _, tag := range p.Tags {
		out.tags[tag] = ""
	}
	mark := readBirthmark(p.Description)
	if out.class, out.owner = mark.class, mark.owner; mark.cluster != "" {
		out.tags[cloud.ClusterIDTag] = mark.cluster
	}
	return out
}

// volume is one of Cinder's.
type volume struct {
	ID          string            `json:"id"`
	Name        string            `json:"name"`
	Status      string            `json:"status"`
	Created     string            `json:"created_at"` // without a zone: UTC
	Metadata    map[string]string `json:"metadata"`
	Attachments []struct {
		ServerID string `json:"server_id"`
	} `json:"attachments"`
}

func (v volume) part() part {
	out := part{
		kind: cloud.KindDisk, id: v.ID, name: v.Name, tags: v.Metadata, owner: v.Metadata[ownerKey],
		state: v.Status,
	}
	for _, at := range v.Attachments {
		out.attachedTo = at.ServerID
	}
	out.created, _ = time.Parse("2006-01-02T15:04:05.999999", strings.TrimSuffix(v.Created, "Z"))
	return out
}

// going reports whether the deletion of a volume has begun.
func (p part) going() bool { return p.kind == cloud.KindDisk && p.state == "deleting" }

// pageMax is how many servers, ports or volumes are asked for at once.
const pageMax = "500"

// servers yields servers page by page, each once. It stops after the first error.
func (a *account) servers(ctx context.Context, op string, query url.Values) iter.Seq2[server, error] {
	query.Set("limit", pageMax)
	return pages(ctx, a, op, listing[server]{nova, "servers/detail", "servers", query, func(s server) string {
		return s.ID
	}})
}

// ports yields ports.
func (a *account) ports(ctx context.Context, op string, query url.Values) iter.Seq2[part, error] {
	query.Set("limit", pageMax)
	return partsOf(pages(ctx, a, op, listing[port]{neutron, "ports", "ports", query, func(p port) string {
		return p.ID
	}}), port.part)
}

// volumes yields volumes; none where there is no Cinder.
func (a *account) volumes(ctx context.Context, op string, query url.Values) iter.Seq2[part, error] {
	if !a.has(ctx, cinder) {
		return func(func(part, error) bool) {}
	}
	query.Set("limit", pageMax)
	return partsOf(pages(ctx, a, op, listing[volume]{cinder, "volumes/detail", "volumes", query, func(v volume) string {
		return v.ID
	}}), volume.part)
}

func partsOf[T any](all iter.Seq2[T, error], convert func(T) part) iter.Seq2[part, error] {
	return driverkit.Select(all, func(t T) (part, bool, error) { return convert(t), true, nil })
}

// named is the query for what has exactly that name. Nova takes a regular
// expression.
func named(name string) url.Values {
	return url.Values{"name": {"^" + regexp.QuoteMeta(name) + "$"}}
}

// find returns the servers that are provably of r: that of its providerID, or
// those of its name.
func (a *account) find(ctx context.Context, op string, c *config, r cloud.Ref) ([]server, error) {
	if r.ProviderID != "" {
		if err := a.inRegion(op, r.ProviderID); err != nil {
			return nil, err
		}
		id, _ := decodeProviderID(r.ProviderID)
		s, found, err := a.byID(ctx, op, id)
		if !found || !c.owns(s, r) {
			return nil, err
		}
		return []server{s}, nil
	}
	var found []server
	if r.Name == "" {
		return nil, nil
	}
	for s, err := range a.servers(ctx, op, named(r.Name)) {
		if err != nil {
			return nil, driverkit.Restrict(err)
		}
		if s.Name == r.Name && c.owns(s, r) {
			found = append(found, s)
		}
	}
	return found, nil
}

// byID returns a server, and whether there is one. What is no id is that of none.
func (a *account) byID(ctx context.Context, op, id string) (s server, found bool, err error) {
	if !serverID.MatchString(id) {
		return s, false, nil
	}
	var out struct {
		Server server `json:"server"`
	}
	err = a.ask(ctx, op, call{method: http.MethodGet, of: nova, path: "servers/" + id, out: &out})
	if isGone(err) {
		return s, false, nil
	}
	return out.Server, err == nil, driverkit.Restrict(err)
}

// portsOf returns the ports that are provably of r.
func (a *account) portsOf(ctx context.Context, op string, c *config, r cloud.Ref) ([]part, error) {
	return owned(a.ports(ctx, op, url.Values{"name": {r.Name}}), c, r)
}

// volumesOf returns the volumes that are provably of r.
func (a *account) volumesOf(ctx context.Context, op string, c *config, r cloud.Ref) ([]part, error) {
	return owned(a.volumes(ctx, op, url.Values{"name": {r.Name}}), c, r)
}

// owned returns what is provably of r, the oldest first.
func owned(all iter.Seq2[part, error], c *config, r cloud.Ref) ([]part, error) {
	if r.Name == "" {
		return nil, nil
	}
	var found []part
	for p, err := range all {
		if err != nil {
			return nil, driverkit.Restrict(err)
		}
		if p.name == r.Name && c.ownsPart(p, r) {
			found = append(found, p)
		}
	}
	slices.SortFunc(found, func(x, y part) int {
		if d := x.created.Compare(y.created); d != 0 {
			return d
		}
		return strings.Compare(x.id, y.id)
	})
	return found, nil
}

// birthmark is what the description of a port or a floating IP tells of its owner.
// It is there from the beginning, while Neutron takes tags only afterwards.
type birthmark struct {
	class   string // digest of the ownership keys
	owner   string // id
	cluster string // id; of a port only
	machine string // name; of a floating IP only, which has no name
}

// String returns the description.
func (b birthmark) String() string {
	text := "cluster-api-provider-mcm class=" + b.class + " owner=" + b.owner
	if b.cluster != "" {
		text += " cluster=" + b.cluster
	}
	if b.machine != "" {
		text += " machine=" + b.machine
	}
	return text
}

// readBirthmark decodes a description. It returns the zero value for the description
// of a resource that this driver did not make.
func readBirthmark(description string) (b birthmark) {
	rest, ours := strings.CutPrefix(description, "cluster-api-provider-mcm class=")
	if !ours {
		return b
	}
	rest, b.machine, _ = strings.Cut(rest, " machine=")
	rest, b.cluster, _ = strings.Cut(rest, " cluster=")
	b.class, b.owner, _ = strings.Cut(rest, " owner=")
	return b
}

// portMark is the birthmark of a port of r.
func (c *config) portMark(r cloud.CreateRequest) birthmark {
	return birthmark{class: digest(c.ownership), owner: r.OwnerID, cluster: r.Tags[cloud.ClusterIDTag]}
}

// addressMark is the birthmark of a floating IP of r. It depends on nothing but r,
// because Neutron finds a floating IP by its whole description only.
func (c *config) addressMark(r cloud.Ref) birthmark {
	return birthmark{class: digest(c.ownership), owner: r.OwnerID, machine: markedName(r.Name)}
}

// markedName is a machine's name as a description has room for it: of a longer one the beginning
// and a digest, with a character between them that no name has. It is its own marked name.
func markedName(name string) string {
	if len(name) <= markedNameMax {
		return name
	}
	rest := "~" + digest([]string{name})
	return name[:markedNameMax-len(rest)] + rest
}

// marked is the query for the floating IPs of r. Without an owner id, which matches any,
// it does not filter.
func (c *config) marked(r cloud.Ref) url.Values {
	if r.OwnerID == "" {
		return url.Values{}
	}
	ours, unowned := c.addressMark(r), c.addressMark(r)
	unowned.owner = ""
	return url.Values{"description": {ours.String(), unowned.String()}}
}

// digest is equal for equal keys, and short.
func digest(keys []string) string {
	const length = 16
	sum := sha256.Sum256([]byte(strings.Join(keys, "\n")))
	return hex.EncodeToString(sum[:length])
}
