package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
	"github.com/capmcm/cluster-api-provider-mcm/test/stack"
)

// restart measures how a manager starts beside all machines: after one that was
// stopped, and after one that crashed.
func (b *bench) restart(ctx context.Context) (startup, error) {
	stopped, err := b.startBeside(ctx, "startup", 0, b.manager.Terminate)
	if err != nil {
		return startup{}, err
	}
	crashed, err := b.startBeside(ctx, "startup after a crash", 1%(b.n/b.pool), b.manager.Kill)
	stopped.AfterCrashSeconds = crashed.Seconds
	stopped.PeakMiB = max(stopped.PeakMiB, crashed.PeakMiB)
	return stopped, err
}

// startBeside ends the manager, asks for one machine more in a pool, starts a
// manager, and measures until the Machine and its VM are there. Users
// wait for that, whatever the manager does before.
func (b *bench) startBeside(ctx context.Context, name string, pool int, end func() error) (startup, error) {
	if err := end(); err != nil {
		return startup{}, err
	}
	if err := b.edit(ctx, pool, func(d *machinev1.MachineDeployment) { d.Spec.Replicas++ }); err != nil {
		return startup{}, err
	}
	machines, _ := b.crowd.count("")
	mark, err := b.Cluster.Mark(ctx)
	if err != nil {
		return startup{}, err
	}
	calls, err := b.Cloud.Calls(ctx)
	if err != nil {
		return startup{}, err
	}
	vms, err := b.Cloud.CallsOf(ctx, stack.AccountID, sim.OpCreateVM)
	if err != nil {
		return startup{}, err
	}
	began := time.Now()
	if b.manager, err = b.StartManager(); err != nil {
		return startup{}, err
	}
	var found startup
	if found.Seconds, found.VMSeconds, err = b.awaitOneMore(ctx, name, began, machines, vms); err != nil {
		return found, err
	}
	if err := b.quiet(ctx, name); err != nil {
		return found, err
	}
	to, err := b.Cluster.Mark(ctx)
	if err != nil {
		return found, err
	}
	asked, err := b.requests(mark, to, avoidable)
	if err != nil {
		return found, err
	}
	b.show(name, asked)
	after, err := b.Cloud.Calls(ctx)
	if err != nil {
		return found, err
	}
	found.Requests, found.CloudCalls = asked.total(), after-calls
	found.PeakMiB, err = peak(b.manager.PID())
	return found, err
}

// awaitOneMore returns after how many seconds there was one Machine more, and one
// more VM was asked for.
func (b *bench) awaitOneMore(ctx context.Context, name string, began time.Time, machines, vms int) (machine, vm float64,
	err error,
) {
	defer progress(name, func() string { return "waiting for the machine that was asked for meanwhile" })()
	err = stack.Until(ctx, b.within, func(ctx context.Context) error {
		if b.manager.Ended() {
			return stack.Fatal(errors.New("the manager ended"))
		}
		all, _ := b.crowd.count("")
		if all <= machines {
			return fmt.Errorf("there are still %d Machines", all)
		}
		if machine == 0 {
			machine = time.Since(began).Seconds()
		}
		made, err := b.Cloud.CallsOf(ctx, stack.AccountID, sim.OpCreateVM)
		if err != nil {
			return err
		}
		if made <= vms {
			return errors.New("the new Machine has no VM yet")
		}
		vm = time.Since(began).Seconds()
		return nil
	})
	return machine, vm, err
}
