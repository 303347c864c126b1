package openstack

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// Nova's words that more than one place depends on.
const (
	statusBuild       = "BUILD"
	statusError       = "ERROR"
	statusDeleted     = "DELETED"
	statusSoftDeleted = "SOFT_DELETED"
	statusShutOff     = "SHUTOFF"
)

// vmOf returns a server of a class as the controllers see it.
func (a *account) vmOf(ctx context.Context, op string, c *config, s server) (cloud.VM, error) {
	instanceType, err := a.flavorName(ctx, op, s.Flavor.ID)
	if err != nil {
		return cloud.VM{}, err
	}
	vm := cloud.VM{
		ID: s.ID, ProviderID: providerID(a.region, s.ID), NodeProviderID: c.nodeProviderID(a.region, s.ID),
		Name: s.Name, NodeName: s.Name, OwnerID: s.Metadata[ownerKey],
		State: stateOf(s), Reason: s.Status, Message: driverkit.Brief(s.Fault.Message),
		Region: a.region, Zone: s.Zone, InstanceType: instanceType, Addresses: addressesOf(s), Created: s.Created,
	}
	if vm.State == cloud.StateDeleting {
		vm.Reason = statusDeleted
	}
	return vm, nil
}

// stateOf returns what a status of Nova means for a node.
func stateOf(s server) cloud.State {
	if s.going() {
		return cloud.StateDeleting
	}
	switch s.Status {
	case statusBuild:
		return cloud.StatePending
	case "ACTIVE", "REBOOT", "HARD_REBOOT", "PASSWORD", "RESIZE", "VERIFY_RESIZE", "REVERT_RESIZE", "MIGRATING", "REBUILD":
		return cloud.StateRunning
	case "SHUTOFF", "PAUSED", "SUSPENDED", "SHELVED", "SHELVED_OFFLOADED", "RESCUE":
		return cloud.StateStopped
	case statusError:
		return cloud.StateFailed
	}
	return cloud.StateUnknown
}

// addressesOf returns how a server is reached: its own addresses network by
// network, then those that are translated to them.
func addressesOf(s server) []cloud.Address {
	var inside, outside []cloud.Address
	for _, name := range slices.Sorted(maps.Keys(s.Addresses)) {
		for _, at := range s.Addresses[name] {
			if at.Type == "floating" {
				outside = append(outside, cloud.Address{Kind: "ExternalIP", Value: at.Address})
			} else {
				inside = append(inside, cloud.Address{Kind: "InternalIP", Value: at.Address})
			}
		}
	}
	byValue := func(x, y cloud.Address) int { return strings.Compare(x.Value, y.Value) }
	slices.SortFunc(outside, byValue)
	return append(inside, outside...)
}

// resource returns a port or a volume as the controllers see what is listed.
func (p part) resource() cloud.Resource {
	return cloud.Resource{
		Kind: p.kind, ID: p.id, MachineName: p.name, OwnerID: p.owner, Created: p.created, Attached: p.attachedTo != "",
		Tags: tagCodec.Decode(p.tags),
	}
}
