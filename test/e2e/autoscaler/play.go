package autoscaler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/test/stack"
)

// timeout bounds steps that take seconds. Cluster API looks again at what a
// deletion waits for every 20 s.
const timeout = 3 * time.Minute

// A Play is one node group of VMs of type small, at zero, and what the autoscaler
// does to it.
type Play struct {
	*testing.T
	Group

	Cloud *stack.Cloud
	// Lacking is the state of an instance for which the cloud has no capacity.
	Lacking string
	// RollOut names another template in the group.
	RollOut func(context.Context) error
	// FallBack has the group fall back to a class of type large, or, if on is false, not any more.
	FallBack func(ctx context.Context, on bool) error
}

// Surface makes the reads and writes of the autoscaler, and no others: from zero,
// up, down by a machine that it chooses, out of capacity, through a rollout, and
// to zero.
func (p *Play) Surface() {
	p.Helper()
	var template Template
	p.until("a group at zero says what a node will be like", func(ctx context.Context) error {
		size, err := p.TargetSize(ctx)
		if err == nil && size != 0 {
			err = fmt.Errorf("target size %d", size)
		}
		var err2 error
		template, err2 = p.Template(ctx)
		return errors.Join(err, err2)
	})
	p.Logf("a node will have %v, labels %v", template.Capacity, template.Labels)
	p.resize(3)
	running := p.states(Running, Running, Running)
	p.registered()
	p.asPromised(template)

	chosen := running[1].Machine
	p.deleteNode(chosen)
	left := p.states(Running, Running)
	if slices.ContainsFunc(left, func(i Instance) bool { return i.Machine == chosen }) {
		p.Errorf("%v are left: the machine that the autoscaler chose, %s, had to go", left, chosen)
	}
	p.outOfCapacity()
	p.rollout(left)

	p.resize(0)
	p.states()
	p.empty()
	p.fallback(template)
}

// fallback: while the cloud has no room for the first class of the group, its machines get
// the next one, and the group at zero promises that.
func (p *Play) fallback(first Template) {
	p.Helper()
	ctx := p.Context()
	if err := errors.Join(p.Cloud.SetCapacity(ctx, "small", 0), p.FallBack(ctx, true)); err != nil {
		p.Fatal(err)
	}
	p.resize(1)
	p.states(Running)
	p.resize(0)
	p.states()
	p.empty()
	var template Template
	p.until("a group at zero promises the class that has room", func(ctx context.Context) error {
		var err error
		if template, err = p.Template(ctx); err == nil && template.Capacity.Cpu().Cmp(*first.Capacity.Cpu()) <= 0 {
			err = fmt.Errorf("its capacity is %v", template.Capacity)
		}
		return err
	})
	p.resize(1)
	p.states(Running)
	p.registered()
	p.asPromised(template)
	p.resize(0)
	p.states()
	p.empty()
	if err := errors.Join(p.Cloud.SetCapacity(ctx, "small", 100), p.FallBack(ctx, false)); err != nil {
		p.Fatal(err)
	}
}

// outOfCapacity: a machine for which there is no room is taken back, and the
// others stay.
func (p *Play) outOfCapacity() {
	p.Helper()
	if err := p.Cloud.SetCapacity(p.Context(), "small", 2); err != nil {
		p.Fatal(err)
	}
	p.resize(3)
	want := []string{p.Lacking, Running, Running}
	slices.Sort(want)
	all := p.states(want...)
	lacking := all[slices.IndexFunc(all, func(i Instance) bool { return i.State == p.Lacking })]
	p.deleteNode(lacking.Machine)
	left := p.states(Running, Running)
	if slices.ContainsFunc(left, func(i Instance) bool { return i.Machine == lacking.Machine }) {
		p.Errorf("%v are left: %s had to go", left, lacking.Machine)
	}
	if err := p.Cloud.SetCapacity(p.Context(), "small", 100); err != nil {
		p.Fatal(err)
	}
}

// rollout: it shows while it lasts, and leaves other machines.
func (p *Play) rollout(before []Instance) {
	p.Helper()
	if err := p.RollOut(p.Context()); err != nil {
		p.Fatal(err)
	}
	rolling := func(want bool) func(context.Context) error {
		return func(ctx context.Context) error {
			is, err := p.RollingOut(ctx)
			if err == nil && is != want {
				err = fmt.Errorf("rolling out: %v", is)
			}
			return err
		}
	}
	p.until("the rollout shows", rolling(true))
	p.until("the rollout ends", rolling(false))
	for _, i := range p.states(Running, Running) {
		if slices.ContainsFunc(before, func(old Instance) bool { return old.Machine == i.Machine }) {
			p.Errorf("machine %s is of the old template", i.Machine)
		}
	}
	p.registered()
}

func (p *Play) until(what string, check func(context.Context) error) {
	p.Helper()
	begin := time.Now()
	if err := stack.Until(p.Context(), timeout, check); err != nil {
		p.Fatalf("%s: %v", what, err)
	}
	p.Logf("%s: %.1f s", what, time.Since(begin).Seconds())
}

// states waits until the instances of the group have exactly these states, sorted.
func (p *Play) states(want ...string) []Instance {
	p.Helper()
	var all []Instance
	p.until(fmt.Sprint("instances ", want), func(ctx context.Context) error {
		var err error
		if all, err = p.Instances(ctx); err != nil {
			return err
		}
		var states []string
		for _, i := range all {
			states = append(states, i.State)
		}
		if slices.Sort(states); !slices.Equal(states, want) {
			return fmt.Errorf("instances %v", all)
		}
		return nil
	})
	return all
}

// deleteNode asks until the machine was not changed meanwhile, as the autoscaler
// does in its next loops.
func (p *Play) deleteNode(machine string) {
	p.Helper()
	p.until("delete "+machine, func(ctx context.Context) error { return p.DeleteNode(ctx, machine) })
}

func (p *Play) resize(n int) {
	p.Helper()
	if err := p.SetSize(p.Context(), n); err != nil {
		p.Fatal(err)
	}
}

// registered: every running instance has a Node of exactly its id.
func (p *Play) registered() {
	p.Helper()
	p.until("all instances are registered", func(ctx context.Context) error {
		missing, err := p.Unregistered(ctx)
		if err == nil && len(missing) > 0 {
			err = fmt.Errorf("the autoscaler would remove %v", missing)
		}
		return err
	})
}

// asPromised: nodes are what the autoscaler was told before there was one.
func (p *Play) asPromised(t Template) {
	p.Helper()
	p.until("nodes are as the template promised", func(ctx context.Context) error {
		nodes, err := p.Nodes(ctx)
		if err == nil && len(nodes) == 0 {
			err = errors.New("no node says whose it is")
		}
		for i := range nodes {
			if text := t.Differs(&nodes[i]); text != "" {
				err = errors.Join(err, errors.New(text))
			}
		}
		return err
	})
}

func (p *Play) empty() {
	p.Helper()
	p.until("the cloud is empty", func(ctx context.Context) error {
		vms, err := p.Cloud.VMs(ctx)
		if err == nil && len(vms) > 0 {
			err = fmt.Errorf("%d VMs are left", len(vms))
		}
		return err
	})
}
