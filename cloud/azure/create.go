package azure

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

const (
	opCreate = "create VM"

	// pollWait is when to look at a VM again: Azure answers 12 questions a minute about one.
	pollWait = 5 * time.Second
	// nicReservation is how long an interface stays reserved for a VM that could not be made.
	nicReservation = 3 * time.Minute
)

// Create makes the VM of r, unless it is there.
func (a *account) Create(ctx context.Context, r cloud.CreateRequest) (cloud.VM, error) {
	s, err := driverkit.SpecOf[*spec](opCreate, r.Class)
	if err != nil {
		return cloud.VM{}, err
	}
	_, wrong := s.tagsFor(r, map[string]string{createdTag: time.RFC3339})
	problems := slices.Concat(s.Problems, r.Problems(nameLimits, userDataMax), wrong, s.zoneProblem(r),
		s.nameProblems(r.Name))
	if err := cloud.Worst(opCreate, problems, cloud.BlocksCreate); err != nil {
		return cloud.VM{}, err
	}
	c := &creation{account: a, spec: s, request: r}
	vm, err := driverkit.Creation{Find: c.find, Make: c.make, Finish: c.finish}.Do(ctx, opCreate, r)
	if vm.RetryAfter > 0 && vm.State == cloud.StatePending && r.ProviderID == "" {
		vm.ProviderID, vm.NodeProviderID = "", "" // one that turns out to find no room is taken back
	}
	if err == nil && vm.RetryAfter <= 0 && vm.State == cloud.StateRunning {
		if vm.Addresses, err = a.addresses(ctx, opCreate, s, c.seen); err != nil {
			return cloud.VM{}, driverkit.Restrict(err)
		}
	}
	return vm, err
}

// zoneProblem is what is wrong with the zone of a request, if anything.
func (s *spec) zoneProblem(r cloud.CreateRequest) []cloud.Problem {
	if r.Zone == "" || r.Class.TakesZone(r.Zone) {
		return nil
	}
	return []cloud.Problem{{
		Severity: cloud.BlocksCreate, Field: "providerSpec.properties.zone",
		Message: "is missing, and the machine wants to be in zone " + r.Zone +
			"; set it in place of an availability set or scale set",
	}}
}

// nameProblems are the data disks whose names, which begin with the machine's, would be too
// long.
func (s *spec) nameProblems(name string) []cloud.Problem {
	const most = 80
	var problems []cloud.Problem
	for i, d := range s.Properties.Storage.DataDisks {
		if n := len(d.nameFor(name)); n > most {
			problems = append(problems, cloud.Problem{
				Severity: cloud.BlocksCreate, Field: fmt.Sprintf("providerSpec.properties.storageProfile.dataDisks[%d].name", i),
				Message: fmt.Sprintf("makes the name of a disk that has %d characters and may have %d; make it shorter", n, most),
			})
		}
	}
	return problems
}

// creation is one call of Create.
type creation struct {
	*account
	*spec

	request cloud.CreateRequest
	seen    virtualMachine // as the cloud showed it last
}

// find returns the VM of the request. A VM of its name that is not the machine's is an error:
// the name has to become free.
func (c *creation) find(ctx context.Context) ([]cloud.VM, error) {
	r := c.request
	v, found, err := c.vmFor(ctx, opCreate, c.spec, r.Ref)
	switch {
	case err != nil:
		return nil, err
	case found && c.owns(v, r.Ref) && (r.ProviderID != "" || v.Properties.ProvisioningState != stateDeleting):
		c.seen = v
		return []cloud.VM{c.vmOf(v)}, nil
	case found && r.ProviderID == "":
		return nil, c.taken(v)
	}
	return nil, nil
}

// taken is the error of a name that belongs to another VM.
func (c *creation) taken(v virtualMachine) error {
	if state, _ := v.state(); state == cloud.StateDeleting {
		e := cloud.Errorf(cloud.Unavailable, opCreate, codeNameTaken,
			"a VM %q is being deleted; the name is free once it is gone", v.Name)
		e.RetryAfter = pollWait
		return e
	}
	return cloud.Errorf(cloud.Unknown, opCreate, codeNameTaken,
		"the resource group has a VM %q that is not this machine's; delete it, or give the machine another name", v.Name)
}

// make asks for the VM, with what it attaches before. If the name is taken meanwhile, then
// by a call whose answer was lost, or by somebody else.
func (c *creation) make(ctx context.Context) (cloud.VM, error) {
	wait, err := c.diskImages(ctx)
	if err != nil || wait > 0 {
		return c.pending("CreatingDisks", wait), err
	}
	if err = c.ask(ctx); err == nil {
		return c.vmOf(c.seen), nil
	}
	switch answer, _ := driverkit.AnswerOf(err); {
	case answer.Code == codeDiskTaken || answer.Code == codeNICTaken:
		return cloud.VM{}, c.clear(ctx, c.refused(c.request, err))
	case answer.Status != http.StatusPreconditionFailed:
		return cloud.VM{}, c.refused(c.request, err)
	}
	found, err := c.find(ctx)
	if err != nil || len(found) > 0 {
		return append(found, cloud.VM{})[0], err
	}
	return c.pending("Accepted", time.Second), nil
}

// pending is the VM while the cloud does not show it.
func (c *creation) pending(reason string, wait time.Duration) cloud.VM {
	r := c.request
	return cloud.VM{
		ID: r.Name, Name: r.Name, OwnerID: r.OwnerID, State: cloud.StatePending, Reason: reason, RetryAfter: wait,
		Region: c.Location, Zone: c.zoneFor(r), InstanceType: c.Properties.Hardware.Size,
	}
}

// finish waits until the VM has found its place. One that found none never was a VM: it
// is taken back, so that the attempt can be repeated, unless it has been recorded already.
func (c *creation) finish(ctx context.Context, vm cloud.VM) (time.Duration, error) {
	switch {
	case vm.State == cloud.StatePending:
		return pollWait, nil
	case vm.State != cloud.StateFailed || c.seen.tags()[attemptTag] != c.request.Token:
		return 0, nil
	}
	code, message := c.seen.failure()
	e := table.Error(opCreate, driverkit.Answer{Status: http.StatusConflict, Code: code, Message: message})
	if e.Code != cloud.Exhausted {
		return 0, nil // whoever looks at its state decides
	}
	if c.request.ProviderID == "" {
		if _, err := c.remove(ctx, opCreate, c.client.path(c.spec, vmType, c.seen.Name), computeVersion); err != nil {
			return 0, err
		}
	}
	return 0, c.refused(c.request, e)
}
