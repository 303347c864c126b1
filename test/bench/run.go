package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/test/cluster"
	"github.com/capmcm/cluster-api-provider-mcm/test/stack"
)

// crowded is from how many machines on kubelets renew their leases every five
// minutes and no node lifecycle controller runs: on two cores the kubelets alone
// would keep the API server busy.
const crowded = 500

// How long the cloud takes to answer a call, and to boot a VM where nothing else is asked for.
const (
	cloudLatency = 100 * time.Millisecond
	bootTime     = 10 * time.Second
)

// rollMost is how many machines are rolled at most.
const rollMost = 1000

// bench is one run.
type bench struct {
	n, pool        int
	steady, within time.Duration
	boot           time.Duration // how long the cloud takes to boot a VM
	profiles       string
	createRate     string     // as the manager's --cloud-rate has it, empty for none
	allowed        cloud.Rate // what createRate says
	verbose        bool

	*stack.Stack
	manager *stack.Manager
	crowd   *crowd
}

func (b *bench) run(ctx context.Context) (found *record, err error) {
	if err := b.start(ctx); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("%w\n%s", err, b.Logs())
		}
		err = errors.Join(err, b.Stop())
	}()
	found = &record{
		N: b.n, Pool: b.pool, Measured: time.Now().UTC().Format(time.DateOnly), On: hardware(),
		LeaseSeconds: b.lease().Seconds(), NodeLifecycle: b.n < crowded,
	}
	if err := b.warmUp(ctx); err != nil {
		return nil, err
	}
	return found, b.phases(ctx, found)
}

// phases measures one thing after the other.
func (b *bench) phases(ctx context.Context, found *record) error {
	rolled := min(b.n, rollMost)
	memory := &found.Memory
	for _, p := range []struct {
		name string
		do   func(context.Context) error
	}{
		{"empty", func(ctx context.Context) (err error) {
			memory.EmptyMiB, memory.EmptyHeapMiB, err = b.memory(ctx)
			return err
		}},
		{"create", func(ctx context.Context) (err error) {
			found.Create, err = b.measure(ctx, "create", b.n, b.create)
			found.CreateRateUsed = rateUsed(b.allowed, b.n, found.Create.Seconds, b.boot)
			return err
		}},
		{"steady", func(ctx context.Context) (err error) { found.Steady, err = b.lookOn(ctx); return err }},
		{"full", func(ctx context.Context) (err error) {
			memory.FullMiB, memory.FullHeapMiB, err = b.memory(ctx)
			return err
		}},
		{"roll", func(ctx context.Context) (err error) {
			found.Roll, err = b.measure(ctx, "roll", rolled, b.roll)
			return err
		}},
		{"peak", func(context.Context) (err error) { memory.PeakMiB, err = peak(b.manager.PID()); return err }},
		{"startup", func(ctx context.Context) (err error) { found.Startup, err = b.restart(ctx); return err }},
	} {
		if err := p.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	memory.PerThousandMiB = memory.PeakMiB / float64(b.n) * 1000
	return nil
}

// lease is how often a kubelet renews its lease.
func (b *bench) lease() time.Duration {
	if b.n < crowded {
		return 10 * time.Second
	}
	return 5 * time.Minute
}

// start starts everything but a manager.
func (b *bench) start(ctx context.Context) error {
	binaries, err := stack.Build(ctx, stack.ManagerProgram, stack.SimCloudProgram)
	if err != nil {
		return err
	}
	controllers := cluster.Controllers()
	if b.n < crowded {
		controllers = cluster.Controllers("node-lifecycle-controller")
	}
	flags := []string{"--profiling"}
	if rate := b.rateFlag(); rate != "" {
		flags = append(flags, "--cloud-rate="+rate)
	}
	b.Stack, err = stack.Start(ctx, stack.Options{
		Controllers: controllers, Audit: true, AuditUsers: []string{stack.ManagerUser}, Binaries: binaries,
		Cloud: []string{
			"--latency=" + cloudLatency.String(), "--boot-time=" + b.boot.String(), "--lease-period=" + b.lease().String(),
		},
		Manager: flags,
	})
	if err != nil {
		return err
	}
	if b.createRate != "" {
		if err := b.limit(ctx); err != nil {
			return errors.Join(err, b.Stop())
		}
	}
	b.crowd, err = watchCrowd(ctx, b.Cluster.Config())
	if err != nil {
		return errors.Join(err, b.Stop())
	}
	return nil
}

// patient are flags of the manager whose work is measured: a machine that has other
// things to do as well must not make it lose its leases.
func patient() []string {
	return []string{
		"--leader-elect-lease-duration=3m", "--leader-elect-renew-deadline=2m",
		"--leader-elect-retry-period=5s",
	}
}

// warmUp starts the manager and returns when it has made and removed a machine.
func (b *bench) warmUp(ctx context.Context) (err error) {
	if b.manager, err = b.StartManager(patient()...); err != nil {
		return err
	}
	for _, name := range []string{first, second} {
		if err := b.CreateClass(ctx, name, "small"); err != nil {
			return err
		}
	}
	d := stack.Deployment("warm-up", first, 1, surge, unavailable)
	if err := b.Client.Create(ctx, d); err != nil {
		return err
	}
	if err := b.settle(ctx, "warm up", first, 1, 1); err != nil {
		return err
	}
	if err := b.Edit(ctx, d, func() { d.Spec.Replicas = 0 }); err != nil {
		return err
	}
	return b.settle(ctx, "warm up", first, 0, 0)
}

// wait returns when d has passed, or with an error when ctx ends before.
func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
