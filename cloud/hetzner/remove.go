package hetzner

import (
	"context"
	"net/http"
	"strconv"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

const opDelete = "delete server"

// Delete removes the servers of r, and then its floating IP. The addresses that Hetzner gave a
// server go with it; volumes that were attached to it stay.
func (a *account) Delete(ctx context.Context, r cloud.Ref) (cloud.Deletion, error) {
	s, err := driverkit.SpecOf[*spec](opDelete, r.Class)
	if err != nil {
		return cloud.Deletion{}, driverkit.Restrict(err)
	}
	return driverkit.Remove(ctx,
		driverkit.RemoveStep{RetryAfter: bootWait, Find: func(ctx context.Context) ([]driverkit.Part, error) {
			found, err := a.find(ctx, opDelete, s, r)
			var parts []driverkit.Part
			for _, t := range found {
				parts = append(parts, a.part(cloud.KindVM, t.ID, t.path(), t.Status == statusDeleting))
			}
			return parts, err
		}},
		driverkit.RemoveStep{RetryAfter: soon, Find: func(ctx context.Context) ([]driverkit.Part, error) {
			found, err := a.addresses(ctx, opDelete, s, r)
			var parts []driverkit.Part
			for _, t := range found {
				parts = append(parts, a.addressPart(t))
			}
			return parts, err
		}},
	)
}

// addressPart is a floating IP. Hetzner deletes none that is assigned to a server, as it is when
// somebody has put a machine's floating IP elsewhere.
func (a *account) addressPart(t floatingIP) driverkit.Part {
	p := a.part(cloud.KindAddress, t.ID, t.path(), false)
	if t.Server == nil {
		return p
	}
	p.Remove = func(ctx context.Context) (gone bool, err error) {
		e := a.do(ctx, opDelete, driverkit.Call{Method: http.MethodPost, URL: t.path() + "/actions/unassign"})
		if e == nil || e.Code == cloud.NotFound || busy(e) {
			return false, nil
		}
		return false, driverkit.Restrict(e)
	}
	return p
}

// part is something that is to go, or that is going already. Hetzner refuses to delete what
// something else is done to; that passes.
func (a *account) part(kind cloud.Kind, id int64, path string, going bool) driverkit.Part {
	p := driverkit.Part{Kind: kind, ID: strconv.FormatInt(id, 10)}
	if going {
		return p
	}
	p.Remove = func(ctx context.Context) (gone bool, err error) {
		e := a.do(ctx, opDelete, driverkit.Call{Method: http.MethodDelete, URL: path})
		switch {
		case e == nil:
			return kind == cloud.KindAddress, nil
		case e.Code == cloud.NotFound:
			return true, nil
		case busy(e):
			return false, nil
		}
		return false, driverkit.Restrict(e)
	}
	return p
}
