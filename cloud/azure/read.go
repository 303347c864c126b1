package azure

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// Get returns the VM of r.
func (a *account) Get(ctx context.Context, r cloud.Ref) (cloud.VM, error) {
	const op = "get VM"
	s, err := driverkit.SpecOf[*spec](op, r.Class)
	if err != nil {
		return cloud.VM{}, driverkit.Restrict(err)
	}
	v, err := a.own(ctx, op, s, r)
	if err != nil {
		return cloud.VM{}, driverkit.Restrict(err, cloud.NotFound)
	}
	vm := s.vmOf(v)
	if vm.State != cloud.StateDeleting {
		vm.Addresses, err = a.addresses(ctx, op, s, v)
	}
	return vm, driverkit.Restrict(err)
}

// nameOf is the name of the VM of r.
func nameOf(r cloud.Ref) string {
	if r.ProviderID == "" {
		return r.Name
	}
	name, _ := judge{}.DecodeProviderID(r.ProviderID)
	return name
}

// own returns the VM that is provably of r; the error is NotFound if there is none.
func (a *account) own(ctx context.Context, op string, s *spec, r cloud.Ref) (virtualMachine, error) {
	v, found, err := a.vmFor(ctx, op, s, r)
	if err != nil {
		return v, err
	}
	if !found || !s.owns(v, r) {
		return v, cloud.Errorf(cloud.NotFound, op, "NotFound", "the cloud shows no VM of machine %q", r.Name)
	}
	return v, nil
}

// named returns the VM of a name, whosever it is. Without the class's group the error is NotFound.
func (a *account) named(ctx context.Context, op string, s *spec, name string) (v virtualMachine, found bool,
	err error,
) {
	if name == "" {
		return v, false, nil
	}
	e := a.client.do(ctx, op, request{
		method: http.MethodGet, path: a.client.path(s, vmType, name), version: computeVersion,
		query: url.Values{"$expand": {"instanceView"}}, out: &v,
	})
	switch {
	case e == nil:
		return v, true, nil
	case e.Code == cloud.NotFound && e.Reason != codeNoGroup:
		return v, false, nil
	}
	return v, false, e
}

// owns reports whether a VM is provably of r.
func (s *spec) owns(v virtualMachine, r cloud.Ref) bool {
	tags := v.tags()
	return driverkit.Carries(tags, s.ownership) && driverkit.IsOf(r, tags[ownerTag], v.machine())
}

// addresses are those of the interfaces of a VM, those of the first one first.
func (a *account) addresses(ctx context.Context, op string, s *spec, v virtualMachine) ([]cloud.Address, error) {
	var all []cloud.Address
	for _, id := range a.interfaces(s, v) {
		var n networkInterface
		e := a.client.do(ctx, op, request{method: http.MethodGet, path: id, version: networkVersion, out: &n})
		switch {
		case e != nil && e.Code == cloud.NotFound: // not there yet, or going
			continue
		case e != nil:
			return nil, e
		}
		all = append(all, n.addresses()...)
	}
	return all, nil
}

// addresses are those of an interface.
func (n networkInterface) addresses() []cloud.Address {
	var all []cloud.Address
	for _, ip := range n.Properties.IPs {
		if ip.Properties.Address != "" {
			all = append(all, cloud.Address{Kind: "InternalIP", Value: ip.Properties.Address})
		}
	}
	return all
}

// interfaces are the ids of the interfaces of a VM, the primary one first. Where the cloud
// does not show those that it made with the VM, they have the name that was asked for.
func (a *account) interfaces(s *spec, v virtualMachine) []string {
	if v.Properties.Network == nil {
		return nil
	}
	refs := slices.Clone(v.Properties.Network.Interfaces)
	slices.SortStableFunc(refs, func(x, y nicReference) int { return x.rank() - y.rank() })
	var ids []string
	for _, ref := range refs {
		if strings.HasPrefix(ref.ID, "/subscriptions/") {
			ids = append(ids, ref.ID)
		}
	}
	if len(ids) == 0 {
		for _, made := range v.Properties.Network.Configured {
			ids = append(ids, a.client.path(s, nicType, made.Name))
		}
	}
	return ids
}

func (r nicReference) rank() int {
	if r.Properties != nil && r.Properties.Primary {
		return 0
	}
	return 1
}
