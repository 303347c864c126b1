package openstack

import (
	"context"
	"net/http"
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
		return cloud.Deletion{}, driverkit.Restrict(err)
	}
	step := func(find func(context.Context) ([]driverkit.Part, error)) driverkit.RemoveStep {
		return driverkit.RemoveStep{Find: find, RetryAfter: waitToGo}
	}
	return driverkit.Remove(ctx,
		step(func(ctx context.Context) ([]driverkit.Part, error) { return a.serversToEnd(ctx, c, r) }),
		step(func(ctx context.Context) ([]driverkit.Part, error) {
			return a.partsToRemove(ctx, c, r, a.portsOf, a.volumesOf)
		}),
		// A floating IP is loose once its port has gone.
		step(func(ctx context.Context) ([]driverkit.Part, error) { return a.partsToRemove(ctx, c, r, a.addressesOf) }),
	)
}

// serversToEnd returns the servers of r.
func (a *account) serversToEnd(ctx context.Context, c *config, r cloud.Ref) ([]driverkit.Part, error) {
	servers, err := a.find(ctx, opDelete, c, r)
	var parts []driverkit.Part
	for _, s := range servers {
		parts = append(parts, driverkit.Part{Kind: cloud.KindVM, ID: s.ID, Remove: func(ctx context.Context) (bool, error) {
			if s.going() && s.Status != statusSoftDeleted && a.now().Sub(s.Updated) < stuck {
				return false, nil
			}
			return false, a.end(ctx, opDelete, s)
		}})
	}
	return parts, err
}

// end asks for a server to go. One that is only kept for its restoration goes
// for good.
func (a *account) end(ctx context.Context, op string, s server) error {
	request := call{method: http.MethodDelete, of: nova, path: "servers/" + s.ID}
	if s.Status == statusSoftDeleted {
		request = call{
			method: http.MethodPost, of: nova, path: "servers/" + s.ID + "/action",
			body: map[string]any{"forceDelete": nil},
		}
	}
	err := a.ask(ctx, op, request)
	if isGone(err) {
		return nil
	}
	return driverkit.Restrict(err)
}

// finder returns the parts of one kind that are provably of r.
type finder func(ctx context.Context, op string, c *config, r cloud.Ref) ([]part, error)

// partsToRemove returns the parts that carry the marks of r and are not part of another
// server. One goes when nothing uses it.
func (a *account) partsToRemove(ctx context.Context, c *config, r cloud.Ref, finders ...finder) ([]driverkit.Part,
	error,
) {
	var parts []driverkit.Part
	for _, find := range finders {
		found, err := find(ctx, opDelete, c, r)
		if err != nil {
			return nil, err
		}
		for _, p := range found {
			if mayGo(p, r) {
				remove := func(ctx context.Context) (bool, error) { return a.removeLoose(ctx, p) }
				parts = append(parts, driverkit.Part{Kind: p.kind, ID: p.id, Remove: remove})
			}
		}
	}
	return parts, nil
}

// removeLoose removes a part unless something uses it, and reports whether it has gone.
// Neutron is done when it answers.
func (a *account) removeLoose(ctx context.Context, p part) (gone bool, err error) {
	loose, err := a.loose(ctx, p)
	if err != nil || !loose || p.going() {
		return false, err
	}
	return p.kind != cloud.KindDisk, a.removePart(ctx, p)
}

// mayGo reports whether a part may go with the server of r: it is on that server, or on
// none and the machine's.
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
