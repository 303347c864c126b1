package openstack

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
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
	return c.marks(s.Metadata) && isOf(r, s.Metadata[ownerKey], s.Name)
}

// marks reports whether metadata has all ownership keys of the class.
func (c *config) marks(metadata map[string]string) bool {
	return len(c.ownership) > 0 && !slices.ContainsFunc(c.ownership, func(key string) bool {
		_, has := metadata[key]
		return !has
	})
}

func isOf(r cloud.Ref, owner, name string) bool {
	if r.OwnerID != "" && owner != "" {
		return owner == r.OwnerID
	}
	return r.Name == "" || name == r.Name
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
	return c.listsPart(p) && isOf(r, p.owner, p.name)
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
func (a *account) servers(ctx context.Context, op string, query url.Values) iter.Seq2[server, *cloud.Error] {
	query.Set("limit", pageMax)
	return pages(ctx, a, op, listing[server]{nova, "servers/detail", "servers", query, func(s server) string {
		return s.ID
	}})
}

// ports yields ports.
func (a *account) ports(ctx context.Context, op string, query url.Values) iter.Seq2[part, *cloud.Error] {
	query.Set("limit", pageMax)
	return partsOf(pages(ctx, a, op, listing[port]{neutron, "ports", "ports", query, func(p port) string {
		return p.ID
	}}), port.part)
}

// volumes yields volumes; none where there is no Cinder.
func (a *account) volumes(ctx context.Context, op string, query url.Values) iter.Seq2[part, *cloud.Error] {
	if !a.has(cinder) {
		return func(func(part, *cloud.Error) bool) {}
	}
	query.Set("limit", pageMax)
	return partsOf(pages(ctx, a, op, listing[volume]{cinder, "volumes/detail", "volumes", query, func(v volume) string {
		return v.ID
	}}), volume.part)
}

func partsOf[T any](all iter.Seq2[T, *cloud.Error], convert func(T) part) iter.Seq2[part, *cloud.Error] {
	return func(yield func(part, *cloud.Error) bool) {
		for t, err := range all {
			if err != nil {
				yield(part{}, err)
				return
			}
			if !yield(convert(t), nil) {
				return
			}
		}
	}
}

// named is the query for what has exactly that name. Nova takes a regular
// expression.
func named(name string) url.Values {
	return url.Values{"name": {"^" + regexp.QuoteMeta(name) + "$"}}
}

// find returns the servers that are provably of r: that of its providerID, or
// those of its name.
func (a *account) find(ctx context.Context, op string, c *config, r cloud.Ref) ([]server, *cloud.Error) {
	if r.ProviderID != "" {
		s, err := a.byID(ctx, op, r.ProviderID)
		if err != nil || s == nil || !c.owns(*s, r) {
			return nil, err
		}
		return []server{*s}, nil
	}
	var found []server
	if r.Name == "" {
		return nil, nil
	}
	for s, err := range a.servers(ctx, op, named(r.Name)) {
		if err != nil {
			return nil, about(err)
		}
		if s.Name == r.Name && c.owns(s, r) {
			found = append(found, s)
		}
	}
	return found, nil
}

// byID returns the server of a providerID; nil if there is none.
func (a *account) byID(ctx context.Context, op, providerID string) (*server, *cloud.Error) {
	id, known := decodeProviderID(providerID)
	if !known {
		return nil, nil
	}
	var out struct {
		Server server `json:"server"`
	}
	err := a.ask(ctx, op, call{method: http.MethodGet, of: nova, path: "servers/" + id, out: &out})
	switch {
	case err == nil:
		return &out.Server, nil
	case err.Code == cloud.NotFound:
		return nil, nil
	}
	return nil, about(err)
}

// portsOf returns the ports that are provably of r.
func (a *account) portsOf(ctx context.Context, op string, c *config, r cloud.Ref) ([]part, *cloud.Error) {
	return owned(a.ports(ctx, op, url.Values{"name": {r.Name}}), c, r)
}

// volumesOf returns the volumes that are provably of r.
func (a *account) volumesOf(ctx context.Context, op string, c *config, r cloud.Ref) ([]part, *cloud.Error) {
	return owned(a.volumes(ctx, op, url.Values{"name": {r.Name}}), c, r)
}

// owned returns what is provably of r, the oldest first.
func owned(all iter.Seq2[part, *cloud.Error], c *config, r cloud.Ref) ([]part, *cloud.Error) {
	if r.Name == "" {
		return nil, nil
	}
	var found []part
	for p, err := range all {
		if err != nil {
			return nil, about(err)
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
