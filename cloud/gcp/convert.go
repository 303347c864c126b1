package gcp

import (
	"path"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// vmOf returns an instance as the controllers see it.
func (c *client) vmOf(i instance) cloud.VM {
	tags, at := codec.Decode(i.Labels), i.place()
	form := c.who.project + "/" + at.zone + "/" + at.name
	return cloud.VM{
		ID: at.id(), ProviderID: "gce:///" + form, NodeProviderID: "gce://" + form, Name: i.machineOf(),
		OwnerID: tags[ownerTag], NodeName: i.Name, State: stateOf(i.Status), Reason: i.Status, Message: i.StatusMessage,
		Region: regionOf(at.zone), Zone: at.zone, InstanceType: path.Base(i.MachineType), Addresses: addresses(i),
		Created: i.Created,
	}
}

// stateOf returns what the status of an instance means for a node. A VM that is being deleted may
// also be STOPPING.
func stateOf(status string) cloud.State {
	switch status {
	case "PROVISIONING", "STAGING", "PENDING":
		return cloud.StatePending
	case "RUNNING", "REPAIRING":
		return cloud.StateRunning
	case "STOPPING", "PENDING_STOP", "SUSPENDING", "STOPPED", "TERMINATED", "SUSPENDED":
		return cloud.StateStopped
	case "DEPROVISIONING":
		return cloud.StateDeleting
	}
	return cloud.StateUnknown
}

// addresses returns those of all interfaces, in the order of the API.
func addresses(i instance) []cloud.Address {
	var all []cloud.Address
	add := func(kind, value string) {
		if value != "" {
			all = append(all, cloud.Address{Kind: kind, Value: value})
		}
	}
	for _, n := range i.NetworkInterfaces {
		add("InternalIP", n.IP)
		add("InternalIP", n.IPv6)
		for _, a := range append(n.Access, n.IPv6Access...) {
			add("ExternalIP", a.IP)
			add("ExternalIP", a.IPv6)
		}
	}
	return all
}

// resource returns a disk as an entry of a listing.
func (d disk) resource() cloud.Resource {
	tags := codec.Decode(d.Labels)
	return cloud.Resource{
		Kind: cloud.KindDisk, ID: d.place().id(), MachineName: tags[machineTag], OwnerID: tags[ownerTag],
		Created: d.Created, Attached: len(d.Users) > 0, Tags: tags,
		Retention: cloud.RetentionOf(tags[cloud.OnTerminationTag]),
	}
}

// resource returns an instance as an entry of a listing.
func (c *client) resource(i instance) cloud.Resource {
	return driverkit.VMResource(c.vmOf(i), tagsOf(i.Labels, i.Metadata.Items))
}
