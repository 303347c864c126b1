package vsphere

import (
	"context"

	"github.com/vmware/govmomi/find"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// network returns the class's network, or among several of that name the one on the
// class's switch.
func (a *account) network(ctx context.Context, s *spec) (object.NetworkReference, error) {
	finder, err := a.inventory.datacenter(ctx, s)
	if err != nil {
		return nil, err
	}
	found, err := finder.NetworkList(ctx, s.Network)
	if err != nil {
		return nil, missing("network", s.Network, cloud.BlocksCreate, err)
	}
	if s.SwitchUUID == "" {
		if len(found) > 1 {
			return nil, missing("network", s.Network, cloud.BlocksCreate, &find.MultipleFoundError{})
		}
		return found[0], nil
	}
	for _, n := range found {
		backing, err := n.EthernetCardBackingInfo(ctx)
		if err != nil {
			return nil, err
		}
		if onSwitch(backing, s.SwitchUUID) {
			return n, nil
		}
	}
	return nil, cloud.Worst("find network", []cloud.Problem{{
		Severity: cloud.BlocksCreate, Field: "providerSpec.switchUuid",
		Message: "names a switch that no network of that name is on; correct it or leave it out",
	}}, cloud.Warning)
}

// onSwitch reports whether a backing is on that distributed switch, or of that
// opaque network.
func onSwitch(backing types.BaseVirtualDeviceBackingInfo, id string) bool {
	switch b := backing.(type) {
	case *types.VirtualEthernetCardDistributedVirtualPortBackingInfo:
		return sameUUID(b.Port.SwitchUuid, id)
	case *types.VirtualEthernetCardOpaqueNetworkBackingInfo:
		return sameUUID(b.OpaqueNetworkId, id)
	}
	return false
}

// nic returns the backing of the first interface.
func (a *account) nic(ctx context.Context, s *spec) (types.BaseVirtualDeviceBackingInfo, error) {
	n, err := a.network(ctx, s)
	if err != nil {
		return nil, err
	}
	return n.EthernetCardBackingInfo(ctx)
}

// customization returns the stored customization of that name; nil if the class
// names none.
func (a *account) customization(ctx context.Context, s *spec) (*types.CustomizationSpec, error) {
	if s.Customization == "" {
		return nil, nil //nolint:nilnil // none is asked for
	}
	item, err := object.NewCustomizationSpecManager(a.v.Client).GetCustomizationSpec(ctx, s.Customization)
	if isFault[types.NotFound](err) {
		return nil, missing("customization", s.Customization, cloud.BlocksCreate, &find.NotFoundError{})
	}
	if err != nil {
		return nil, err
	}
	return &item.Spec, nil
}
