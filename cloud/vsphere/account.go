package vsphere

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/property"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// account is the cloud.Account of one user of one vCenter.
type account struct {
	v         *vcenter
	inventory inventory
	fields    fields
	reports   reports
	clusters  clusters

	// Those who look through a folder at the same time share one scan of it, which
	// begins after they asked.
	scans *driverkit.Batcher[folder, *spec, []*seen]
}

// How long it is worth waiting for a task.
const (
	cloneWait     = 5 * time.Second
	configureWait = time.Second
	powerWait     = 2 * time.Second
	addressWait   = 5 * time.Second
	scanTimeout   = time.Minute // of one scan of a folder
)

func newAccount(v *vcenter) *account {
	a := &account{
		v:         v,
		inventory: newInventory(v),
		fields:    newFields(v),
		reports:   newReports(),
		clusters:  clusters{asked: map[string]string{}},
	}
	a.scans = driverkit.NewBatcher(driverkit.BatchOptions{InTurn: true, Timeout: scanTimeout}, a.readFolder)
	return a
}

// folder is what is scanned at once.
type folder struct{ datacenter, path string }

// readFolder reads the name and the mark of every VM in the folder that the classes
// have in common.
func (a *account) readFolder(ctx context.Context, _ folder, classes []*spec) ([]*seen, error) {
	var vms []*seen
	for vm, err := range a.scan(ctx, classes[0], markPaths(), indexPage) {
		if err != nil {
			return nil, err
		}
		vms = append(vms, vm)
	}
	return vms, nil
}

// Close logs out.
func (a *account) Close() error {
	a.v.logout()
	return nil
}

// Get returns the VM of r.
func (a *account) Get(ctx context.Context, r cloud.Ref) (cloud.VM, error) {
	const op = "get VM"
	s, err := driverkit.SpecOf[*spec](op, r.Class)
	if err != nil {
		return cloud.VM{}, driverkit.Restrict(err)
	}
	vms, err := a.find(ctx, s, r)
	if err != nil && !namesNothing(err) { // without the folder there is no VM in it
		return cloud.VM{}, driverkit.Restrict(fail(op, err))
	}
	return driverkit.One(op, r, vmsOf(s, vms))
}

// Reboot resets the VM of r, or powers it on if it is off. While another task changes the VM
// it does neither.
func (a *account) Reboot(ctx context.Context, r cloud.Ref) error {
	const op = "reboot VM"
	s, err := driverkit.SpecOf[*spec](op, r.Class)
	if err != nil {
		return err
	}
	vms, err := a.find(ctx, s, r)
	switch {
	case err != nil && !namesNothing(err):
		return driverkit.Restrict(fail(op, err))
	case len(vms) == 0:
		return cloud.Errorf(cloud.NotFound, op, "NotFound", "vCenter shows no VM of machine %q", r.Name)
	case len(vms) > 1:
		return several(op, r, vms)
	case vms[0].busy():
		return cloud.Errorf(cloud.Unavailable, op, cloud.ReasonVMBusy, "another task of the VM is under way")
	}
	if vms[0].power == types.VirtualMachinePowerStatePoweredOn {
		_, err = methods.ResetVM_Task(ctx, a.v, &types.ResetVM_Task{This: vms[0].ref})
	} else {
		_, err = methods.PowerOnVM_Task(ctx, a.v, &types.PowerOnVM_Task{This: vms[0].ref})
	}
	return driverkit.Busy(driverkit.Restrict(fail(op, err), cloud.NotFound, cloud.Invalid, cloud.Exhausted),
		"TaskInProgress")
}

// find returns the VMs that are provably of r: that of its providerID, or those
// in the class's folder that carry its name or owner id.
func (a *account) find(ctx context.Context, s *spec, r cloud.Ref) ([]*seen, error) {
	if r.ProviderID != "" {
		id, ok := decodeProviderID(r.ProviderID)
		if !ok {
			return nil, nil
		}
		vms, err := a.byUUID(ctx, id)
		return slices.DeleteFunc(vms, func(vm *seen) bool { return !s.provably(vm, r) }), err
	}
	vms, _, err := a.byName(ctx, s, r)
	return vms, err
}

// byName returns the VMs that are provably of r, with their tasks, and another one
// that has the name of the machine. The one in its place is the machine's whatever else
// is in the folder; only where it is not, all of the folder is looked through.
func (a *account) byName(ctx context.Context, s *spec, r cloud.Ref) (vms []*seen, stranger *seen, err error) {
	vm, err := a.child(ctx, s, r.Name)
	if err != nil {
		return nil, nil, err
	}
	if vm != nil && vm.owner() == r.OwnerID && vm.machine() == r.Name && s.provably(vm, r) {
		return []*seen{vm}, nil, nil
	}
	all, err := a.candidates(ctx, s, r)
	for _, vm := range all {
		switch {
		case vm.named(r) && s.provably(vm, r):
			vms = append(vms, vm)
		case vm.name == r.Name:
			stranger = vm
		}
	}
	return vms, stranger, err
}

// candidates returns the VMs in the class's folder that may be of r, with their tasks.
func (a *account) candidates(ctx context.Context, s *spec, r cloud.Ref) ([]*seen, error) {
	all, err := a.scans.Do(ctx, "read folder", folder{s.Datacenter, s.Folder}, s)
	if err != nil {
		return nil, err
	}
	var found []*seen
	for _, vm := range all {
		if !vm.named(r) && vm.name != r.Name {
			continue
		}
		whole, err := a.read(ctx, vm.ref)
		if err != nil {
			return nil, err
		}
		if whole != nil {
			found = append(found, whole)
		}
	}
	return found, nil
}

// named reports whether the VM has the name or the owner id of r.
func (v *seen) named(r cloud.Ref) bool {
	return r.Name != "" && v.machine() == r.Name || r.OwnerID != "" && v.owner() == r.OwnerID
}

// child returns the VM in the class's folder that has this inventory name, or nil.
func (a *account) child(ctx context.Context, s *spec, name string) (*seen, error) {
	if name == "" {
		return nil, nil //nolint:nilnil // none has this name
	}
	at, err := a.inventory.find(ctx, s, "folder", s.Folder)
	if err != nil {
		return nil, err
	}
	ref, err := object.NewSearchIndex(a.v.Client).FindChild(ctx, at, escape(name))
	if isFault[types.ManagedObjectNotFound](err) {
		a.inventory.forget() // the folder, perhaps
	}
	if err != nil || ref == nil || ref.Reference().Type != "VirtualMachine" {
		return nil, err
	}
	return a.read(ctx, ref.Reference())
}

// provably reports whether a VM is provably of r: it carries the ownership tags of
// the class, and the machine's owner id or none and the machine's name. A VM
// with the machine's owner id may have any name, because machines that are
// restored elsewhere keep only the id. A template is no machine's.
func (s *spec) provably(vm *seen, r cloud.Ref) bool {
	return !vm.template && s.owns(vm.tags) && driverkit.IsOf(r, vm.owner(), vm.machine())
}

// List yields every VM in the class's folder that carries its ownership tags.
// Disks and interfaces of a VM live and go with it.
func (a *account) List(ctx context.Context, c cloud.Class, kinds ...cloud.Kind) iter.Seq2[cloud.Resource, error] {
	const op = "list VMs"
	s, err := driverkit.SpecOf[*spec](op, c)
	if err != nil {
		return driverkit.Failed[cloud.Resource](driverkit.Restrict(err))
	}
	all := func(yield func(cloud.Resource, error) bool) {
		for vm, err := range a.scan(ctx, s, vmPaths(), pageSize) {
			switch {
			case namesNothing(err):
				return // without the folder there is no VM in it
			case err != nil:
				yield(cloud.Resource{}, fail(op, err))
				return
			case vm.template || vm.bios == "" || !s.owns(vm.tags):
				continue
			}
			if !yield(driverkit.VMResource(vmOf(s, vm), maps.Clone(vm.tags)), nil) {
				return
			}
		}
	}
	return driverkit.List(kinds, driverkit.KindList{Kind: cloud.KindVM, All: all})
}

// Capacity returns what a node of c will offer: what the class says, else what the
// template has.
func (a *account) Capacity(ctx context.Context, c cloud.Class) (cloud.Capacity, error) {
	const op = "read template"
	s, err := driverkit.SpecOf[*spec](op, c)
	if err != nil {
		return cloud.Capacity{}, err
	}
	t, err := a.template(ctx, s)
	if err != nil {
		return cloud.Capacity{}, fail(op, err)
	}
	cpu, memory := s.NumCPUs, s.MemoryMB
	if cpu == 0 {
		cpu = t.config.Hardware.NumCPU
	}
	if memory == 0 {
		memory = int64(t.config.Hardware.MemoryMB)
	}
	resources := map[string]string{"cpu": fmt.Sprint(cpu), "memory": fmt.Sprintf("%dMi", memory)}
	if kib := s.diskKiB(t.config); kib > 0 {
		resources["ephemeral-storage"] = fmt.Sprintf("%dKi", kib)
	}
	arch := "amd64"
	if strings.Contains(strings.ToLower(s.GuestID+t.config.GuestId), "arm") {
		arch = "arm64"
	}
	return cloud.Capacity{Resources: resources, Architecture: arch}, nil
}

// diskKiB is the size that the first disk will have.
func (s *spec) diskKiB(c *types.VirtualMachineConfigInfo) int64 {
	const kibInGiB = 1 << 20
	if s.SystemDisk != nil && s.SystemDisk.SizeGB > 0 {
		return s.SystemDisk.SizeGB * kibInGiB
	}
	if disk := firstDisk(c); disk != nil {
		return disk.CapacityInKB
	}
	return 0
}

// firstDisk returns the disk that the VM boots from, or nil.
func firstDisk(c *types.VirtualMachineConfigInfo) *types.VirtualDisk {
	for _, d := range c.Hardware.Device {
		if disk, ok := d.(*types.VirtualDisk); ok {
			return disk
		}
	}
	return nil
}

// configured is a VM or template with its whole configuration.
type configured struct {
	ref       types.ManagedObjectReference
	config    *types.VirtualMachineConfigInfo
	snapshots *types.VirtualMachineSnapshotInfo // nil for none
}

// templateRef returns what the class clones.
func (a *account) templateRef(ctx context.Context, s *spec) (types.ManagedObjectReference, error) {
	if s.LibraryItem != nil {
		return a.libraryTemplate(ctx, *s.LibraryItem)
	}
	if s.TemplateVM == "" {
		return types.ManagedObjectReference{}, wrong("find templateVM", "templateVM",
			"is missing; name the VM or template to clone")
	}
	return a.inventory.find(ctx, s, "templateVM", s.TemplateVM)
}

// template returns what the class clones, as it is now.
func (a *account) template(ctx context.Context, s *spec) (configured, error) {
	ref, err := a.templateRef(ctx, s)
	if err != nil {
		return configured{}, err
	}
	c, err := a.configuration(ctx, ref)
	if isFault[types.ManagedObjectNotFound](err) {
		a.inventory.forget() // it was replaced, perhaps by one of the same name
	}
	return c, err
}

// configuration reads the whole configuration of a VM.
func (a *account) configuration(ctx context.Context, ref types.ManagedObjectReference) (configured, error) {
	var vm mo.VirtualMachine
	err := property.DefaultCollector(a.v.Client).RetrieveOne(ctx, ref, []string{
		"config.hardware", "config.vAppConfig", "config.guestId", "config.version", "config.changeVersion", "config.files",
		"snapshot",
	}, &vm)
	if err != nil {
		return configured{}, err
	}
	if vm.Config == nil {
		return configured{}, cloud.Errorf(cloud.Unavailable, "read VM", "NoConfiguration",
			"vCenter does not show the configuration of %s now", ref.Value)
	}
	return configured{ref, vm.Config, vm.Snapshot}, nil
}
