package example

import (
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// vmOf returns a VM as the controllers see it.
func vmOf(t item) cloud.VM {
	tags := codec.Decode(t.Labels)
	vm := cloud.VM{
		ID: t.ID, ProviderID: providerIDPrefix + "/" + t.Zone + "/" + t.ID, Name: tags[machineTag], OwnerID: tags[ownerTag],
		NodeName: tags[machineTag], State: stateOf(t.State), Reason: t.State, Zone: t.Zone, InstanceType: t.Type,
		Created: t.Created,
	}
	vm.NodeProviderID = vm.ProviderID
	if t.Address != "" {
		vm.Addresses = []cloud.Address{{Kind: "InternalIP", Value: t.Address}}
	}
	return vm
}

// stateOf returns what the cloud's word means for a node.
func stateOf(word string) cloud.State {
	switch word {
	case "starting":
		return cloud.StatePending
	case "running":
		return cloud.StateRunning
	case "off":
		return cloud.StateStopped
	case "failed":
		return cloud.StateFailed
	}
	return cloud.StateUnknown
}

// resource returns a VM or a disk as an entry of a listing.
func (t item) resource(kind cloud.Kind) cloud.Resource {
	tags := codec.Decode(t.Labels)
	if kind == cloud.KindVM {
		return driverkit.VMResource(vmOf(t), tags)
	}
	return cloud.Resource{
		Kind: kind, ID: t.ID, MachineName: tags[machineTag], OwnerID: tags[ownerTag], Created: t.Created,
		Attached: t.VM != "", Tags: tags,
	}
}
