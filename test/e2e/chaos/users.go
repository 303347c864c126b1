package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/test/stack"
)

const (
	instanceType = "small"
	strayPrefix  = "stray-"
	maxReplicas  = 5
)

// classes are those that pools are rolled between; VMs of the second are spot.
var classes = [...]string{"on-demand", "spot"}

func isStray(name string) bool { return strings.HasPrefix(name, strayPrefix) }

// populate makes classes and pools, starts the managers and waits until all
// Machines run.
func (c *chaos) populate(ctx context.Context) error {
	for _, name := range classes {
		class, secret := c.Class(name, instanceType)
		if name == classes[1] {
			spec, err := spot(class.ProviderSpec.Raw)
			if err != nil {
				return err
			}
			class.ProviderSpec.Raw = spec
		}
		if err := errors.Join(c.Client.Create(ctx, secret), c.Client.Create(ctx, class)); err != nil {
			return err
		}
	}
	if _, err := c.stray(ctx); err != nil {
		return err
	}
	recreate := stack.Deployment("swap", classes[0], 2, "0", "0")
	recreate.Spec.Strategy = machinev1.MachineDeploymentStrategy{Type: machinev1.RecreateStrategyType}
	for _, d := range []*machinev1.MachineDeployment{
		stack.Deployment("roll", classes[0], 3, "1", "0"), stack.Deployment("wide", classes[1], 4, "2", "1"), recreate,
	} {
		begun := time.Now()
		if err := c.Client.Create(ctx, d); err != nil {
			return err
		}
		c.pools = append(c.pools, d.Name)
		c.remember(d, begun)
	}
	if err := c.tend(); err != nil {
		return err
	}
	c.say("pools are made")
	if err := stack.Until(ctx, 3*time.Minute, c.settled); err != nil {
		return fmt.Errorf("%w\n%s", err, c.Logs())
	}
	return nil
}

func (c *chaos) remember(d *machinev1.MachineDeployment, begun time.Time) {
	w := wish{
		pool: d.Name, class: d.Spec.Template.Spec.Class.Name, replicas: int(d.Spec.Replicas), begun: begun,
		done: time.Now(),
	}
	if u := d.Spec.Strategy.RollingUpdate; u != nil && d.Spec.Strategy.Type == machinev1.RollingUpdateStrategyType {
		w.surge = u.MaxSurge.IntValue()
	}
	c.wishes = append(c.wishes, w)
}

// ask changes a pool, however often the API server refuses.
func (c *chaos) ask(ctx context.Context, pool string, change func(*machinev1.MachineDeployment)) error {
	d := &machinev1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: stack.Namespace, Name: pool}}
	begun := time.Now()
	err := stack.Until(ctx, time.Minute, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		return c.Edit(ctx, d, func() { change(d) })
	})
	if err == nil {
		c.remember(d, begun)
	}
	return err
}

func (c *chaos) aPool() string { return c.pools[c.random.IntN(len(c.pools))] }

// last is what was asked of a pool last.
func (c *chaos) last(pool string) wish {
	for _, w := range slices.Backward(c.wishes) {
		if w.pool == pool {
			return w
		}
	}
	return wish{}
}

// roll asks a pool for the other class, also in the middle of a rollout.
func (c *chaos) roll(ctx context.Context) (bool, error) {
	pool := c.aPool()
	class := classes[0]
	if c.last(pool).class == class {
		class = classes[1]
	}
	c.say("roll %s to %s", pool, class)
	return true, c.ask(ctx, pool, func(d *machinev1.MachineDeployment) { d.Spec.Template.Spec.Class.Name = class })
}

func (c *chaos) scale(ctx context.Context) (bool, error) {
	pool, replicas := c.aPool(), c.random.IntN(maxReplicas+1)
	c.say("scale %s from %d to %d", pool, c.last(pool).replicas, replicas)
	return true, c.ask(ctx, pool, func(d *machinev1.MachineDeployment) { d.Spec.Replicas = int32(replicas) })
}

// pause pauses a pool for a while.
func (c *chaos) pause(ctx context.Context) (bool, error) {
	pool, pause := c.aPool(), c.between(4*time.Second, 20*time.Second)
	c.say("pause %s for %s", pool, pause.Round(time.Millisecond))
	var goOn func(context.Context) error
	goOn = func(ctx context.Context) error {
		if c.apiDown {
			c.after(time.Second, goOn)
			return nil
		}
		c.say("%s goes on", pool)
		return c.ask(ctx, pool, func(d *machinev1.MachineDeployment) { d.Spec.Paused = false })
	}
	c.after(pause, goOn)
	return true, c.ask(ctx, pool, func(d *machinev1.MachineDeployment) { d.Spec.Paused = true })
}

// deleteMachine deletes a Machine, as a user does.
func (c *chaos) deleteMachine(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	n := c.random.IntN(1 << 20)
	machines, err := c.Machines(ctx, "")
	if err != nil || len(machines) == 0 {
		return false, nil // the API server is just coming back
	}
	m := &machines[n%len(machines)]
	c.say("a user deletes Machine %s", m.Name)
	if err := client.IgnoreNotFound(c.Client.Delete(ctx, m)); err != nil && !apierrors.IsServiceUnavailable(err) {
		c.say("delete %s: %v", m.Name, err)
	}
	return true, nil
}
