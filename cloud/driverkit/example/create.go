package example

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// Create makes the VM of r, once for its token, unless it is there.
func (a *account) Create(ctx context.Context, r cloud.CreateRequest) (cloud.VM, error) {
	const op = "create VM"
	s, err := driverkit.SpecOf[*spec](op, r.Class)
	if err != nil {
		return cloud.VM{}, err
	}
	labels, wrong := s.labelsFor(r)
	problems := slices.Concat(s.Problems, r.Problems(nameLimits, userDataMax), wrong)
	if err := cloud.Worst(op, problems, cloud.BlocksCreate); err != nil {
		return cloud.VM{}, err
	}
	return driverkit.Creation{
		Find: func(ctx context.Context) ([]cloud.VM, error) { return a.find(ctx, op, s, r.Ref) },
		Make: func(ctx context.Context) (cloud.VM, error) {
			var made item
			e := a.client.do(ctx, op, driverkit.Call{Method: http.MethodPost, URL: "/vms", Out: &made, Body: item{
				Key: r.Token, Zone: s.zoneFor(r), Type: s.Type, Image: s.Image, DiskGiB: *s.DiskGiB, Labels: labels,
				UserData: r.UserData,
			}})
			if e != nil {
				return cloud.VM{}, s.refused(r, e)
			}
			return vmOf(made), nil
		},
		Finish: func(_ context.Context, vm cloud.VM) (time.Duration, error) {
			if vm.State == cloud.StatePending {
				return time.Second, nil // a stock that is exhausted shows until the VM runs
			}
			return 0, nil
		},
	}.Do(ctx, op, r)
}

// zoneFor returns where the VM of r goes; empty lets the cloud choose.
func (s *spec) zoneFor(r cloud.CreateRequest) string { return cmp.Or(r.Zone, s.Zone) }

// labelsFor returns the labels of all that is made for r, and what about them does not fit.
func (s *spec) labelsFor(r cloud.CreateRequest) (map[string]string, []cloud.Problem) {
	request, wrong := codec.Encode(r.Tags)
	own, wrongToo := codec.Encode(map[string]string{machineTag: r.Name, ownerTag: r.OwnerID})
	all := driverkit.MergeTags(request, s.Labels, own)
	return all, slices.Concat(wrong, wrongToo, driverkit.TooManyTags("labels", all, tagLimits))
}
