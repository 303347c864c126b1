package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

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
	return b.settle(ctx, "create", first, b.n, b.n)
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
	return b.settle(ctx, "roll", second, rolled, b.n)
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
