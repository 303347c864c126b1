package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/test/cluster/audit"
	"github.com/capmcm/cluster-api-provider-mcm/test/stack"
)

const (
	pool   = "bench"
	first  = "bench-v1"
	second = "bench-v2"
)

// warmUp waits until the manager works: its classes carry its finalizer.
func (b *bench) warmUp(ctx context.Context) error {
	for _, name := range []string{first, second} {
		if err := b.CreateClass(ctx, name, "small"); err != nil {
			return err
		}
	}
	if err := b.Client.Create(ctx, stack.Deployment(pool, first, 0, "20%", "10%")); err != nil {
		return err
	}
	return stack.Until(ctx, 2*time.Minute, func(ctx context.Context) error {
		var sets machinev1.MachineSetList
		if err := b.Client.List(ctx, &sets); err != nil {
			return err
		}
		if len(sets.Items) == 0 {
			return errors.New("the manager has not made a MachineSet yet")
		}
		return nil
	})
}

func (b *bench) create(ctx context.Context) error {
	return b.change(ctx, first, func(d *machinev1.MachineDeployment) { d.Spec.Replicas = int32(b.n) })
}

func (b *bench) roll(ctx context.Context) error {
	return b.change(ctx, second, func(d *machinev1.MachineDeployment) { d.Spec.Template.Spec.Class.Name = second })
}

// change edits the MachineDeployment and waits until all machines follow.
func (b *bench) change(ctx context.Context, class string, edit func(*machinev1.MachineDeployment)) error {
	d := &machinev1.MachineDeployment{}
	d.Namespace, d.Name = stack.Namespace, pool
	if err := b.Edit(ctx, d, func() { edit(d) }); err != nil {
		return err
	}
	return stack.Until(ctx, b.within, func(ctx context.Context) error {
		machines, err := b.Machines(ctx, pool)
		if err != nil {
			return err
		}
		running := 0
		for i := range machines {
			if machines[i].Status.CurrentStatus.Phase == machinev1.MachineRunning && machines[i].Spec.Class.Name == class && machines[i].DeletionTimestamp.IsZero() {
				running++
			}
		}
		if running != b.n || len(machines) != b.n {
			return fmt.Errorf("%d of %d machines are Running with class %s, %d Machines in all", running, b.n, class, len(machines))
		}
		return nil
	})
}

// measure says what a change of all machines cost, everything included that
// follows from it.
func (b *bench) measure(ctx context.Context, name string, change func(context.Context) error) (phase, error) {
	from, err := b.Cluster.Mark(ctx)
	if err != nil {
		return phase{}, err
	}
	calls, err := b.Cloud.Calls(ctx)
	if err != nil {
		return phase{}, err
	}
	began := time.Now()
	if err := change(ctx); err != nil {
		return phase{}, err
	}
	seconds := time.Since(began).Seconds()
	if err := b.quiet(ctx); err != nil {
		return phase{}, err
	}
	entries, err := b.requests(ctx, from)
	if err != nil {
		return phase{}, err
	}
	after, err := b.Cloud.Calls(ctx)
	if err != nil {
		return phase{}, err
	}
	b.show(name, entries)
	return phase{
		RequestsPerMachine:   float64(len(entries)) / float64(b.n),
		CloudCallsPerMachine: float64(after-calls) / float64(b.n),
		Seconds:              seconds,
	}, nil
}

// requests are the manager's since a mark.
func (b *bench) requests(ctx context.Context, from audit.Mark) ([]audit.Entry, error) {
	to, err := b.Cluster.Mark(ctx)
	if err != nil {
		return nil, err
	}
	return b.Cluster.Audit().Between(from, to, audit.User(stack.ManagerUser))
}

// quiet returns when the manager has asked for nothing but leases for some
// seconds: what trails behind a change belongs to it.
func (b *bench) quiet(ctx context.Context) error {
	const silence = 5 * time.Second
	for {
		from, err := b.Cluster.Mark(ctx)
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(silence):
		}
		entries, err := b.requests(ctx, from)
		if err != nil {
			return err
		}
		if len(steadily(entries)) == 0 {
			return nil
		}
	}
}

// lookOn counts what is asked for while nothing changes.
func (b *bench) lookOn(ctx context.Context) (steady, error) {
	from, err := b.Cluster.Mark(ctx)
	if err != nil {
		return steady{}, err
	}
	began := time.Now()
	select {
	case <-ctx.Done():
		return steady{}, ctx.Err()
	case <-time.After(b.steady):
	}
	entries, err := b.requests(ctx, from)
	if err != nil {
		return steady{}, err
	}
	entries = steadily(entries)
	b.show("steady", entries)
	return steady{Requests: len(entries), Seconds: time.Since(began).Seconds()}, nil
}

// steadily leaves out what has to be asked for although nothing changes:
// renewals of watches and leases, and the safety probes of the API servers.
func steadily(entries []audit.Entry) []audit.Entry {
	var kept []audit.Entry
	for _, e := range entries {
		probe := e.Name == "dummy_name" || e.Resource == "" && (e.URI == "/readyz" || e.URI == "/healthz" || e.URI == "/livez")
		if e.Verb != "watch" && e.Resource != "leases" && !probe {
			kept = append(kept, e)
		}
	}
	return kept
}

func (b *bench) show(name string, entries []audit.Entry) {
	if b.verbose {
		fmt.Printf("── %s: %d requests\n%s\n", name, len(entries), audit.Table(audit.Count(entries)))
		refused := slices.DeleteFunc(slices.Clone(entries), func(e audit.Entry) bool { return e.Code < http.StatusBadRequest })
		fmt.Printf("── of these %d were refused\n%s\n", len(refused), audit.Table(audit.Count(refused)))
	}
}
