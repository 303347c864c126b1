package driverkit

import (
	"context"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// Creation is what Account.Create does on a cloud where a VM is looked for before it is
// made.
type Creation struct {
	// Find returns the VMs that are provably of the request.
	Find func(ctx context.Context) ([]cloud.VM, error)
	// Make asks for the VM and returns it as the cloud has accepted it.
	Make func(ctx context.Context) (cloud.VM, error)
	// Finish asks for the next step of what is left to do about a VM, and returns when to
	// go on with it; 0 is done. Nil has nothing to do.
	Finish func(ctx context.Context, vm cloud.VM) (wait time.Duration, err error)
	// Attempts are those of the account, nil if the cloud has an idempotency key.
	Attempts *Attempts
}

// Do returns the VM of r: the one that Find returns, or else the one that it makes. A VM
// whose providerID is recorded is never replaced. RetryAfter is positive until the VM is
// finished.
func (c Creation) Do(ctx context.Context, op string, r cloud.CreateRequest) (cloud.VM, error) {
	vm, err := c.ensure(ctx, op, r)
	if err != nil || vm.RetryAfter > 0 || c.Finish == nil {
		return vm, err
	}
	if vm.RetryAfter, err = c.Finish(ctx, vm); err != nil {
		return cloud.VM{}, err
	}
	return vm, nil
}

// ensure returns the VM of r, made if need be.
func (c Creation) ensure(ctx context.Context, op string, r cloud.CreateRequest) (cloud.VM, error) {
	looked := time.Time{}
	if c.Attempts != nil {
		looked = c.Attempts.now()
	}
	found, err := c.Find(ctx)
	if err != nil {
		return cloud.VM{}, err
	}
	if len(found) > 0 {
		if c.Attempts != nil {
			c.Attempts.Shown(r)
		}
		return One(op, r.Ref, found)
	}
	switch {
	case r.ProviderID != "":
		return One(op, r.Ref, nil)
	case c.Attempts == nil:
		return c.Make(ctx)
	}
	id, wait := c.Attempts.Pending(r, looked)
	switch {
	case wait <= 0:
		return c.send(ctx, op, r)
	case id != "":
		return accepted(r, id), nil
	}
	return cloud.VM{}, c.Attempts.Wait(op, wait)
}

// send makes the VM after a checkpoint.
func (c Creation) send(ctx context.Context, op string, r cloud.CreateRequest) (cloud.VM, error) {
	var made cloud.VM
	_, err := c.Attempts.Send(ctx, op, r, func(ctx context.Context) (string, error) {
		var err error
		made, err = c.Make(ctx)
		return made.ID, err
	})
	return made, err
}

// accepted is a VM that has an id and that the cloud does not show yet.
func accepted(r cloud.CreateRequest, id string) cloud.VM {
	return cloud.VM{
		ID: id, Name: r.Name, OwnerID: r.OwnerID, State: cloud.StatePending, Reason: "Accepted", RetryAfter: time.Second,
		Region: r.Class.Region, Zone: r.Class.Zone, InstanceType: r.Class.InstanceType,
	}
}

// Step asks for one step of what is left to do about a VM, and returns when to go on with
// it; 0 is done.
type Step func(ctx context.Context) (wait time.Duration, err error)

// Steps takes steps in order until one has to be waited for or fails.
func Steps(ctx context.Context, steps ...Step) (wait time.Duration, err error) {
	for _, step := range steps {
		if wait, err := step(ctx); err != nil || wait > 0 {
			return wait, err
		}
	}
	return 0, nil
}
