package kubevirt

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

const opCreate = "create VM"

// Create makes the Secret and the VM of r, once by their names, unless they are there.
func (a *account) Create(ctx context.Context, r cloud.CreateRequest) (cloud.VM, error) {
	s, err := driverkit.SpecOf[*spec](opCreate, r.Class)
	if err != nil {
		return cloud.VM{}, err
	}
	labels, wrong := s.labelsFor(r)
	problems := slices.Concat(s.Problems, r.Problems(nameLimits, userDataMax), wrong, s.wrongRequest(r))
	if err := cloud.Worst(opCreate, problems, cloud.BlocksCreate); err != nil {
		return cloud.VM{}, err
	}
	vm, err := driverkit.Creation{
		Find: func(ctx context.Context) ([]cloud.VM, error) {
			if a.isFirst(r) {
				return nil, nil
			}
			return a.find(ctx, opCreate, s, r.Ref)
		},
		Make: func(ctx context.Context) (cloud.VM, error) { return a.make(ctx, s, r, labels) },
		Finish: func(ctx context.Context, vm cloud.VM) (time.Duration, error) {
			return a.placed(ctx, s, r, vm)
		},
	}.Do(ctx, opCreate, r)
	if vm.RetryAfter > 0 && r.ProviderID == "" && len(r.Class.NamedZones()) > 1 {
		vm.ProviderID, vm.NodeProviderID = "", "" // a VM on record cannot be asked for in another zone
	}
	return vm, err
}

// isFirst reports whether this process has not asked for the VM of this attempt. Then it asks before it looks: the API
// server makes no second object of a name, so that most VMs cost two calls.
func (a *account) isFirst(r cloud.CreateRequest) bool {
	_, asked := a.asked.Known(secretName(r))
	return !asked && r.ProviderID == ""
}

// wrongRequest are the problems of a request that the class's fields make.
func (s *spec) wrongRequest(r cloud.CreateRequest) []cloud.Problem {
	var problems []cloud.Problem
	bad := func(field, message string) {
		problems = append(problems, cloud.Problem{Severity: cloud.BlocksCreate, Field: field, Message: message})
	}
	if !r.Class.TakesZone(r.Zone) {
		bad("zone", "is none of the class; add it to zones of the provider spec")
	}
	if len(r.Name) > 0 && r.Name[len(r.Name)-1] == '-' {
		bad("name", "ends with a dash, and a DNS label does not; choose another")
	}
	if len(s.SSHKeys) > 0 && bytes.Contains(r.UserData, []byte("ssh_authorized_keys:")) {
		bad("providerSpec.sshKeys", "is set, and the user data has ssh_authorized_keys; remove one of them")
	}
	if len(s.SSHKeys) > 0 && cloud.IgnitionVersion(r.UserData) != "" {
		bad("providerSpec.sshKeys", "is set, and the user data is for Ignition; write them into its passwd.users")
	}
	return problems
}

// make makes the Secret and then the VM, which boots from it.
func (a *account) make(ctx context.Context, s *spec, r cloud.CreateRequest, labels map[string]string) (
	cloud.VM, error,
) {
	a.asked.Put(secretName(r), true)
	existed, err := a.makeSecret(ctx, s, r, labels)
	if err != nil {
		return cloud.VM{}, err
	}
	if existed { // another process has asked for the VM, too
		found, err := a.find(ctx, opCreate, s, r.Ref)
		if err != nil {
			return cloud.VM{}, err
		}
		if len(found) > 0 {
			return driverkit.One(opCreate, r.Ref, found)
		}
	}
	var made machine
	e := a.client.post(ctx, opCreate, machines, s.machineFor(r, labels), &made)
	switch {
	case e == nil:
		return s.vmOf(made, nil), nil
	case reasonOf(e) == reasonExists:
		return a.taken(ctx, s, r)
	}
	return cloud.VM{}, s.refused(r, e)
}

// makeSecret makes the Secret, and reports whether it exists already. One of this attempt has the same
// content: its name says which attempt it is of.
func (a *account) makeSecret(ctx context.Context, s *spec, r cloud.CreateRequest, labels map[string]string) (
	existed bool, err error,
) {
	e := a.client.post(ctx, opCreate, secrets, s.secretFor(r, labels), nil)
	switch {
	case e == nil:
		return false, nil
	case reasonOf(e) != reasonExists:
		return false, s.refused(r, e)
	}
	var there object
	found, err := a.client.get(ctx, opCreate, secrets, secretName(r), &there)
	switch {
	case err != nil:
		return false, err
	case found && !s.ours(there.Metadata, r.Ref):
		return false, cloud.Errorf(cloud.Unknown, opCreate, "NameTaken",
			"the Secret %s is there and is not of machine %q; delete it or rename the machine", secretName(r), r.Name)
	}
	return true, nil
}

// taken returns the VM that has the name of the machine, if it is the machine's: another process
// has made it meanwhile.
func (a *account) taken(ctx context.Context, s *spec, r cloud.CreateRequest) (cloud.VM, error) {
	var there machine
	found, err := a.client.get(ctx, opCreate, machines, r.Name, &there)
	switch {
	case err != nil:
		return cloud.VM{}, driverkit.Restrict(err)
	case found && s.ours(there.Metadata, r.Ref):
		return s.vmOf(there, nil), nil
	}
	return cloud.VM{}, cloud.Errorf(cloud.Unknown, opCreate, "NameTaken",
		"a VM of the name %q is there and is not the machine's; it is asked for again, until that VM has gone", r.Name)
}

// Waits for a VM that does not run yet.
const (
	placeWait  = 10 * time.Second
	placeGrace = 2 * time.Minute
)

// placed returns when to look again at a VM that does not run yet: an image that is imported, a volume that is bound
// and an instance that starts take as long as they do, and only then it shows whether there is room. None is a
// shortage: at once if a quota refuses a part of the VM, and after a while if no node has room, since nodes that come
// up look like it. The VM stays, and is taken when it is asked for again and has found its place.
func (a *account) placed(ctx context.Context, s *spec, r cloud.CreateRequest, vm cloud.VM) (time.Duration, error) {
	elsewhere := r.ProviderID == "" && r.Zone != "" && vm.Zone != r.Zone
	switch {
	case elsewhere && vm.State == cloud.StateDeleting, elsewhere && vm.Reason == unschedulable:
		return 0, a.leave(ctx, s, r, vm)
	case vm.State != cloud.StatePending && vm.State != cloud.StateUnknown:
		return 0, nil
	case vm.Reason == reasonQuota:
		e := cloud.Errorf(cloud.Exhausted, opCreate, reasonQuota, "a quota of the namespace has no room for VM %s: %s", vm.ID,
			driverkit.Brief(vm.Message))
		e.Offering = s.ofQuota(r)
		return 0, e
	case vm.Reason != unschedulable:
		return placeWait, nil
	}
	since, err := a.unscheduled(ctx, vm)
	if err != nil || a.now().Sub(since) < placeGrace {
		return placeWait, driverkit.Restrict(err)
	}
	e := cloud.Errorf(cloud.Exhausted, opCreate, "Unschedulable", "no node of the cluster has room for VM %s: %s", vm.ID,
		driverkit.Brief(vm.Message))
	if o := s.offering(r); o.InstanceType != "" || o.Zone != "" {
		e.Offering = &o
	}
	return 0, e
}

// leave removes a VM that found no node in its zone, for the machine to get one in another: it never ran, and it has
// the machine's name.
func (a *account) leave(ctx context.Context, s *spec, r cloud.CreateRequest, vm cloud.VM) error {
	found, err := a.machines(ctx, opCreate, s, r.Ref)
	if err != nil {
		return driverkit.Restrict(err)
	}
	for _, m := range found {
		if m.Metadata.Name != vm.ID || m.Metadata.Deleted != nil || m.Status.PrintableStatus != unschedulable {
			continue
		}
		if _, err := a.client.remove(ctx, opCreate, machines, m.Metadata); err != nil {
			return driverkit.Restrict(err)
		}
	}
	e := cloud.Errorf(cloud.Unavailable, opCreate, "LeavesZone",
		"VM %s found no node in zone %s and is being deleted; it is requested in zone %s when it has gone", vm.ID, vm.Zone,
		r.Zone)
	e.RetryAfter = vmWait
	return e
}

// unscheduled returns since when the scheduler finds no node for a VM: now if it has found one meanwhile, and since
// the VM was made if it does not say.
func (a *account) unscheduled(ctx context.Context, vm cloud.VM) (time.Time, error) {
	var m machine
	found, err := a.client.get(ctx, opCreate, machines, vm.ID, &m)
	said := conditionOf(m.Status.Conditions, podScheduled)
	switch {
	case err != nil:
		return time.Time{}, err
	case !found || said.Status != "False":
		return a.now(), nil
	case said.Since == nil:
		return vm.Created, nil
	}
	return *said.Since, nil
}
