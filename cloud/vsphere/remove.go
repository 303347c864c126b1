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
		return cloud.Deletion{}, notInvalid(opDelete, err)
	}
	if wait, err := a.cloning(ctx, r); err != nil || wait > 0 {
		return cloud.Deletion{RetryAfter: wait, Remaining: []string{"vm " + r.Name}}, fail(opDelete, err)
	}
	vms, err := a.find(ctx, s, r)
	switch {
	case cloud.CodeOf(err) == cloud.Invalid && r.State == "":
		return cloud.Deletion{Done: true}, nil // without the folder no VM was made in it
	case err != nil:
		return cloud.Deletion{}, notInvalid(opDelete, fail(opDelete, err))
	case len(vms) == 0:
		return a.nothing(ctx, s, r)
	}
	d := cloud.Deletion{}
	for _, vm := range vms {
		wait, err := a.remove(ctx, vm)
		if err != nil {
			return cloud.Deletion{}, notInvalid(opDelete, fail(opDelete, err))
		}
		d.RetryAfter = max(d.RetryAfter, wait)
		d.Remaining = append(d.Remaining, "vm "+vm.bios)
	}
	slices.Sort(d.Remaining)
	return d, nil
}

// cloning returns how long to wait for a clone that is under way.
func (a *account) cloning(ctx context.Context, r cloud.Ref) (time.Duration, error) {
	n := noteOf(r.State)
	if n.Task == "" {
		return 0, nil
	}
	info, err := a.task(ctx, n.Task)
	if err != nil || info == nil || !unfinished(*info) {
		return 0, err
	}
	return cloneWait, nil
}

// nothing is the end of a deletion that finds nothing. When a clone was asked
// for and the answer was lost, it may still be queued: then the template shows
// an unfinished clone, of whatever machine. Where it shows none, the clone may
// have ended since the VM was looked for, so it is looked for once more.
func (a *account) nothing(ctx context.Context, s *spec, r cloud.Ref) (cloud.Deletion, error) {
	n := noteOf(r.State)
	if !n.Clone || n.Task != "" || r.ProviderID != "" || s.source() == "" {
		return cloud.Deletion{Done: true}, nil
	}
	busy, err := a.beingCloned(ctx, s)
	if err != nil {
		return cloud.Deletion{}, fail(opDelete, err)
	}
	if !busy {
		late, err := a.find(ctx, s, r)
		if err != nil {
			return cloud.Deletion{}, notInvalid(opDelete, fail(opDelete, err))
		}
		if len(late) == 0 {
			return cloud.Deletion{Done: true}, nil
		}
	}
	return cloud.Deletion{RetryAfter: cloneWait, Remaining: []string{"vm " + r.Name}}, nil
}

// beingCloned reports whether the class's template is. One that is not there is not.
func (a *account) beingCloned(ctx context.Context, s *spec) (bool, error) {
	template, err := a.templateRef(ctx, s)
	if cloud.CodeOf(err) == cloud.Invalid {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	vm, err := a.read(ctx, template)
	return vm != nil && vm.doing("clone"), err
}

// remove asks for the next step of the removal of a VM and returns how long to
// wait for it.
func (a *account) remove(ctx context.Context, vm *seen) (time.Duration, error) {
	fresh, err := a.read(ctx, vm.ref)
	if err != nil || fresh == nil || fresh.busy() {
		return powerWait, err
	}
	if err := a.reports.failure(fresh, "destroy"); err != nil {
		return 0, err
	}
	if fresh.power == types.VirtualMachinePowerStatePoweredOn || fresh.power == types.VirtualMachinePowerStateSuspended {
		_, err := methods.PowerOffVM_Task(ctx, a.v, &types.PowerOffVM_Task{This: vm.ref})
		return powerWait, passing(err)
	}
	foreign, err := a.foreignDisks(ctx, fresh)
	if err != nil {
		return powerWait, passing(err)
	}
	if len(foreign) > 0 {
		return configureWait, passing(a.reconfigure(ctx, vm.ref, types.VirtualMachineConfigSpec{DeviceChange: foreign}))
	}
	return a.destroy(ctx, fresh)
}

// destroy asks for the end of a VM once it has left its rule.
func (a *account) destroy(ctx context.Context, vm *seen) (time.Duration, error) {
	if left, err := a.leave(ctx, vm); err != nil || !left {
		return configureWait, passing(err)
	}
	_, err := methods.Destroy_Task(ctx, a.v, &types.Destroy_Task{This: vm.ref})
	return powerWait, passing(err)
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
