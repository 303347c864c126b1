package openstack

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

const opFinish = "configure port"

// finish does what cannot be asked for when a server is made. A positive wait
// means that it is not finished.
func (a *account) finish(ctx context.Context, c *config, r cloud.CreateRequest, s server) (time.Duration,
	*cloud.Error,
) {
	switch {
	case s.going():
		return 0, nil // whoever looks at its state decides
	case s.unexplained(a.now()):
		return waitForHost, nil
	case s.Status == statusError:
		return 0, a.takeBack(ctx, c, r, s)
	case s.Status == statusBuild:
		return a.buildWait(s), nil
	}
	return 0, a.openPorts(ctx, c, r, s)
}

// explained returns a server with the fault that it failed of. Nova's lists leave out
// the faults of servers in another cell, such as those that never found a host.
func (a *account) explained(ctx context.Context, s server) (server, *cloud.Error) {
	if s.Status != statusError || s.Fault.Message != "" {
		return s, nil
	}
	fresh, err := a.byID(ctx, opCreate, providerID(a.region, s.ID))
	if err != nil || fresh == nil {
		return s, err
	}
	return *fresh, nil
}

// takeBack says why a server of this attempt could not be made: it never was a
// VM. It is deleted, so that the attempt can be repeated, unless it has been
// written down already; then it goes with its machine. One that has run and
// failed later stays, to be looked at.
func (a *account) takeBack(ctx context.Context, c *config, r cloud.CreateRequest, s server) *cloud.Error {
	if s.Launched != "" || s.Metadata[attemptKey] != r.Token || r.Token == "" {
		return nil
	}
	if r.ProviderID == "" {
		if err := a.end(ctx, opCreate, s); err != nil {
			return err
		}
	}
	why := react(0, "", s.Fault.Message)
	if why.code != cloud.Exhausted {
		return cloud.Errorf(cloud.Unknown, opCreate, "BuildFailed", "server %s could not be built: %s", s.ID,
			briefly(s.Fault.Message))
	}
	reason := why.reason
	if reason == "" {
		reason = "OverQuota"
	}
	e := cloud.Errorf(cloud.Exhausted, opCreate, reason, "server %s could not be built: %s", s.ID,
		briefly(s.Fault.Message))
	e.Offering = c.offering(r, why.scope)
	return e
}

// buildWait is when it is worth looking again at a server that is being built. Nova
// mostly finds a host within seconds, or none; one that takes longer has much to do.
func (a *account) buildWait(s server) time.Duration {
	const quick = 10 * time.Second
	if s.unplaced() && a.now().Sub(s.Created) < quick {
		return waitForHost
	}
	return waitForBuild
}

// openPorts lets the addresses of pods pass the ports of the server that are in
// the networks of pods. What others allowed there stays.
func (a *account) openPorts(ctx context.Context, c *config, r cloud.CreateRequest, s server) *cloud.Error {
	if len(c.Spec.PodNetworkCIDRs) == 0 {
		return nil
	}
	networks, err := a.podNetworks(ctx, c)
	if err != nil || len(networks) == 0 {
		return err
	}
	for p, err := range a.ports(ctx, opFinish, url.Values{"device_id": {s.ID}}) {
		if err != nil {
			return about(err)
		}
		if !slices.Contains(networks, p.port.NetworkID) || p.port.PortSecurity != nil && !*p.port.PortSecurity {
			continue
		}
		if err := a.openPort(ctx, c, r, *p.port); err != nil {
			return err
		}
	}
	return nil
}

// openPort adds the addresses that a port lacks. A port that Nova made is also
// marked, so that it is found should Nova leave it behind.
func (a *account) openPort(ctx context.Context, c *config, r cloud.CreateRequest, p port) *cloud.Error {
	pairs := slices.Clone(p.Pairs)
	for _, cidr := range c.Spec.PodNetworkCIDRs {
		if !slices.ContainsFunc(pairs, func(x pair) bool { return x.IP == cidr }) {
			pairs = append(pairs, pair{IP: cidr})
		}
	}
	if len(pairs) == len(p.Pairs) {
		return nil
	}
	in := map[string]any{"allowed_address_pairs": pairs}
	if p.Name == "" && p.Description == "" {
		in["name"], in["description"] = r.Name, c.birthmark(r)
	}
	err := a.ask(ctx, opFinish, call{
		method: http.MethodPut, of: neutron, path: "ports/" + p.ID,
		body: map[string]any{"port": in},
	})
	if err == nil || err.Code == cloud.NotFound {
		return nil // a port that has gone needs nothing
	}
	return c.invalid(err)
}
