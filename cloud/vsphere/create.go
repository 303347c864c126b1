package vsphere

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

const opCreate = "create VM"

// Create makes the VM of r step by step: clone, configure, tag, power on. It
// asks for the next step when the last one is done, and never waits for one.
func (a *account) Create(ctx context.Context, r cloud.CreateRequest) (cloud.VM, error) {
	s, err := driverkit.SpecOf[*spec](opCreate, r.Class)
	if err != nil {
		return cloud.VM{}, err
	}
	if err := checkRequest(s, r); err != nil {
		return cloud.VM{}, err
	}
	vm, err := a.ensure(ctx, s, r)
	if err != nil {
		return cloud.VM{}, s.offered(fail(opCreate, err))
	}
	if vm == nil {
		return s.expected(r), nil
	}
	s = s.orIn(vm.zone())
	wait, err := a.proceed(ctx, s, r, vm)
	if err != nil {
		return cloud.VM{}, s.offered(fail(opCreate, err))
	}
	out := vmOf(s, vm)
	out.RetryAfter = wait
	if vm.half() {
		out.ProviderID, out.NodeProviderID = "", "" // see expected
	}
	return out, nil
}

// checkRequest refuses what cannot work, before anything is made.
func checkRequest(s *spec, r cloud.CreateRequest) error {
	if err := cloud.Worst(opCreate, slices.Concat(r.Problems(nameLimits, userDataMax), s.Problems),
		cloud.BlocksCreate); err != nil {
		return err
	}
	if r.Zone != "" && r.ProviderID == "" {
		if _, err := s.in(r.Zone); err != nil {
			return err
		}
	}
	if r.Token == "" && r.ProviderID == "" {
		return cloud.Errorf(cloud.Invalid, opCreate, "TokenMissing", "the idempotency token is missing")
	}
	return nil
}

// offered adds the offering that is exhausted to an error that lacks it: to a copy, because
// several callers may share the error.
func (s *spec) offered(err error) error {
	e, ok := err.(*cloud.Error) //nolint:errorlint // fail returns nothing else
	if !ok || e.Code != cloud.Exhausted || e.Offering != nil {
		return err
	}
	mine := *e
	mine.Offering = &cloud.Offering{
		Region: s.Region, Zone: cmp.Or(s.Zone, s.HostSystem, s.ResourcePool, s.ComputeCluster),
		InstanceType: s.source(),
	}
	return &mine
}

// biosUUID and instanceUUID follow from the token, so that every call of an
// attempt asks for the same VM.
func biosUUID(r cloud.CreateRequest) string {
	return uuid.NewSHA1(uuid.NameSpaceURL, []byte("bios "+r.Name+" "+r.Token)).String()
}

func instanceUUID(r cloud.CreateRequest) string {
	return uuid.NewSHA1(uuid.NameSpaceURL, []byte("instance "+r.Name+" "+r.Token)).String()
}

// expected is the VM while it is being cloned. It has no providerID before it is
// configured: a machine that has one gets no other VM when the clone fails, and
// its boot data is not sent again.
func (s *spec) expected(r cloud.CreateRequest) cloud.VM {
	return cloud.VM{
		ID: biosUUID(r), Name: r.Name, OwnerID: r.OwnerID, NodeName: r.Name,
		State: cloud.StatePending, Reason: "cloning", Region: s.Region, Zone: s.zoneFor(r), RetryAfter: cloneWait,
	}
}

// ensure returns the VM of r, or nil while it is being cloned.
func (a *account) ensure(ctx context.Context, s *spec, r cloud.CreateRequest) (*seen, error) {
	if r.ProviderID != "" {
		return a.shown(ctx, s, r)
	}
	n, taken := noteFor(r), ""
	if n.Task != "" {
		vm, done, err := a.cloned(ctx, s, r, &n)
		taken = collision(err)
		if vm != nil || err != nil && taken == "" || !done {
			return vm, err
		}
	}
	return a.foundOrCloned(ctx, s, r, n, taken)
}

// foundOrCloned looks for the VM by name, and asks for it if there is none. taken is the fault by which vCenter
// has just refused the name; empty if it has not. Mostly somebody was faster, perhaps we; else something that
// is no VM has the name, or files that an earlier try has left.
func (a *account) foundOrCloned(ctx context.Context, s *spec, r cloud.CreateRequest, n note, taken string) (
	*seen, error,
) {
	vms, stranger, err := a.byName(ctx, s, r.Ref)
	switch {
	case err != nil:
		return nil, err
	case len(vms) > 1:
		return nil, several(opCreate, r.Ref, vms)
	case len(vms) == 1:
		return vms[0], nil
	case stranger != nil && stranger.bios == "":
		return nil, nil //nolint:nilnil // it is being made, perhaps for r
	case stranger != nil:
		return nil, cloud.Worst(opCreate, []cloud.Problem{{
			Severity: cloud.BlocksCreate, Field: "metadata.name",
			Message: fmt.Sprintf(
				"%q is the name of a VM in folder %q that is not this machine's (%s); rename that VM or choose another folder",
				r.Name, s.Folder, stranger.ref.Value),
		}}, cloud.Warning)
	case taken != "":
		return nil, cloud.Errorf(cloud.Unavailable, opCreate, "NameTaken",
			"vCenter refuses the name %q (%s) and shows no VM in folder %q that has it: rename or remove the folder, the vApp "+
				"or the files on the datastore that do; it is tried again", r.Name, taken, s.Folder)
	}
	return nil, a.clone(ctx, s, r, n)
}

// shown returns the VM whose id stands in r. It never makes another.
func (a *account) shown(ctx context.Context, s *spec, r cloud.CreateRequest) (*seen, error) {
	vms, err := a.find(ctx, s, r.Ref)
	switch {
	case err != nil:
		return nil, err
	case len(vms) == 0:
		return nil, cloud.Errorf(cloud.Unavailable, opCreate, "NotShown", "vCenter does not show the VM of %s", r.ProviderID)
	case len(vms) > 1:
		return nil, several(opCreate, r.Ref, vms)
	}
	return vms[0], nil
}

// cloned looks at the task of the clone. Done is true once it has ended; the VM is
// nil if it ended in nothing that helps. Then the note is that of the next try.
func (a *account) cloned(ctx context.Context, s *spec, r cloud.CreateRequest, n *note) (
	vm *seen, done bool, err error,
) {
	info, err := a.task(ctx, n.Task)
	switch {
	case err != nil:
		return nil, false, err
	case info == nil:
		return nil, true, nil
	case unfinished(*info):
		return nil, false, nil
	case info.State == types.TaskInfoStateSuccess:
		vm, err = a.result(ctx, s, r, info)
		return vm, true, err
	}
	// The failure is told once; then Create starts again.
	failed := *n
	*n = note{Token: r.Token, Clone: true}
	if err := driverkit.Note(ctx, opCreate, r, n); err != nil {
		return nil, true, err
	}
	if failed.Zone != s.zoneFor(r) {
		return nil, true, nil // another zone is asked for by now
	}
	return nil, true, s.orIn(failed.Zone).offered(fail(opCreate, cloneFailure(info)))
}

// result returns the VM that a clone has made; nil if it is not the machine's,
// or gone.
func (a *account) result(ctx context.Context, s *spec, r cloud.CreateRequest, info *types.TaskInfo) (*seen, error) {
	ref, ok := info.Result.(types.ManagedObjectReference)
	if !ok {
		return nil, nil //nolint:nilnil // there is none
	}
	vm, err := a.read(ctx, ref)
	if vm != nil && !s.provably(vm, r.Ref) {
		vm = nil
	}
	return vm, err
}

// cloneFailure is what a clone failed with; nil if vCenter does not say.
func cloneFailure(info *types.TaskInfo) error {
	if info.Error == nil || info.Error.Fault == nil {
		return nil
	}
	return taskErrorOf(info.Error)
}

// collision returns the fault in err that says that a name is taken; empty if there is none.
func collision(err error) string {
	e, _ := errors.AsType[*cloud.Error](err)
	if e != nil && slices.Contains([]string{"DuplicateName", "FileAlreadyExists", "AlreadyExists"}, e.Reason) {
		return e.Reason
	}
	return ""
}

// clone asks for the clone in the zone of the request.
func (a *account) clone(ctx context.Context, s *spec, r cloud.CreateRequest, n note) error {
	at, err := s.in(s.zoneFor(r))
	if err != nil {
		return err
	}
	if at.Zone != n.Zone {
		n.Zone, n.Host, n.Datastore = at.Zone, "", ""
	}
	return at.offered(fail(opCreate, a.cloneAt(ctx, at, r, n)))
}

// cloneAt asks for the clone at one place and keeps the task. A place that was chosen
// for it is kept from before the request until vCenter refuses it.
func (a *account) cloneAt(ctx context.Context, s *spec, r cloud.CreateRequest, n note) error {
	n.Task = ""
	req, err := a.cloneRequest(ctx, s, r, &n)
	if err != nil {
		return err
	}
	n.Clone = true
	if err := driverkit.Note(ctx, opCreate, r, n); err != nil {
		return err
	}
	made, err := methods.CloneVM_Task(ctx, a.v, req)
	if isFault[types.ManagedObjectNotFound](err) {
		a.inventory.forget()
	}
	if fault(err) != nil && n.Datastore != "" {
		if err := driverkit.Note(ctx, opCreate, r, note{Token: r.Token, Clone: true, Zone: n.Zone}); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	n.Task = made.Returnval.Value
	return driverkit.Note(ctx, opCreate, r, n)
}

// cloneRequest is the call that asks for the clone. What can be known to be
// wrong is found out here.
func (a *account) cloneRequest(ctx context.Context, s *spec, r cloud.CreateRequest, n *note) (
	*types.CloneVM_Task, error,
) {
	t, err := a.template(ctx, s)
	if err != nil {
		return nil, err
	}
	if err := s.fits(r, t); err != nil {
		return nil, err
	}
	m := s.markFor(r, phaseCloned)
	if m.DRS, err = a.requires(ctx, s); err != nil {
		return nil, err
	}
	nics, err := a.backings(ctx, s)
	if err != nil {
		return nil, err
	}
	folder, err := a.inventory.find(ctx, s, "folder", s.Folder)
	if err != nil {
		return nil, err
	}
	spec := types.VirtualMachineCloneSpec{Config: &types.VirtualMachineConfigSpec{
		Uuid: biosUUID(r), InstanceUuid: instanceUUID(r), ExtraConfig: []types.BaseOptionValue{m.entry()},
	}}
	if spec.Customization, err = a.customization(ctx, s); err != nil {
		return nil, err
	}
	if err := s.link(t, &spec); err != nil {
		return nil, err
	}
	// DRS recommends a host that has the networks only if the clone is asked for with them. The MAC addresses
	// that vCenter gave the template stay the template's.
	for _, card := range cards(t.config) {
		if card.AddressType != string(types.VirtualEthernetCardMacTypeManual) {
			card.MacAddress = ""
		}
	}
	spec.Location.DeviceChange = interfaceChanges(t.config, nics)
	if err := a.place(ctx, s, r, placing{t, folder, n}, &spec); err != nil {
		return nil, err
	}
	return &types.CloneVM_Task{This: t.ref, Folder: folder, Name: escape(r.Name), Spec: spec}, nil
}

// requires looks for what a VM gets after it is cloned, so that it is not cloned in vain,
// and returns what it will belong to in its compute cluster.
func (a *account) requires(ctx context.Context, s *spec) (*membership, error) {
	if _, err := a.tagIDs(ctx, s); err != nil {
		return nil, err
	}
	return a.membershipOf(ctx, s)
}

// markFor is the mark of what is made for r.
func (s *spec) markFor(r cloud.CreateRequest, phase string) mark {
	tags := driverkit.MergeTags(r.Tags, s.Tags, nil)
	return mark{Machine: r.Name, Owner: r.OwnerID, Token: r.Token, Phase: phase, Tags: tags, Zone: s.Zone}
}

// proceed asks for the next step of a VM that is there. It returns how long to
// wait for it; 0 is done.
func (a *account) proceed(ctx context.Context, s *spec, r cloud.CreateRequest, vm *seen) (time.Duration, error) {
	if vm.busy() {
		return powerWait, nil
	}
	if state, _ := stateOf(vm); state == cloud.StateFailed || state == cloud.StateUnknown {
		return 0, nil // whoever looks at its state decides
	}
	switch {
	case vm.half():
		return configureWait, a.complete(ctx, s, r, vm)
	case vm.power != types.VirtualMachinePowerStatePoweredOn:
		return a.start(ctx, s, vm)
	case vm.mark != nil && vm.mark.Phase != phaseStarted:
		m := *vm.mark
		m.Phase = phaseStarted
		return configureWait, a.reconfigure(ctx, vm.ref,
			types.VirtualMachineConfigSpec{ExtraConfig: []types.BaseOptionValue{m.entry()}})
	}
	if s.WaitForIP && !hasAddress(vm) {
		return addressWait, nil
	}
	return 0, nil
}

// complete asks for all that a clone lacks, after it has told why that failed
// before.
func (a *account) complete(ctx context.Context, s *spec, r cloud.CreateRequest, vm *seen) error {
	if r.ProviderID != "" {
		return cloud.Errorf(cloud.Unknown, opCreate, "NeverConfigured",
			"VM %s was never configured, and what it should boot with is not known any more; delete the machine", vm.bios)
	}
	if err := a.reports.failure(vm, "reconfigure"); err != nil {
		return err
	}
	at, err := s.in(vm.zone())
	if err != nil {
		return err
	}
	return a.configure(ctx, at, r, vm)
}

// start tags a VM, makes it a member of its rule and group, and powers it on. One that
// has run before stays off: whoever stopped it had a reason.
func (a *account) start(ctx context.Context, s *spec, vm *seen) (time.Duration, error) {
	if vm.mark == nil || vm.mark.Phase == phaseStarted {
		return 0, nil
	}
	if err := a.fields.set(ctx, vm, s.Tags); err != nil {
		return 0, err
	}
	if err := a.attach(ctx, s, vm.ref); err != nil {
		return 0, err
	}
	if joined, err := a.join(ctx, s, vm); err != nil || !joined {
		return configureWait, err
	}
	if err := a.reports.failure(vm, "powerOn"); err != nil {
		return 0, err
	}
	_, err := methods.PowerOnVM_Task(ctx, a.v, &types.PowerOnVM_Task{This: vm.ref})
	return powerWait, err
}

func hasAddress(vm *seen) bool {
	for _, x := range addresses(vm) {
		if x.Kind == "InternalIP" {
			return true
		}
	}
	return false
}

// reconfigure asks for a change and does not wait for it.
func (a *account) reconfigure(ctx context.Context, ref types.ManagedObjectReference,
	spec types.VirtualMachineConfigSpec,
) error {
	_, err := methods.ReconfigVM_Task(ctx, a.v, &types.ReconfigVM_Task{This: ref, Spec: spec})
	return err
}
