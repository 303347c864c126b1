package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/test/stack"
)

const (
	first  = "bench-v1"
	second = "bench-v2"

	// Of a pool of ten: two more, and one that may be missing.
	surge, unavailable = "20%", "10%"

	// hands is how many pools are written at a time.
	hands = 8
)

func poolName(i int) string { return fmt.Sprintf("bench-%04d", i) }

// create makes all pools and waits for their machines.
func (b *bench) create(ctx context.Context) error {
	err := each(b.n/b.pool, func(i int) error {
		return b.Client.Create(ctx, stack.Deployment(poolName(i), first, int32(b.pool), surge, unavailable))
	})
	if err != nil {
		return err
	}
	if err := b.settle(ctx, "create", first, b.n, b.n); err != nil {
		return err
	}
	return b.report(ctx, b.n/b.pool)
}

// roll gives the machines of some pools another class, and waits until all
// follow and those before them are gone.
func (b *bench) roll(ctx context.Context) error {
	rolled := min(b.n, rollMost)
	err := each(rolled/b.pool, func(i int) error {
		return b.edit(ctx, i, func(d *machinev1.MachineDeployment) { d.Spec.Template.Spec.Class.Name = second })
	})
	if err != nil {
		return err
	}
	if err := b.settle(ctx, "roll", second, rolled, b.n); err != nil {
		return err
	}
	return b.report(ctx, rolled/b.pool)
}

// report waits until the status of the first pools shows all of their machines as ready and up to date.
func (b *bench) report(ctx context.Context, pools int) error {
	return stack.Until(ctx, b.within, func(ctx context.Context) error {
		list := &machinev1.MachineDeploymentList{}
		if err := b.Client.List(ctx, list, client.InNamespace(stack.Namespace)); err != nil {
			return err
		}
		shown := map[string]machinev1.MachineDeploymentStatus{}
		for _, d := range list.Items {
			shown[d.Name] = d.Status
		}
		for i := range pools {
			got, want := shown[poolName(i)], int32(b.pool)
			if got.ReadyReplicas != want || got.UpdatedReplicas != want || got.Replicas != want {
				return fmt.Errorf("%s says that %d of %d machines are ready", poolName(i), got.ReadyReplicas, want)
			}
		}
		return nil
	})
}

// edit changes one pool.
func (b *bench) edit(ctx context.Context, i int, change func(*machinev1.MachineDeployment)) error {
	d := &machinev1.MachineDeployment{}
	d.Namespace, d.Name = stack.Namespace, poolName(i)
	return b.Edit(ctx, d, func() { change(d) })
}

// settle waits until so many machines of a class are Running, and there are so
// many Machines in all.
func (b *bench) settle(ctx context.Context, what, class string, ready, all int) error {
	say := func() string {
		isAll, isReady := b.crowd.count(class)
		return fmt.Sprintf("%d of %d machines are Running with class %s, %d Machines in all", isReady, ready, class, isAll)
	}
	defer progress(what, say)()
	return stack.Until(ctx, b.within, func(context.Context) error {
		if b.manager.Ended() {
			return stack.Fatal(errors.New("the manager ended: " + say()))
		}
		if isAll, isReady := b.crowd.count(class); isReady != ready || isAll != all {
			return errors.New(say())
		}
		return nil
	})
}

// each calls do for 0 … n-1, several at a time.
func each(n int, do func(int) error) error {
	todo := make(chan int)
	errs := make([]error, n)
	var workers sync.WaitGroup
	for range hands {
		workers.Go(func() {
			for i := range todo {
				errs[i] = do(i)
			}
		})
	}
	for i := range n {
		todo <- i
	}
	close(todo)
	workers.Wait()
	return errors.Join(errs...)
}
