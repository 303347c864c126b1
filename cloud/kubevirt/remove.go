package kubevirt

import (
	"context"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// Waits for what has been asked to go.
const (
	vmWait   = 5 * time.Second // a guest has half a minute to shut down
	restWait = time.Second
)

// Delete removes the VMs of r with their volumes, and then the Secrets, and volumes that are left.
func (a *account) Delete(ctx context.Context, r cloud.Ref) (cloud.Deletion, error) {
	const op = "delete VM"
	s, err := driverkit.SpecOf[*spec](op, r.Class)
	if err != nil {
		return cloud.Deletion{}, driverkit.Restrict(err)
	}
	vms := func(ctx context.Context) ([]driverkit.Part, error) {
		found, err := a.machines(ctx, op, s, r)
		var parts []driverkit.Part
		for _, m := range found {
			parts = append(parts, a.part(op, cloud.KindVM, machines, m.Metadata))
		}
		return parts, driverkit.Restrict(err)
	}
	rest := func(kind cloud.Kind, of collection) func(context.Context) ([]driverkit.Part, error) {
		return func(ctx context.Context) ([]driverkit.Part, error) { return a.leftovers(ctx, op, s, r, kind, of) }
	}
	return driverkit.Remove(ctx, driverkit.RemoveStep{Find: vms, RetryAfter: vmWait},
		driverkit.RemoveStep{Find: rest(cloud.KindDisk, dataVolumes), RetryAfter: restWait},
		driverkit.RemoveStep{Find: rest(cloud.KindKey, secrets), RetryAfter: restWait})
}

// leftovers returns what of one kind has outlived the VM of r. What belongs to another object goes
// with that.
func (a *account) leftovers(ctx context.Context, op string, s *spec, r cloud.Ref, kind cloud.Kind, of collection) (
	[]driverkit.Part, error,
) {
	if r.Name == "" {
		return nil, nil
	}
	found, err := mine(s, r, list[object](ctx, a.client, op, of, s.filter(r)))
	var parts []driverkit.Part
	for _, o := range found {
		if !o.Metadata.owned() {
			parts = append(parts, a.part(op, kind, of, o.Metadata))
		}
	}
	return parts, driverkit.Restrict(err)
}

// part is an object to be removed, or one that is going.
func (a *account) part(op string, kind cloud.Kind, of collection, m meta) driverkit.Part {
	p := driverkit.Part{Kind: kind, ID: m.Name}
	if m.Deleted == nil {
		p.Remove = func(ctx context.Context) (bool, error) { return a.client.remove(ctx, op, of, m) }
	}
	return p
}
