package openstack

import (
	"context"
	"iter"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

const opAddress = "create floating IP"

// floatingIP is one of Neutron's.
type floatingIP struct {
	ID          string    `json:"id"`
	Address     string    `json:"floating_ip_address"`
	Description string    `json:"description"`
	PortID      string    `json:"port_id"` // empty: it is on no port
	Status      string    `json:"status"`
	Tags        []string  `json:"tags"`
	Created     time.Time `json:"created_at"`
	Port        struct {
		DeviceID string `json:"device_id"`
	} `json:"port_details"` // empty where Neutron does not show it
}

func (f floatingIP) part() part {
	mark := readBirthmark(f.Description)
	out := part{
		kind: cloud.KindAddress, id: f.ID, name: mark.machine, tags: map[string]string{}, class: mark.class,
		owner: mark.owner, attachedTo: f.PortID, state: f.Status, created: f.Created, address: &f,
	}
	if f.PortID != "" && f.Port.DeviceID != "" {
		out.attachedTo = f.Port.DeviceID
	}
	for _, tag := range f.Tags {
		key, value, _ := strings.Cut(tag, "=")
		out.tags[key] = value
	}
	return out
}

// addresses yields the floating IPs of the project. A class without pool has none where
// the cloud has no floating IPs, or does not permit this user to list them.
func (a *account) addresses(ctx context.Context, op string, c *config, query url.Values) iter.Seq2[part, error] {
	query.Set("limit", pageMax)
	all := partsOf(pages(ctx, a, op, listing[floatingIP]{
		neutron, "floatingips", "floatingips", query, func(f floatingIP) string { return f.ID },
	}), floatingIP.part)
	absent := []cloud.Code{cloud.NotFound, cloud.Denied}
	return func(yield func(part, error) bool) {
		for p, err := range all {
			if c.Spec.FloatingIPPool == "" && err != nil && slices.Contains(absent, cloud.CodeOf(err)) {
				return
			}
			if !yield(p, err) {
				return
			}
		}
	}
}

// addressesOf returns the floating IPs that are provably of r.
func (a *account) addressesOf(ctx context.Context, op string, c *config, r cloud.Ref) ([]part, error) {
	query := c.marked(r)
	r.Name = markedName(r.Name)
	return owned(a.addresses(ctx, op, c, query), c, r)
}

// ensureAddress gives the server's port in its first network a floating IP of the pool,
// and adds it to what is known of the server.
//
// A request for a floating IP names the port. Neutron refuses a second floating IP of the
// same pool for a port, and any for a port that has gone, so that a request whose answer
// was lost may be repeated at once, even if it is carried out later.
func (a *account) ensureAddress(ctx context.Context, c *config, r cloud.CreateRequest, s *server,
	ports []port,
) error {
	networks, err := a.networks(ctx, c)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(ports, func(p port) bool { return p.NetworkID == networks[0]["uuid"] })
	if i < 0 {
		return cloud.Errorf(cloud.Unavailable, opAddress, "PortMissing", "Neutron does not show the port of server %s", s.ID)
	}
	f, err := a.addressOn(ctx, c, r, ports[i])
	if reasonOf(err) == reasonHasAddress {
		f, err = a.presentAddress(ctx, c, ports[i], err)
	}
	if err != nil {
		return err
	}
	if err := a.tagAddress(ctx, c, r, f); err != nil {
		return err
	}
	s.addFloating(f.Address)
	return nil
}

// addressOn returns the floating IP that the port has, or gets: one of the machine's that
// an earlier attempt made, or a new one.
func (a *account) addressOn(ctx context.Context, c *config, r cloud.CreateRequest, on port) (floatingIP, error) {
	found, err := a.addressesOf(ctx, opAddress, c, r.Ref)
	if err != nil {
		return floatingIP{}, err
	}
	if i := slices.IndexFunc(found, func(p part) bool { return p.address.PortID == on.ID }); i >= 0 {
		return *found[i].address, nil
	}
	pool, err := a.pool(ctx, &c.Spec)
	if err != nil {
		return floatingIP{}, err
	}
	change := map[string]any{"port_id": on.ID}
	setText(change, "fixed_ip_address", on.first())
	method, path := http.MethodPost, "floatingips"
	if len(found) > 0 {
		method, path = http.MethodPut, "floatingips/"+found[0].id
	} else {
		change["floating_network_id"], change["description"] = pool, c.addressMark(r.Ref).String()
	}
	var out struct {
		FloatingIP floatingIP `json:"floatingip"`
	}
	err = a.ask(ctx, opAddress, call{
		method: method, of: neutron, path: path, body: map[string]any{"floatingip": change}, out: &out,
	})
	return out.FloatingIP, c.refusedAddress(err)
}

// refusedAddress is the error of a request for a floating IP. The class is not to blame
// for a port or a floating IP that has just gone.
func (c *config) refusedAddress(err error) error {
	if slices.Contains([]string{"PortNotFound", "FloatingIPNotFound"}, reasonOf(err)) {
		return driverkit.Restrict(err)
	}
	return c.invalid(err)
}

// presentAddress returns the floating IP because of which Neutron refuses another: one
// that somebody else gave the server, or one of an earlier request.
func (a *account) presentAddress(ctx context.Context, c *config, on port, refusal error) (floatingIP,
	error,
) {
	for p, err := range a.addresses(ctx, opAddress, c, url.Values{"port_id": {on.ID}}) {
		if err != nil {
			return floatingIP{}, driverkit.Restrict(err)
		}
		return *p.address, nil
	}
	return floatingIP{}, refusal
}

// tagAddress gives a floating IP that the driver made the tags by which a listing finds
// its cluster: its description has no room for what a look-up does not know.
func (a *account) tagAddress(ctx context.Context, c *config, r cloud.CreateRequest, f floatingIP) error {
	tags := slices.Clone(c.ownership)
	if id := r.Tags[cloud.ClusterIDTag]; id != "" {
		tags = append(tags, tagCodec.Key(cloud.ClusterIDTag)+"="+id)
	}
	missing := slices.DeleteFunc(slices.Clone(tags), func(tag string) bool { return slices.Contains(f.Tags, tag) })
	if !c.ownsPart(f.part(), r.Ref) || len(missing) == 0 {
		return nil
	}
	return driverkit.Restrict(a.ask(ctx, opAddress, call{
		method: http.MethodPut, of: neutron, path: "floatingips/" + f.ID + "/tags", body: map[string]any{"tags": tags},
	}))
}

// first returns the first of several IPv4 addresses of a port, because Neutron asks which
// one is meant; empty if there is one or none.
func (p port) first() string {
	var all []string
	for _, f := range p.Fixed {
		if ip, err := netip.ParseAddr(f.Address); err == nil && ip.Is4() {
			all = append(all, f.Address)
		}
	}
	if len(all) < 2 {
		return ""
	}
	return all[0]
}

// addFloating adds a floating IP to the addresses of a server: Nova shows it some time
// later.
func (s *server) addFloating(ip string) {
	for _, all := range s.Addresses {
		if slices.ContainsFunc(all, func(at address) bool { return at.Address == ip }) {
			return
		}
	}
	if s.Addresses == nil {
		s.Addresses = map[string][]address{}
	}
	s.Addresses[""] = []address{{Address: ip, Type: "floating"}}
}
