package vsphere

import (
	"context"
	"slices"
	"time"

	"github.com/vmware/govmomi/property"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

const opDelete = "delete VM"

// Delete removes the VMs that are provably of r, step by step: power off, take
// off the disks that did not come with the VM, leave the anti-affinity rule, destroy.
// It never waits for one.
func (a *account) Delete(ctx context.Context, r cloud.Ref) (cloud.Deletion, error) {
	s, err := driverkit.SpecOf[*spec](opDelete, r.Class)
	if err != nil {
		return cloud.Deletion{}, driverkit.Restrict(err)
	}
	step := func(wait time.Duration, find func(context.Context, *spec, cloud.Ref) ([]driverkit.Part, error),
	) driverkit.RemoveStep {
		return driverkit.RemoveStep{RetryAfter: wait, Find: func(ctx context.Context) ([]driverkit.Part, error) {
			return find(ctx, s, r)
		}}
	}
	d, err := driverkit.Remove(ctx, step(cloneWait, a.cloning), step(powerWait, a.removals), step(cloneWait, a.lateClone))
	return d, driverkit.Restrict(fail(opDelete, err))
}

// cloning is a clone that is under way.
func (a *account) cloning(ctx context.Context, _ *spec, r cloud.Ref) ([]driverkit.Part, error) {
	n := noteOf(r.State)
	if n.Task == "" {
		return nil, nil
	}
	info, err := a.task(ctx, n.Task)
	if err != nil || info == nil || !unfinished(*info) {
		return nil, err
	}
	return []driverkit.Part{{Kind: cloud.KindVM, ID: r.Name}}, nil
}

// removals are the VMs of r.
func (a *account) removals(ctx context.Context, s *spec, r cloud.Ref) ([]driverkit.Part, error) {
	vms, err := a.find(ctx, s, r)
	if namesNothing(err) && r.State == "" {
		return nil, nil // without the folder no VM was made in it
	}
	var parts []driverkit.Part
	for _, vm := range vms {
		remove := func(ctx context.Context) (gone bool, err error) { return false, a.remove(ctx, vm) }
		parts = append(parts, driverkit.Part{Kind: cloud.KindVM, ID: vm.bios, Remove: remove})
	}
	return parts, err
}

// lateClone is a VM that may come yet. When a clone was asked for and the answer was
// lost, it may still be queued: then the template shows an unfinished clone, of whatever
// machine. Where it shows none, the clone may have ended since the VM was looked for, so
// it is looked for once more.
func (a *account) lateClone(ctx context.Context, s *spec, r cloud.Ref) ([]driverkit.Part, error) {
	n := noteOf(r.State)
	if !n.Clone || n.Task != "" || r.ProviderID != "" || s.source() == "" {
		return nil, nil
	}
	busy, err := a.beingCloned(ctx, s)
	if err == nil && !busy {
		var late []*seen
		late, err = a.find(ctx, s, r)
		busy = len(late) > 0
	}
	if err != nil || !busy {
		return nil, err
	}
	return []driverkit.Part{{Kind: cloud.KindVM, ID: r.Name}}, nil
}

// beingCloned reports whether the class's template is. One that is not there is not.
func (a *account) beingCloned(ctx context.Context, s *spec) (bool, error) {
	template, err := a.templateRef(ctx, s)
	if namesNothing(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	vm, err := a.read(ctx, template)
	return vm != nil && vm.doing("clone"), err
}

// remove asks for the next step of the removal of a VM.
func (a *account) remove(ctx context.Context, vm *seen) error {
	fresh, err := a.read(ctx, vm.ref)
	if err != nil || fresh == nil || fresh.busy() {
		return err
	}
	if err := a.reports.failure(fresh, "destroy"); err != nil {
		return err
	}
	if fresh.power == types.VirtualMachinePowerStatePoweredOn || fresh.power == types.VirtualMachinePowerStateSuspended {
		_, err := methods.PowerOffVM_Task(ctx, a.v, &types.PowerOffVM_Task{This: vm.ref})
		return passing(err)
	}
	foreign, err := a.foreignDisks(ctx, fresh)
	if err != nil {
		return passing(err)
	}
	if len(foreign) > 0 {
		return passing(a.reconfigure(ctx, vm.ref, types.VirtualMachineConfigSpec{DeviceChange: foreign}))
	}
	return passing(a.destroy(ctx, fresh))
}

// destroy asks for the end of a VM once it has left its rule. A rule that cannot be changed
// does not keep the VM: vCenter takes what is destroyed out of its rules by itself.
func (a *account) destroy(ctx context.Context, vm *seen) error {
	left, err := a.leave(ctx, vm)
	switch {
	case ctx.Err() != nil:
		return err
	case err == nil && !left:
		return nil
	}
	_, err = methods.Destroy_Task(ctx, a.v, &types.Destroy_Task{This: vm.ref})
	return err
}

// passing leaves out what only says that somebody else is at work with the VM.
// The next look finds out.
func passing(err error) error {
	switch {
	case isFault[types.ManagedObjectNotFound](
		err), isFault[types.TaskInProgress](err), isFault[types.ConcurrentAccess](err),
		isFault[types.InvalidPowerState](err), isFault[types.InvalidState](err):
		return nil
	}
	return err
}

// foreignDisks are the changes that take off the disks that did not come with
// the VM, and leave their files.
func (a *account) foreignDisks(ctx context.Context, vm *seen) ([]types.BaseVirtualDeviceConfigSpec, error) {
	var full mo.VirtualMachine
	err := property.DefaultCollector(a.v.Client).RetrieveOne(ctx, vm.ref, []string{"config.hardware", "config.files"},
		&full)
	if err != nil || full.Config == nil {
		return nil, err
	}
	var changes []types.BaseVirtualDeviceConfigSpec
	for _, d := range full.Config.Hardware.Device {
		if disk, ok := d.(*types.VirtualDisk); ok && !vm.cameWith(full.Config, disk) {
			changes = append(changes, &types.VirtualDeviceConfigSpec{
				Operation: types.VirtualDeviceConfigSpecOperationRemove,
				Device:    d,
			})
		}
	}
	return changes, nil
}

// cameWith reports whether a disk came with the VM. A volume may have been moved
// into the VM's directory since, so the list that was made at the beginning is
// trusted more than the place.
func (v *seen) cameWith(c *types.VirtualMachineConfigInfo, disk *types.VirtualDisk) bool {
	if disk.VDiskId != nil {
		return false
	}
	if _, id := backingOf(disk); id != "" && v.mark != nil && len(v.mark.Disks) > 0 {
		return slices.Contains(v.mark.Disks, id)
	}
	return inDirectory(c, disk)
}
