package aws

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// vmOf returns an instance as the controllers see it.
func (a *account) vmOf(t resource) cloud.VM {
	i := t.instance
	vm := cloud.VM{
		ID: t.id, ProviderID: providerID(a.region, t.id), Name: t.tags[nameTag], OwnerID: t.tags[ownerTag],
		NodeName: awssdk.ToString(i.PrivateDnsName), State: stateOf(t.state), Reason: t.state, Region: a.region,
		InstanceType: string(i.InstanceType), Addresses: addressesOf(i), Created: t.made,
	}
	if i.Placement != nil && awssdk.ToString(i.Placement.AvailabilityZone) != "" {
		vm.Zone = *i.Placement.AvailabilityZone
		vm.NodeProviderID = providerID(vm.Zone, t.id)
	}
	if i.StateReason != nil {
		vm.Reason = cmp.Or(awssdk.ToString(i.StateReason.Code), t.state)
		vm.Message = strings.TrimPrefix(awssdk.ToString(i.StateReason.Message), vm.Reason+": ")
	}
	if vm.State == cloud.StateRunning && vm.NodeName == "" {
		vm.State, vm.Message = cloud.StatePending, "EC2 has not given the instance its private DNS name yet"
		if a.now().Sub(t.made) > nameTime {
			vm.Message = "EC2 gives the instance no private DNS name, which its node is called by; switch enableDnsHostnames " +
				"and enableDnsSupport on for its VPC"
		}
	}
	return vm
}

// nameTime is how long a running instance may lack its private DNS name without a hint at the VPC's settings. EC2
// gives it within seconds.
const nameTime = 3 * time.Minute

func stateOf(state string) cloud.State {
	switch types.InstanceStateName(state) {
	case types.InstanceStateNamePending:
		return cloud.StatePending
	case types.InstanceStateNameRunning:
		return cloud.StateRunning
	case types.InstanceStateNameStopping, types.InstanceStateNameStopped:
		return cloud.StateStopped
	case types.InstanceStateNameShuttingDown, types.InstanceStateNameTerminated:
		return cloud.StateDeleting
	}
	return cloud.StateUnknown
}

// addressesOf returns how an instance is reached: its own address first, then
// interface by interface.
func addressesOf(i *types.Instance) []cloud.Address {
	var all []cloud.Address
	add := func(kind string, value *string) {
		a := cloud.Address{Kind: kind, Value: awssdk.ToString(value)}
		if a.Value != "" && !slices.Contains(all, a) {
			all = append(all, a)
		}
	}
	add("InternalIP", i.PrivateIpAddress)
	add("InternalIP", i.Ipv6Address)
	nics := slices.Clone(i.NetworkInterfaces)
	slices.SortStableFunc(nics, func(x, y types.InstanceNetworkInterface) int {
		xc, xd := place(x)
		yc, yd := place(y)
		return cmp.Or(cmp.Compare(xc, yc), cmp.Compare(xd, yd), cmp.Compare(awssdk.ToString(x.NetworkInterfaceId),
			awssdk.ToString(y.NetworkInterfaceId)))
	})
	for _, n := range nics {
		add("InternalIP", n.PrivateIpAddress)
		for _, ip := range n.Ipv6Addresses {
			add("InternalIP", ip.Ipv6Address)
		}
	}
	add("ExternalIP", i.PublicIpAddress)
	for _, n := range nics {
		if n.Association != nil {
			add("ExternalIP", n.Association.PublicIp)
		}
	}
	add("InternalDNS", i.PrivateDnsName)
	add("ExternalDNS", i.PublicDnsName)
	return all
}

// place returns the network card and the place on it of an interface.
func place(n types.InstanceNetworkInterface) (card, device int32) {
	if n.Attachment == nil {
		return 0, 0
	}
	return awssdk.ToInt32(n.Attachment.NetworkCardIndex), awssdk.ToInt32(n.Attachment.DeviceIndex)
}

// resourceOf returns a resource as the controllers see it.
func (a *account) resourceOf(t resource) cloud.Resource {
	if t.kind == cloud.KindVM {
		return driverkit.VMResource(a.vmOf(t), maps.Clone(t.tags))
	}
	return cloud.Resource{
		Kind: t.kind, ID: t.id, MachineName: t.tags[nameTag], OwnerID: t.tags[ownerTag],
		Created: t.made, Attached: t.attachedTo != "", Retention: t.retention, Tags: maps.Clone(t.tags),
	}
}
