package kubevirt

import (
	"context"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

const opDelete = "delete VM"

// Waits for what has been asked to go.
const (
	vmWait   = 5 * time.Second // a guest has half a minute to shut down
	restWait = time.Second
)

// Delete removes the VMs of r with their volumes, and then the Secrets, and volumes that are left.
func (a *account) Delete(ctx context.Context, r cloud.Ref) (cloud.Deletion, error) {
	s, err := driverkit.SpecOf[*spec](opDelete, r.Class)
	if err != nil {
		return cloud.Deletion{}, driverkit.Restrict(err)
	}
	vms := func(ctx context.Context) ([]driverkit.Part, error) {
		found, err := a.machines(ctx, opDelete, s, r)
		var parts []driverkit.Part
		for _, m := range found {
			parts = append(parts, a.part(cloud.KindVM, machines, m.Metadata))
		}
		return parts, driverkit.Restrict(err)
	}
	rest := func(kind cloud.Kind, of collection) func(context.Context) ([]driverkit.Part, error) {
		return func(ctx context.Context) ([]driverkit.Part, error) {
			found, err := a.leftovers(ctx, s, r, of)
			var parts []driverkit.Part
			for _, m := range found {
				parts = append(parts, a.part(kind, of, m))
			}
			return parts, driverkit.Restrict(err)
		}
	}
	return driverkit.Remove(ctx, driverkit.RemoveStep{Find: vms, RetryAfter: vmWait},
		driverkit.RemoveStep{Find: rest(cloud.KindDisk, dataVolumes), RetryAfter: restWait},
		driverkit.RemoveStep{Find: rest(cloud.KindKey, secrets), RetryAfter: restWait})
}

// leftovers returns what of one collection has outlived the VM of r. What belongs to another object
// goes with that.
func (a *account) leftovers(ctx context.Context, s *spec, r cloud.Ref, of collection) ([]meta, error) {
	if r.Name == "" {
		return nil, nil
	}
	found, err := mine(s, r, list[object](ctx, a.client, opDelete, of, s.filter(r)))
	var left []meta
	for _, o := range found {
		if !o.Metadata.owned() {
			left = append(left, o.Metadata)
		}
	}
	return left, err
}

// part is an object to be removed, or one that is going.
func (a *account) part(kind cloud.Kind, of collection, m meta) driverkit.Part {
	p := driverkit.Part{Kind: kind, ID: m.Name}
	if m.Deleted == nil {
		p.Remove = func(ctx context.Context) (bool, error) { return a.client.remove(ctx, opDelete, of, m) }
	}
	return p
}
