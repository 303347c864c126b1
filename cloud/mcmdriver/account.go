package mcmdriver

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// refused is noted in place of the time of a request that was refused.
const refused = "refused"

// goneRetry is when it is worth asking again whether a VM is gone, or initialised.
const goneRetry = 5 * time.Second

// account is one set of credentials.
type account struct {
	driver *driver
	secret map[string][]byte // without user data
	calls  *calls
}

// found is what the driver shows of a VM.
type found struct {
	response

	uninitialized bool
}

// Create looks for the VM, makes it if there is none, and initialises it. A request
// whose outcome is unknown is not repeated before the settle time is over.
func (a *account) Create(ctx context.Context, r cloud.CreateRequest) (cloud.VM, error) {
	if limit := a.driver.traits.Cloud.UserDataMax; limit > 0 && len(r.UserData) > limit {
		return cloud.VM{}, cloud.Errorf(cloud.Invalid, "check user data", "UserDataTooLarge",
			"it has %d bytes, and the cloud takes %d; make it smaller", len(r.UserData), limit)
	}
	if wrong := a.driver.traits.Cloud.Names.Problem(r.Name); wrong != "" {
		return cloud.VM{}, cloud.Errorf(cloud.Invalid, "check name", "InvalidName",
			"the name of machine %s %s; give its MachineSet another name", r.Name, wrong)
	}
	r.UserData, r.Annotations = slices.Clone(r.UserData), maps.Clone(r.Annotations)
	r.Object = cloned(r.Object)
	note := func(what string) error {
		if ctx.Err() != nil {
			return ctx.Err() // no one waits any more
		}
		return r.Checkpoint(ctx, r.Token+" "+what)
	}
	vm, err := do(ctx, a.calls, turnOf(r.Ref), func(ctx context.Context) (cloud.VM, error) {
		return a.ensure(ctx, r, note)
	})
	return vm, failedCreate("create machine", r.Class, err)
}

// cloned is o for a call that may outlive its caller.
func cloned(o cloud.Object) cloud.Object {
	o.Labels, o.Annotations = maps.Clone(o.Labels), maps.Clone(o.Annotations)
	return o
}

func turnOf(r cloud.Ref) string { return r.Class.Namespace + "/" + r.Name }

// ensure returns the VM of r, made or initialised if need be. What note is given is kept
// with the attempt: when a VM is asked for, and that it was refused.
func (a *account) ensure(ctx context.Context, r cloud.CreateRequest, note func(string) error) (cloud.VM, error) {
	f, err := a.find(ctx, r.Ref)
	if err != nil {
		return cloud.VM{}, failed("look up machine", err)
	}
	if f == nil {
		if f, err = a.make(ctx, r, note); err != nil {
			return cloud.VM{}, err
		}
	}
	if !f.uninitialized {
		return a.vm(r.Ref, f)
	}
	return a.initialize(ctx, r.Ref, f, a.machine(r.Ref, r.Annotations, r.UserData))
}

// make asks for a VM, unless an earlier request may still show one.
func (a *account) make(ctx context.Context, r cloud.CreateRequest, note func(string) error) (*found, error) {
	if wait := a.settling(r); wait > 0 {
		e := cloud.Errorf(cloud.Unavailable, "create machine", "Settling",
			"it is not known what became of an earlier request for this VM; it is repeated after the settle time")
		e.RetryAfter = wait
		return nil, e
	}
	if err := note(a.driver.traits.Now().UTC().Format(time.RFC3339Nano)); err != nil {
		return nil, cloud.Errorf(cloud.Unknown, "create machine", "Checkpoint", "note down the request: %w", err)
	}
	in := a.machine(r.Ref, r.Annotations, nil)
	a.boot(in, r.UserData)
	made, err := a.driver.methods.create(ctx, in)
	if isRefusal(err) {
		// There is no request to wait for. If that cannot be noted, the next call waits for the settle time.
		_ = note(refused)
	}
	if err != nil {
		return nil, err
	}
	return &found{response: orEmpty(made), uninitialized: true}, nil
}

// settling returns how long an earlier request of this attempt may still show a VM.
func (a *account) settling(r cloud.CreateRequest) time.Duration {
	token, at, _ := strings.Cut(r.State, " ")
	asked, err := time.Parse(time.RFC3339Nano, at)
	if err != nil || token != r.Token {
		return 0
	}
	return max(0, asked.Add(a.driver.traits.Cloud.Settle).Sub(a.driver.traits.Now()))
}

// mayHaveMade reports whether a VM was asked for, as far as the note of the last attempt says, and not refused.
func mayHaveMade(state string) bool { return state != "" && !strings.HasSuffix(state, " "+refused) }

// initialize finishes the configuration of the VM in f, where the driver has such a step.
func (a *account) initialize(ctx context.Context, r cloud.Ref, f *found, in request) (cloud.VM, error) {
	done, err := a.driver.methods.initialize(ctx, in)
	switch code, _ := statusOf(err); {
	case code == codeUnimplemented:
	case code == codeNotFound, code == codeUninitialized: // it does not show yet
		vm, err := a.vm(r, f)
		vm.RetryAfter = goneRetry
		return vm, err
	case err != nil:
		return cloud.VM{}, failedCreate("initialize machine", r.Class, err)
	case done != nil:
		if done.ProviderID != "" {
			f.ProviderID = done.ProviderID
		}
		if done.NodeName != "" {
			f.NodeName = done.NodeName
		}
	}
	f.uninitialized = false
	return a.vm(r, f)
}

// find returns the VM of r, or nil if there is none. A driver that cannot look one up without
// its providerID, or at all, lists those of the class; so it is done without a name, for which some drivers show
// any VM.
func (a *account) find(ctx context.Context, r cloud.Ref) (*found, error) {
	if r.Name == "" {
		return a.findListed(ctx, r)
	}
	out, err := a.driver.methods.status(ctx, a.machine(r, nil, nil))
	code, _ := statusOf(err)
	f := &found{response: orEmpty(out), uninitialized: code == codeUninitialized}
	switch {
	case err == nil, f.uninitialized:
		return f, nil
	case code == codeUnimplemented, a.mayMiss(r) && (code == codeNotFound || code == codeInvalidArgument):
		f, listErr := a.findListed(ctx, r)
		if listCode, _ := statusOf(listErr); code != codeNotFound || listCode != codeUnimplemented {
			return f, listErr
		}
		return nil, nil //nolint:nilnil // none is no error
	case code == codeNotFound:
		return nil, nil //nolint:nilnil // none is no error
	}
	return nil, err
}

// mayMiss reports whether the driver may miss the VM of r since it has no providerID.
func (a *account) mayMiss(r cloud.Ref) bool {
	return r.ProviderID == "" && !a.driver.traits.FindsByName
}

// isOf reports whether a VM with this providerID may be that of r: the forms of a providerID may differ.
func (a *account) isOf(r cloud.Ref, providerID string) bool {
	want, known := a.driver.DecodeProviderID(r.ProviderID)
	got, ok := a.driver.DecodeProviderID(providerID)
	return !known || !ok || want == got
}

// findListed is find by the list of the class.
func (a *account) findListed(ctx context.Context, r cloud.Ref) (*found, error) {
	out, err := a.driver.methods.list(ctx, a.class(r.Class, nil))
	if err != nil {
		return nil, err
	}
	want, _ := a.driver.DecodeProviderID(r.ProviderID)
	var ids []string
	for id, name := range orEmpty(out).MachineList {
		own, ok := a.driver.DecodeProviderID(id)
		if id == r.ProviderID || ok && own == want || r.ProviderID == "" && r.Name != "" && name == r.Name {
			ids = append(ids, id)
		}
	}
	switch len(ids) {
	case 0:
		return nil, nil //nolint:nilnil // none is no error
	case 1:
		return &found{response: response{ProviderID: ids[0]}}, nil
	}
	slices.Sort(ids)
	return nil, cloud.Errorf(cloud.Unknown, "look up machine", "SeveralVMs", "%s has the VMs %v; delete all but one",
		r.Name, ids)
}

// orEmpty is r, or a response without content.
func orEmpty(r *response) response {
	if r == nil {
		return response{}
	}
	return *r
}

// vm is f in the words of the contract. MCM's drivers know no states: what exists runs.
func (a *account) vm(r cloud.Ref, f *found) (cloud.VM, error) {
	if f.ProviderID == "" {
		f.ProviderID = r.ProviderID
	}
	id, ok := a.driver.DecodeProviderID(f.ProviderID)
	if !ok {
		return cloud.VM{}, cloud.Errorf(cloud.Unknown, "read providerID", "BadProviderID",
			"the driver returned %q, which is no providerID of cloud %s", f.ProviderID, a.driver.traits.Cloud.Name)
	}
	if f.NodeName == "" && a.driver.traits.Cloud.NodeNamed {
		f.NodeName = r.Name
	}
	vm := cloud.VM{
		ID: id, ProviderID: f.ProviderID, Name: r.Name, NodeName: f.NodeName, State: cloud.StateRunning, Reason: "Exists",
		NodeProviderID: a.driver.nodeProviderID(f.ProviderID),
		Region:         r.Class.Region, Zone: r.Class.Zone, InstanceType: r.Class.InstanceType,
	}
	if f.uninitialized || f.NodeName == "" {
		vm.State, vm.Reason = cloud.StatePending, "Uninitialized"
	}
	for _, address := range f.Addresses {
		vm.Addresses = append(vm.Addresses, cloud.Address{Kind: address.Type, Value: address.Address})
	}
	return vm, nil
}

// Get returns the VM as the driver shows it.
func (a *account) Get(ctx context.Context, r cloud.Ref) (cloud.VM, error) {
	const op = "look up machine"
	r.Object = cloned(r.Object)
	f, err := promptly(ctx, func() (*found, error) { return a.find(ctx, r) })
	if err != nil {
		return cloud.VM{}, failed(op, err)
	}
	if f == nil {
		return cloud.VM{}, cloud.Errorf(cloud.NotFound, op, codeNotFound, "the driver finds no VM of machine %s", r.Name)
	}
	return a.vm(r, f)
}

// Delete asks the driver to delete the VM and looks whether it is gone: some of MCM's
// drivers return before it is.
func (a *account) Delete(ctx context.Context, r cloud.Ref) (cloud.Deletion, error) {
	r.Object = cloned(r.Object)
	d, err := do(ctx, a.calls, turnOf(r), func(ctx context.Context) (cloud.Deletion, error) {
		gone, err := a.remove(ctx, &r)
		if r.ProviderID == "" && !mayHaveMade(r.State) && isUnreadable(err) {
			return cloud.Deletion{Done: true}, nil
		}
		if gone || err != nil {
			return cloud.Deletion{Done: gone}, err
		}
		f, err := a.left(ctx, r)
		if f == nil || err != nil {
			return cloud.Deletion{Done: err == nil}, err
		}
		id, _ := a.driver.DecodeProviderID(f.ProviderID)
		return cloud.Deletion{RetryAfter: goneRetry, Remaining: []string{fmt.Sprintf("%s %s", cloud.KindVM, id)}}, nil
	})
	return d, failed("delete machine", err)
}

// remove has the driver delete the VM of r, and reports whether there was none. Where r has no providerID, it is
// given that of the VM which is listed under its name, since some drivers need it: without one they
// refuse, or report success. That they refuse is no error where no VM is listed. Without a name, only a
// VM that is listed is asked for: drivers that look by name might take any.
func (a *account) remove(ctx context.Context, r *cloud.Ref) (gone bool, err error) {
	missed := a.mayMiss(*r)
	if missed || r.Name == "" {
		f, err := a.findListed(ctx, *r)
		if code, _ := statusOf(err); err != nil && code != codeUnimplemented {
			return false, err
		}
		switch {
		case f != nil:
			r.ProviderID = f.ProviderID
		case r.Name == "":
			return true, nil
		}
	}
	_, err = a.driver.methods.remove(ctx, a.machine(*r, nil, nil))
	switch code, _ := statusOf(err); {
	case code == codeNotFound:
		return true, nil
	case code == codeInvalidArgument && missed && r.ProviderID == "" && mayHaveMade(r.State):
		return false, nil
	}
	return false, err
}

// left is find after the driver has deleted the VM of r. A driver that cannot tell by then that it
// is gone is asked for a list. A VM with another providerID is not what is left: drivers that look by
// name alone show it.
func (a *account) left(ctx context.Context, r cloud.Ref) (*found, error) {
	f, err := a.find(ctx, r)
	if code, _ := statusOf(err); code == "Internal" || code == "Unknown" {
		listed, failed := a.findListed(ctx, r)
		if failed == nil {
			return listed, nil
		}
	}
	if f != nil && !a.isOf(r, f.ProviderID) {
		return nil, nil //nolint:nilnil // none is no error
	}
	return f, err
}

// List yields the VMs of the class, by providerID. One without the name of a machine is left
// out, since no one can tell whose it is.
func (a *account) List(ctx context.Context, c cloud.Class, kinds ...cloud.Kind) iter.Seq2[cloud.Resource, error] {
	return func(yield func(cloud.Resource, error) bool) {
		if !cloud.Wants(kinds, cloud.KindVM) {
			return
		}
		out, err := promptly(ctx, func() (*response, error) { return a.driver.methods.list(ctx, a.class(c, nil)) })
		if err != nil {
			yield(cloud.Resource{}, failed("list machines", err))
			return
		}
		machines := orEmpty(out).MachineList
		for _, id := range slices.Sorted(maps.Keys(machines)) {
			name := machines[id]
			if name == "" {
				continue
			}
			vm, err := a.vm(cloud.Ref{Name: name, Class: c}, &found{response: response{ProviderID: id}})
			if !yield(cloud.Resource{Kind: cloud.KindVM, ID: vm.ID, MachineName: name, VM: &vm}, err) || err != nil {
				return
			}
		}
	}
}

// Capacity is always an error: MCM's drivers do not know it.
func (a *account) Capacity(_ context.Context, c cloud.Class) (cloud.Capacity, error) {
	return cloud.Capacity{}, cloud.Errorf(cloud.Invalid, "look up capacity", "NoCapacity",
		"a driver of MCM's does not know what a node of class %s offers; write it into the class's nodeTemplate", c.Name)
}
