package example

import (
	"context"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// Delete removes the VMs of r, and then the disks that they leave behind.
func (a *account) Delete(ctx context.Context, r cloud.Ref) (cloud.Deletion, error) {
	const op = "delete VM"
	s, err := driverkit.SpecOf[*spec](op, r.Class)
	if err != nil {
		return cloud.Deletion{}, driverkit.Restrict(err)
	}
	vms := func(ctx context.Context) ([]driverkit.Part, error) {
		var parts []driverkit.Part
		found, err := a.find(ctx, op, s, r)
		for _, vm := range found {
			parts = append(parts, a.part(op, cloud.KindVM, "vms", vm.ID))
		}
		return parts, err
	}
	disks := func(ctx context.Context) ([]driverkit.Part, error) {
		if r.Name == "" {
			return nil, nil
		}
		var parts []driverkit.Part
		for t, err := range a.client.list(ctx, op, "disks", s.filter(r)) {
			if err != nil {
				return nil, driverkit.Restrict(err)
			}
			if s.owns(t, r) && t.VM == "" {
				parts = append(parts, a.part(op, cloud.KindDisk, "disks", t.ID))
			}
		}
		return parts, nil
	}
	return driverkit.Remove(ctx, driverkit.RemoveStep{Find: vms, RetryAfter: time.Second},
		driverkit.RemoveStep{Find: disks, RetryAfter: time.Second})
}

func (a *account) part(op string, kind cloud.Kind, path, id string) driverkit.Part {
	return driverkit.Part{Kind: kind, ID: id, Remove: func(ctx context.Context) (bool, error) {
		return true, a.client.remove(ctx, op, path, id) // the cloud is done when it answers
	}}
}
