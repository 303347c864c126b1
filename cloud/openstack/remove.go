package openstack

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

const opDelete = "delete server"

const (
	waitToGo = 2 * time.Second // when it is worth looking again at what is going
	stuck    = time.Minute     // after which Nova is asked again: a compute that was restarted forgets
)

// Delete asks for the servers of r to go, and then removes what they left
// behind. Where a providerID is set it is the only server that counts, and only
// its parts and loose ones: other servers of that name may be in use.
func (a *account) Delete(ctx context.Context, r cloud.Ref) (cloud.Deletion, error) {
	c, err := driverkit.SpecOf[*config](opDelete, r.Class)
	if err != nil {
		return cloud.Deletion{}, unclassed(err)
	}
	servers, failed := a.find(ctx, opDelete, c, r)
	if failed != nil {
		return cloud.Deletion{}, failed
	}
	left, failed := a.endAll(ctx, servers)
	if failed == nil && len(left) == 0 {
		left, failed = a.clean(ctx, c, r)
	}
	if failed != nil {
		return cloud.Deletion{}, failed
	}
	if len(left) == 0 {
		return cloud.Deletion{Done: true}, nil
	}
	slices.Sort(left)
	return cloud.Deletion{RetryAfter: waitToGo, Remaining: left}, nil
}

// endAll asks for servers to go and returns what they are.
func (a *account) endAll(ctx context.Context, servers []server) (left []string, failed *cloud.Error) {
	for _, s := range servers {
		left = append(left, string(cloud.KindVM)+" "+s.ID)
		if s.going() && s.Status != statusSoftDeleted && a.now().Sub(s.Updated) < stuck {
			continue
		}
		if failed := a.end(ctx, opDelete, s); failed != nil {
			return nil, failed
		}
	}
	return left, nil
}

// end asks for a server to go. One that is only kept for its restoration goes
// for good.
func (a *account) end(ctx context.Context, op string, s server) *cloud.Error {
	request := call{method: http.MethodDelete, of: nova, path: "servers/" + s.ID}
	if s.Status == statusSoftDeleted {
		request = call{
			method: http.MethodPost, of: nova, path: "servers/" + s.ID + "/action",
			body: map[string]any{"forceDelete": nil},
		}
	}
	err := a.ask(ctx, op, request)
	if err == nil || err.Code == cloud.NotFound {
		return nil
	}
	return about(err)
}

// clean removes the ports, volumes and floating IPs that carry the marks of r and are
// not part of another server, and returns what is still there. A floating IP that was on
// a port comes after it.
func (a *account) clean(ctx context.Context, c *config, r cloud.Ref) ([]string, *cloud.Error) {
	var left []string
	for _, list := range []func(context.Context, string, *config, cloud.Ref) ([]part, *cloud.Error){
		a.portsOf, a.volumesOf, a.addressesOf,
	} {
		parts, err := list(ctx, opDelete, c, r)
		if err != nil {
			return nil, err
		}
		remain, err := a.removeAll(ctx, parts, r)
		if err != nil {
			return nil, err
		}
		left = append(left, remain...)
	}
	return left, nil
}

// removeAll removes those of the parts that nothing uses, and returns what remains of
// the machine.
func (a *account) removeAll(ctx context.Context, parts []part, r cloud.Ref) (left []string, failed *cloud.Error) {
	for _, p := range parts {
		if !mayGo(p, r) {
			continue
		}
		loose, err := a.loose(ctx, p)
		if err != nil {
			return nil, err
		}
		if loose && !p.going() {
			if err := a.removePart(ctx, p); err != nil {
				return nil, err
			}
			if p.kind != cloud.KindDisk {
				continue // Neutron is done when it answers
			}
		}
		left = append(left, string(p.kind)+" "+p.id)
	}
	return left, nil
}

// mayGo reports whether a part is one of the server of r. A part of a server that is
// there and is not that of r is not.
func mayGo(p part, r cloud.Ref) bool {
	if r.ProviderID == "" {
		return true
	}
	id, known := decodeProviderID(r.ProviderID)
	if p.attachedTo != "" {
		return known && p.attachedTo == id
	}
	return p.owner == "" || p.owner == r.OwnerID
}
