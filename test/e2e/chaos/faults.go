package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
)

// failCalls makes some calls to the cloud fail, in one of all ways.
func (c *chaos) failCalls(ctx context.Context) (bool, error) {
	modes := []string{
		sim.FaultBefore, sim.FaultAfter, sim.FaultDrop, sim.FaultLost, sim.FaultThrottle, sim.FaultHang,
		sim.FaultBoot,
	}
	operations := []string{sim.OpCreateVM, sim.OpCreateVM, sim.OpDeleteVM, "*"}
	f := sim.Fault{
		Mode: modes[c.random.IntN(len(modes))], Op: operations[c.random.IntN(len(operations))],
		Count: 1 + c.random.IntN(4), Skip: c.random.IntN(2),
	}
	switch f.Mode {
	case sim.FaultBoot:
		f.Op, f.Count = sim.OpCreateVM, 1
	case sim.FaultHang:
		f.Count = 1
	case sim.FaultThrottle:
		f.RetryAfter = sim.Duration(c.between(500*time.Millisecond, 3*time.Second))
	}
	c.say("the next %d calls of %s fail: %s", f.Count, f.Op, f.Mode)
	c.faults++
	return true, c.Cloud.AddFault(ctx, f)
}

// slowCloud makes every call slow for a while.
func (c *chaos) slowCloud(ctx context.Context) (bool, error) {
	latency, pause := c.between(500*time.Millisecond, 4*time.Second), c.between(4*time.Second, 20*time.Second)
	c.say("calls to the cloud take %s, for %s", latency.Round(time.Millisecond), pause.Round(time.Millisecond))
	c.faults++
	set := func(ctx context.Context, latency string) error {
		return c.Cloud.Change(ctx, map[string]any{"latency": map[string]any{"*": latency}})
	}
	c.after(pause, func(ctx context.Context) error { return set(ctx, usualLatency) })
	return true, set(ctx, latency.String())
}

// fullCloud lets no further VM in for a while.
func (c *chaos) fullCloud(ctx context.Context) (bool, error) {
	pause := c.between(5*time.Second, 25*time.Second)
	c.say("the cloud is full for %s", pause.Round(time.Millisecond))
	c.faults++
	c.after(pause, func(ctx context.Context) error { return c.Cloud.SetCapacity(ctx, instanceType, -1) })
	return true, c.Cloud.SetCapacity(ctx, instanceType, 0)
}

// aVM draws a VM of a Machine.
func (c *chaos) aVM(ctx context.Context, fits func(sim.Resource) bool) (*sim.Resource, error) {
	vms, err := c.Cloud.VMs(ctx)
	if err != nil {
		return nil, err
	}
	names := slices.Sorted(maps.Keys(vms))
	names = slices.DeleteFunc(names, func(name string) bool { return isStray(name) || !fits(vms[name]) })
	n := c.random.IntN(1 << 20)
	if len(names) == 0 {
		return nil, nil //nolint:nilnil // there is none
	}
	found := vms[names[n%len(names)]]
	return &found, nil
}

// loseVM takes a VM away: terminate, reclaim (spot only), stop or fail.
func (c *chaos) loseVM(how string) action {
	return func(ctx context.Context) (bool, error) {
		found, err := c.aVM(ctx, func(r sim.Resource) bool { return how != "reclaim" || r.VM.Spot })
		if err != nil || found == nil {
			return false, err
		}
		name := found.Tags[sim.NameTag]
		c.say("%s VM %s of %s", how, found.ID, name)
		c.faults++
		c.trouble(name, how+" of its VM "+found.ID)
		if err := c.Cloud.Disrupt(ctx, found.ID, how); err != nil {
			c.say("%s of %s: %v", how, found.ID, err) // it went a moment ago
		}
		return true, nil
	}
}

func (c *chaos) trouble(machine, what string) {
	c.troubles = append(c.troubles, span{about: machine, what: what, from: time.Now()})
}

// sicken makes a node unready, for shorter or longer than the health timeout.
func (c *chaos) sicken(ctx context.Context) (bool, error) {
	pause := c.between(5*time.Second, 2*healthTimeout)
	found, err := c.aVM(ctx, func(r sim.Resource) bool { return r.VM.State == sim.StateRunning })
	if err != nil || found == nil {
		return false, err
	}
	name := found.Tags[sim.NameTag]
	c.say("node %s is sick for %s", name, pause.Round(time.Millisecond))
	c.faults++
	index := len(c.troubles)
	c.trouble(name, "its kubelet is sick")
	set := func(ctx context.Context, ready bool) {
		if err := c.Cloud.Kubelet(ctx, found.ID, map[string]any{"ready": ready}); err != nil {
			c.say("kubelet of %s: %v", name, err) // it went meanwhile
		}
	}
	c.after(pause, func(ctx context.Context) error {
		c.say("node %s is well again", name)
		c.troubles[index].until = time.Now()
		set(ctx, true)
		return nil
	})
	set(ctx, false)
	return true, nil
}

// stray makes a VM that belongs to no Machine.
func (c *chaos) stray(ctx context.Context) (bool, error) {
	c.strays++
	id, err := c.Cloud.CreateVM(ctx, fmt.Sprintf("%s%d", strayPrefix, c.strays))
	if err != nil {
		c.say("a stray VM: %v", err) // a fault has struck the call
		return true, nil
	}
	c.faults++
	c.say("VM %s is made and has no owner", id)
	return true, nil
}
