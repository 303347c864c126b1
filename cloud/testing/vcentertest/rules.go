package vcentertest

import (
	"regexp"
	"slices"
	"unicode/utf8"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

// wrong returns what a vCenter finds wrong with a call that the simulator accepts.
func wrong(ctx *simulator.Context, m *simulator.Method) types.BaseMethodFault {
	switch r := m.Body.(type) {
	case *types.PlaceVm:
		return drsOff(ctx, r)
	case *types.CloneVM_Task:
		return clone(ctx, r)
	case *types.ReconfigVM_Task:
		return reconfigure(ctx, r)
	case *types.AddCustomFieldDef:
		return attribute(r)
	case *types.SetField:
		return field(ctx, r)
	case *types.ReconfigureComputeResource_Task:
		return configureCluster(ctx, r)
	}
	return nil
}

// drsOff refuses to recommend a host of a cluster whose DRS is off.
func drsOff(ctx *simulator.Context, r *types.PlaceVm) types.BaseMethodFault {
	cluster, ok := ctx.Map.Get(r.This).(*simulator.ClusterComputeResource)
	if !ok {
		return nil
	}
	config, ok := cluster.ConfigurationEx.(*types.ClusterConfigInfoEx)
	if !ok || config.DrsConfig.Enabled == nil || *config.DrsConfig.Enabled {
		return nil
	}
	f := &types.InvalidState{}
	f.FaultMessage = []types.LocalizableMessage{{
		Key: "vim.cluster.DrsDisabled", Message: "DRS is not enabled on the cluster",
	}}
	return f
}

// escaped matches names in which %, / and \ are written as vCenter stores them.
var escaped = regexp.MustCompile(`^([^%/\\]|%25|%2[fF]|%5[cC])+$`)

// clone refuses names that no VM can have, hosts that are not where the pool is, and
// datastores that the host does not have or that are full.
func clone(ctx *simulator.Context, r *types.CloneVM_Task) types.BaseMethodFault {
	const longest = 80
	name := regexp.MustCompile(`%(25|2[fF]|5[cC])`).ReplaceAllString(r.Name, "x")
	if !escaped.MatchString(r.Name) || utf8.RuneCountInString(name) > longest {
		return &types.InvalidName{Name: r.Name, Entity: &r.Folder}
	}
	at := r.Spec.Location
	linked := string(types.VirtualMachineRelocateDiskMoveOptionsCreateNewChildDiskBacking)
	if at.DiskMoveType == linked && r.Spec.Snapshot == nil {
		return &types.InvalidArgument{InvalidProperty: "spec.location.diskMoveType"}
	}
	if at.Host != nil {
		host, ok := ctx.Map.Get(*at.Host).(*simulator.HostSystem)
		switch {
		case !ok:
			return &types.ManagedObjectNotFound{Obj: *at.Host}
		case host.Runtime.InMaintenanceMode:
			return &types.InvalidHostState{Host: at.Host}
		case at.Pool != nil && host.Parent != nil && ownerOf(ctx, *at.Pool) != *host.Parent:
			return &types.InvalidArgument{InvalidProperty: "spec.location.host"}
		case at.Datastore != nil && !slices.Contains(host.Datastore, *at.Datastore):
			return &types.InvalidArgument{InvalidProperty: "spec.location.datastore"}
		}
	}
	if at.Datastore != nil {
		store, ok := ctx.Map.Get(*at.Datastore).(*simulator.Datastore)
		switch {
		case !ok:
			return &types.ManagedObjectNotFound{Obj: *at.Datastore}
		case store.Summary.FreeSpace <= 0:
			return &types.NoDiskSpace{FileFault: types.FileFault{File: "[" + store.Name + "]"}, Datastore: store.Name}
		}
	}
	return extraConfig(r.Spec.Config)
}

// ownerOf is the cluster or host that a pool is of.
func ownerOf(ctx *simulator.Context, pool types.ManagedObjectReference) types.ManagedObjectReference {
	if p, ok := ctx.Map.Get(pool).(*simulator.ResourcePool); ok {
		return p.Owner
	}
	return types.ManagedObjectReference{}
}

// extraConfig refuses entries without a key and values that are no text.
func extraConfig(c *types.VirtualMachineConfigSpec) types.BaseMethodFault {
	if c == nil {
		return nil
	}
	for _, o := range c.ExtraConfig {
		entry := o.GetOptionValue()
		if _, text := entry.Value.(string); entry.Key == "" || !text {
			return &types.InvalidArgument{InvalidProperty: "configSpec.extraConfig"}
		}
	}
	return nil
}

// reconfigure refuses interfaces on networks that the VM's host does not have.
func reconfigure(ctx *simulator.Context, r *types.ReconfigVM_Task) types.BaseMethodFault {
	var at types.ManagedObjectReference
	if vm, ok := ctx.Map.Get(r.This).(*simulator.VirtualMachine); ok {
		ctx.WithLock(vm, func() {
			if vm.Runtime.Host != nil {
				at = *vm.Runtime.Host
			}
		})
	}
	host, ok := ctx.Map.Get(at).(*simulator.HostSystem)
	for i, change := range r.Spec.DeviceChange {
		card, isCard := change.GetVirtualDeviceConfigSpec().Device.(types.BaseVirtualEthernetCard)
		if !ok || !isCard {
			continue
		}
		if n := networkOf(ctx, card.GetVirtualEthernetCard().Backing); n != nil && !slices.Contains(host.Network, *n) {
			f := &types.InvalidDeviceBacking{}
			f.Property, f.DeviceIndex = "virtualDeviceSpec.device.backing", int32(i)
			return f
		}
	}
	return extraConfig(&r.Spec)
}

// networkOf is the network of a backing; nil if it names none.
func networkOf(ctx *simulator.Context, backing types.BaseVirtualDeviceBackingInfo) *types.ManagedObjectReference {
	switch b := backing.(type) {
	case *types.VirtualEthernetCardNetworkBackingInfo:
		for _, n := range ctx.Map.All("Network") {
			if n.Entity().Name == b.DeviceName {
				ref := n.Reference()
				return &ref
			}
		}
		return &types.ManagedObjectReference{Type: "Network", Value: b.DeviceName}
	case *types.VirtualEthernetCardDistributedVirtualPortBackingInfo:
		return &types.ManagedObjectReference{Type: "DistributedVirtualPortgroup", Value: b.Port.PortgroupKey}
	}
	return nil
}

// attribute refuses a custom attribute without a name.
func attribute(r *types.AddCustomFieldDef) types.BaseMethodFault {
	if r.Name == "" {
		return &types.InvalidName{Name: r.Name}
	}
	return nil
}

// field refuses values of attributes that objects of that type do not have.
func field(ctx *simulator.Context, r *types.SetField) types.BaseMethodFault {
	manager, ok := ctx.Map.Get(r.This).(*simulator.CustomFieldsManager)
	if !ok {
		return nil
	}
	var fault types.BaseMethodFault
	ctx.WithLock(manager, func() {
		for _, def := range manager.Field {
			if def.Key == r.Key && def.ManagedObjectType != "" && def.ManagedObjectType != r.Entity.Type {
				fault = &types.InvalidArgument{InvalidProperty: "key"}
			}
		}
	})
	return fault
}

// FillDatastore leaves no room in a datastore.
func (v *VCenter) FillDatastore(ref types.ManagedObjectReference) {
	inside := v.model.Service.Context
	if store, ok := inside.Map.Get(ref).(*simulator.Datastore); ok {
		inside.WithLock(store, func() { store.Summary.FreeSpace = 0 })
	}
}
