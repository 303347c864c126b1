package vsphere

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/vmware/govmomi/vim25/types"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// vmOf returns a VM as the controllers see it.
func vmOf(s *spec, v *seen) cloud.VM {
	state, reason := stateOf(v)
	return cloud.VM{
		ID: v.bios, ProviderID: providerID(s.Region, v.bios), NodeProviderID: nodeProviderID(v.bios),
		Name: v.machine(), OwnerID: v.owner(), NodeName: v.machine(),
		State: state, Reason: reason, Region: s.Region, Zone: v.zone(),
		Addresses: addresses(v), Created: v.created,
	}
}

// stateOf returns the state of a VM and vCenter's word for it. A VM that is off
// has stopped only if it was started before; else it is still being made.
func stateOf(v *seen) (cloud.State, string) {
	switch v.connection {
	case types.VirtualMachineConnectionStateInvalid, types.VirtualMachineConnectionStateOrphaned:
		return cloud.StateFailed, string(v.connection)
	case types.VirtualMachineConnectionStateDisconnected, types.VirtualMachineConnectionStateInaccessible:
		return cloud.StateUnknown, string(v.connection)
	case types.VirtualMachineConnectionStateConnected:
	}
	if v.doing("destroy") {
		return cloud.StateDeleting, "destroying"
	}
	switch v.power {
	case types.VirtualMachinePowerStatePoweredOn:
		return cloud.StateRunning, string(v.power)
	case types.VirtualMachinePowerStateSuspended:
		return cloud.StateStopped, string(v.power)
	case types.VirtualMachinePowerStatePoweredOff:
		if v.mark != nil && v.mark.Phase != phaseStarted {
			return cloud.StatePending, cmp.Or(v.mark.Phase, string(v.power))
		}
		return cloud.StateStopped, string(v.power)
	}
	return cloud.StatePending, "cloning"
}

// addresses are those that the guest reports, by interface, IPv4 first.
// Addresses of the link alone are left out.
func addresses(v *seen) []cloud.Address {
	var out []cloud.Address
	if name := cmp.Or(v.hostName, v.machine()); name != "" {
		out = append(out, cloud.Address{Kind: "Hostname", Value: name})
	}
	nics := slices.Clone(v.net)
	slices.SortStableFunc(nics, func(a, b types.GuestNicInfo) int {
		return cmp.Compare(a.DeviceConfigId, b.DeviceConfigId)
	})
	known := map[netip.Addr]bool{}
	for _, texts := range append(ipsOf(nics), []string{v.ip}) {
		var ips []netip.Addr
		for _, text := range texts {
			ip, err := netip.ParseAddr(text)
			if err == nil && !ip.IsLinkLocalUnicast() && !ip.IsLoopback() && !known[ip] {
				known[ip] = true
				ips = append(ips, ip)
			}
		}
		slices.SortFunc(ips, netip.Addr.Compare)
		for _, ip := range ips {
			out = append(out, cloud.Address{Kind: "InternalIP", Value: ip.String()})
		}
	}
	return out
}

func ipsOf(nics []types.GuestNicInfo) [][]string {
	var all [][]string
	for _, n := range nics {
		all = append(all, n.IpAddress)
	}
	return all
}

// vmsOf returns VMs as the controllers see them.
func vmsOf(s *spec, vms []*seen) []cloud.VM {
	var all []cloud.VM
	for _, vm := range vms {
		all = append(all, vmOf(s, vm))
	}
	return all
}

// several is the error of a machine that has several VMs.
func several(op string, r cloud.Ref, vms []*seen) error {
	var ids []string
	for _, vm := range vms {
		ids = append(ids, vm.bios)
	}
	return driverkit.SeveralVMs(op, r, ids)
}
