package hetzner

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

const (
	addressFamily = "ipv4"
	addressSuffix = "-" + addressFamily
)

// addressName returns the name of a machine's floating IP, as MCM's driver gives it. It is
// unique in the project.
func (s *spec) addressName(machine string) string {
	return s.FloatingPoolName + "-" + machine + addressSuffix
}

// machine returns the name of the machine of a floating IP: that in its label, or that in its
// name, because MCM's driver sets no such label.
func (t floatingIP) machine() string {
	if name := t.Labels[machineLabel]; name != "" {
		return name
	}
	rest, ours := strings.CutPrefix(t.Name, t.Labels[poolLabel]+"-")
	name, whole := strings.CutSuffix(rest, addressSuffix)
	if !ours || !whole {
		return ""
	}
	return name
}

// ownsAddress reports whether a floating IP is provably of r.
func (s *spec) ownsAddress(t floatingIP, r cloud.Ref) bool {
	return t.Labels[clusterLabel] == s.Cluster && driverkit.Carries(t.Labels, []string{poolLabel}) &&
		driverkit.IsOf(r, t.Labels[ownerLabel], t.machine())
}

// ensureAddress gives a server the floating IP of its machine, and returns when to go on.
func (a *account) ensureAddress(ctx context.Context, s *spec, r cloud.CreateRequest, vm cloud.VM,
	server map[string]string,
) (time.Duration, error) {
	id, err := strconv.ParseInt(vm.ID, 10, 64)
	if err != nil {
		return 0, cloud.Errorf(cloud.Unknown, opCreate, "BrokenAnswer", "server id %q is no number", vm.ID)
	}
	found, err := a.addresses(ctx, opCreate, s, r.Ref)
	if err != nil {
		return 0, err
	}
	if len(found) == 0 {
		return a.makeAddress(ctx, s, r, id, server)
	}
	if slices.ContainsFunc(found, func(t floatingIP) bool { return t.Server != nil && *t.Server == id }) {
		return 0, nil
	}
	return a.waitUnless(a.do(ctx, opCreate, driverkit.Call{
		Method: http.MethodPost, URL: found[0].path() + "/actions/assign", Body: map[string]int64{"server": id},
	}), s, r)
}

// makeAddress asks for the floating IP of a server.
func (a *account) makeAddress(ctx context.Context, s *spec, r cloud.CreateRequest, id int64, server map[string]string) (
	time.Duration, error,
) {
	e := a.do(ctx, opCreate, driverkit.Call{Method: http.MethodPost, URL: "/floating_ips", Body: map[string]any{
		"type": addressFamily, "server": id, "name": s.addressName(r.Name), "labels": s.addressLabels(server),
		"description": "machine " + r.Name,
	}})
	if codeOf(e) == codeNameTaken {
		return 0, unavailable("NameTaken", "the project has a floating IP "+strconv.Quote(s.addressName(r.Name))+
			" that is not the machine's, or not shown yet; delete it if it is another's")
	}
	return a.waitUnless(e, s, r)
}

// waitUnless returns when to go on after a call for a floating IP or a network, which Hetzner refuses while
// something else is done to the server.
func (a *account) waitUnless(e *cloud.Error, s *spec, r cloud.CreateRequest) (time.Duration, error) {
	switch {
	case e == nil:
		return 0, nil
	case busy(e):
		return soon, nil
	case e.Code == cloud.NotFound: // of the server, or of the address: somebody deletes them
		return 0, driverkit.Restrict(e)
	}
	return 0, s.refused(r, e)
}

// addresses returns the floating IPs that are provably of r. Where the class has a pool, one
// that MCM made is found by its name.
func (a *account) addresses(ctx context.Context, op string, s *spec, r cloud.Ref) ([]floatingIP, error) {
	if r.Name == "" {
		return nil, nil
	}
	queries := []url.Values{selecting(s.selector(poolLabel, equals(machineLabel, r.Name)))}
	if s.FloatingPoolName != "" {
		queries = append(queries, url.Values{"name": {s.addressName(r.Name)}})
	}
	for _, query := range queries {
		found, err := driverkit.Collect(list(ctx, &a.client, op, floatingIPs(), query))
		if err != nil {
			return nil, driverkit.Restrict(err)
		}
		found = slices.DeleteFunc(found, func(t floatingIP) bool { return !s.ownsAddress(t, r) })
		if len(found) > 0 {
			return found, nil
		}
	}
	return nil, nil
}
