package sim

import (
	"maps"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// vmOf returns a VM as the controllers see it.
func vmOf(r Resource) cloud.VM {
	out := cloud.VM{
		ID: r.ID, ProviderID: ProviderID(r.Region, r.ID), NodeProviderID: ProviderID(r.Zone, r.ID),
		Name: r.Name(), OwnerID: r.Tags[ownerTag], NodeName: r.Name(),
		State: stateOf(r.VM.State), Reason: r.VM.Reason, Message: r.VM.Message,
		Region: r.Region, Zone: r.Zone, InstanceType: r.VM.InstanceType, Created: r.Made,
	}
	if name := r.Name(); name != "" {
		out.Addresses = append(out.Addresses, cloud.Address{Kind: "Hostname", Value: name})
	}
	for _, a := range r.VM.Addresses {
		out.Addresses = append(out.Addresses, cloud.Address(a))
	}
	return out
}

func stateOf(state string) cloud.State {
	switch state {
	case StatePending:
		return cloud.StatePending
	case StateRunning:
		return cloud.StateRunning
	case StateStopped:
		return cloud.StateStopped
	case StateFailed:
		return cloud.StateFailed
	case StateDeleting:
		return cloud.StateDeleting
	}
	return cloud.StateUnknown
}

// resourceOf returns a resource as the controllers see it.
func resourceOf(r Resource) cloud.Resource {
	out := cloud.Resource{
		Kind: kindOf(r), ID: r.ID, MachineName: r.Name(), OwnerID: r.Tags[ownerTag],
		Created: r.Made, Attached: r.attachedTo() != "", Tags: maps.Clone(r.Tags),
	}
	if r.VM != nil {
		vm := vmOf(r)
		out.VM = &vm
	}
	return out
}

func kindOf(r Resource) cloud.Kind {
	switch r.Kind {
	case KindDisk:
		return cloud.KindDisk
	case KindNIC:
		return cloud.KindInterface
	}
	return cloud.KindVM
}
