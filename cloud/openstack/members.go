package openstack

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

const (
	opRegister   = "register member"
	opDeregister = "deregister member"

	memberWait = 3 * time.Second // a load balancer takes one change after the other
)

var uuid = regexp.MustCompile(`\A[0-9a-fA-F]{8}(-?[0-9a-fA-F]{4}){3}-?[0-9a-fA-F]{12}\z`)

// validatePools checks the pools of Octavia.
func (c *config) validatePools() {
	var places []string
	for i, p := range c.Spec.LoadBalancerPools {
		at := fmt.Sprintf("spec.loadBalancerPools[%d].", i)
		if c.Wrong(strings.TrimSuffix(at, ".")) && p == (poolSpec{}) {
			continue // it is no object at all
		}
		places = append(places, p.PoolID+":"+strconv.Itoa(int(p.Port)))
		c.Require(cloud.BlocksCreate, at+"poolID", p.PoolID, "name the pool by its id")
		for _, id := range []struct{ field, value string }{{"poolID", p.PoolID}, {"subnetID", p.SubnetID}} {
			c.BlockIf(id.value != "" && !uuid.MatchString(id.value), at+id.field, "is no id; write a UUID")
		}
		c.Between(at+"port", &p.Port, 1, math.MaxUint16)
	}
	c.Distinct("spec.loadBalancerPools", "poolID", places, "remove one of them")
}

// Memberships returns the pools of a class, each as <pool>:<port>:<subnet>.
func (d *Driver) Memberships(class cloud.Class) []string {
	c, ok := class.Spec.(*config)
	if !ok {
		return nil
	}
	var places []string
	for _, p := range c.Spec.LoadBalancerPools {
		if uuid.MatchString(p.PoolID) && p.Port > 0 {
			places = append(places, fmt.Sprintf("%s:%d:%s", p.PoolID, p.Port, p.SubnetID))
		}
	}
	slices.Sort(places)
	return slices.Compact(places)
}

// poolOf is the pool of a place.
func poolOf(op, place string) (poolSpec, error) {
	parts := strings.Split(place, ":")
	const elements = 3
	if len(parts) == elements && uuid.MatchString(parts[0]) {
		if port, err := strconv.ParseUint(parts[1], 10, 16); err == nil {
			return poolSpec{PoolID: parts[0], Port: int32(port), SubnetID: parts[2]}, nil
		}
	}
	return poolSpec{}, cloud.Errorf(cloud.Invalid, op, "InvalidPlace", "%q is no pool with a port", place)
}

// member is a member of a pool. Its name tells whose it is.
type member struct {
	ID      string `json:"id,omitempty"`
	Name    string `json:"name"`
	Address string `json:"address,omitempty"`
	Port    int32  `json:"protocol_port,omitempty"`
	Subnet  string `json:"subnet_id,omitempty"`
	Status  string `json:"provisioning_status,omitempty"`
}

// memberName is the name of the members of a machine.
func memberName(r cloud.Ref) string { return strings.TrimSuffix(r.Name+"/"+r.OwnerID, "/") }

// Register makes the server of r a member of pools, once it runs.
func (a *account) Register(ctx context.Context, r cloud.Ref, places []string) (cloud.Registration, error) {
	c, err := driverkit.SpecOf[*config](opRegister, r.Class)
	if err != nil {
		return cloud.Registration{}, err
	}
	s, err := a.stayingServer(ctx, opRegister, c, r)
	if err != nil {
		return cloud.Registration{}, driverkit.Restrict(err, cloud.NotFound)
	}
	if stateOf(s) != cloud.StateRunning {
		return waitingFor("server " + s.ID + ": " + s.Status), nil
	}
	var waiting []string
	for _, place := range places {
		wanted, err := a.memberOf(ctx, r, s, place)
		if err != nil {
			return cloud.Registration{}, err
		}
		busy, err := a.join(ctx, place, wanted)
		if err != nil {
			return cloud.Registration{}, driverkit.Restrict(err, cloud.Invalid, cloud.Exhausted)
		}
		if busy != "" {
			waiting = append(waiting, busy)
		}
	}
	return waitingFor(waiting...), nil
}

// waitingFor is the registration that waits for these; done without any.
func waitingFor(what ...string) cloud.Registration {
	if len(what) == 0 {
		return cloud.Registration{Done: true}
	}
	slices.Sort(what)
	return cloud.Registration{RetryAfter: memberWait, Waiting: what}
}

// memberOf is the member that a server is to be at a place.
func (a *account) memberOf(ctx context.Context, r cloud.Ref, s server, place string) (member, error) {
	pool, err := poolOf(opRegister, place)
	if err != nil {
		return member{}, err
	}
	address, err := a.fixedAddress(ctx, opRegister, s, pool.SubnetID)
	return member{Name: memberName(r), Address: address, Port: pool.Port, Subnet: pool.SubnetID}, err
}

// join makes a member, unless it is there, and returns what that waits for. A member of that
// address and port that somebody else left or made leads to the same server: it is taken over.
func (a *account) join(ctx context.Context, place string, wanted member) (busy string, err error) {
	pool, _, _ := strings.Cut(place, ":")
	all, err := a.members(ctx, opRegister, pool)
	if isGone(err) {
		return "", cloud.Errorf(cloud.Invalid, opRegister, "NoSuchPool", "Octavia shows no pool %s", pool)
	}
	if err != nil {
		return "", err
	}
	path, method := "lbaas/pools/"+pool+"/members", http.MethodPost
	body := map[string]any{"member": wanted}
	if at := slices.IndexFunc(all, wanted.samePlace); at >= 0 {
		if all[at].Status == "PENDING_DELETE" {
			return place + ": the former member is being removed", nil
		}
		if all[at].Name == wanted.Name {
			return "", nil
		}
		path, method, body = path+"/"+all[at].ID, http.MethodPut, map[string]any{"member": member{Name: wanted.Name}}
	}
	err = a.ask(ctx, opRegister, call{method: method, of: octavia, path: path, body: body})
	if isBusy(err) || isGone(err) {
		return place + ": the load balancer is busy", nil
	}
	return "", err
}

// samePlace reports whether both have the address and the port, which only one member of a pool can have.
func (m member) samePlace(other member) bool {
	return m.Address == other.Address && m.Port == other.Port
}

// isBusy reports whether Octavia refuses a call because a load balancer is being changed.
func isBusy(err error) bool {
	return cloud.CodeOf(err) == cloud.Unavailable && reasonOf(err) == "HTTP409"
}

// Deregister removes the members of r from pools, and reports whether they are gone. Octavia
// keeps the members of servers that are gone, so they are found by their names, too.
func (a *account) Deregister(ctx context.Context, r cloud.Ref, places []string) (cloud.Registration, error) {
	c, err := driverkit.SpecOf[*config](opDeregister, r.Class)
	if err != nil {
		return cloud.Registration{}, driverkit.Restrict(err)
	}
	s, err := a.stayingServer(ctx, opDeregister, c, r)
	if err != nil && !isGone(err) {
		return cloud.Registration{}, driverkit.Restrict(err)
	}
	var waiting []string
	for _, place := range places {
		pool, err := poolOf(opDeregister, place)
		if err != nil {
			return cloud.Registration{}, err
		}
		busy, err := a.leave(ctx, pool, func(m member) bool {
			return m.Name == memberName(r) || m.Port == pool.Port && s.hasAddress(m.Address)
		})
		if err != nil {
			return cloud.Registration{}, driverkit.Restrict(err)
		}
		if busy {
			waiting = append(waiting, place+": the member is being removed")
		}
	}
	return waitingFor(waiting...), nil
}

// leave removes the members of a pool that are somebody's, and reports whether any is left.
func (a *account) leave(ctx context.Context, pool poolSpec, mine func(member) bool) (bool, error) {
	all, err := a.members(ctx, opDeregister, pool.PoolID)
	if isGone(err) {
		return false, nil
	}
	left := false
	for _, m := range all {
		if !mine(m) || m.Port != pool.Port {
			continue
		}
		left = true
		if m.Status == "PENDING_DELETE" {
			continue
		}
		err := a.ask(ctx, opDeregister, call{
			method: http.MethodDelete, of: octavia, path: "lbaas/pools/" + pool.PoolID + "/members/" + m.ID,
		})
		if err != nil && !isBusy(err) && !isGone(err) {
			return true, err
		}
	}
	return left, err
}

// members are those of a pool.
func (a *account) members(ctx context.Context, op, pool string) ([]member, error) {
	var all []member
	for m, err := range pages(ctx, a, op, listing[member]{
		octavia, "lbaas/pools/" + pool + "/members", "members", url.Values{}, func(m member) string { return m.ID },
	}) {
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}

// fixedAddress is the address of a server in a subnet, or else its first one.
func (a *account) fixedAddress(ctx context.Context, op string, s server, subnet string) (string, error) {
	type port struct {
		ID  string `json:"id"`
		IPs []struct {
			Subnet  string `json:"subnet_id"`
			Address string `json:"ip_address"`
		} `json:"fixed_ips"`
	}
	first := ""
	for p, err := range pages(ctx, a, op, listing[port]{
		neutron, "ports", "ports", url.Values{"device_id": {s.ID}}, func(p port) string { return p.ID },
	}) {
		if err != nil {
			return "", driverkit.Restrict(err)
		}
		for _, ip := range p.IPs {
			if subnet != "" && ip.Subnet == subnet {
				return ip.Address, nil
			}
		}
	}
	for _, at := range addressesOf(s) {
		if at.Kind == "InternalIP" {
			first = cmp.Or(first, at.Value)
		}
	}
	if first == "" {
		return "", cloud.Errorf(cloud.Unavailable, op, "NoAddress", "server %s has no fixed address yet", s.ID)
	}
	return first, nil
}

// hasAddress reports whether a server has a fixed address.
func (s server) hasAddress(address string) bool {
	want, err := netip.ParseAddr(address)
	for _, at := range addressesOf(s) {
		if has, bad := netip.ParseAddr(at.Value); err == nil && bad == nil && at.Kind == "InternalIP" && has == want {
			return true
		}
	}
	return false
}
