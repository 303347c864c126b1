package machineset

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/freeze"
)

// limit freezes a set that has too many machines, and unfreezes it when they are
// gone or a person asks for it. It runs before anything is deleted, so that a
// surplus is noticed however fast it is removed. A frozen set creates nothing.
func (c *Controller) limit(ctx context.Context, p *pass) error {
	p.limits = freeze.LimitsOf(p.set, p.deployment, freeze.Margins{Up: c.SafetyUp, Down: c.SafetyDown})
	if _, asked := p.set.Annotations[machinev1.UnfreezeAnnotation]; asked {
		p.memory.thawedUntil = p.now.Add(c.OvershootPeriod)
		return c.unfreeze(ctx, p)
	}
	frozen := freeze.IsFrozen(p.set)
	defer func() { c.lookAgain(p) }()
	switch p.limits.Evaluate(frozen, len(p.machines)) {
	case freeze.Freeze:
		// What a person has unfrozen gets its chance to create what is missing.
		if p.now.Before(p.memory.thawedUntil) {
			return nil
		}
		return c.freeze(ctx, p)
	case freeze.Unfreeze:
		return c.unfreeze(ctx, p)
	case freeze.Keep:
	}
	return nil
}

func (c *Controller) freeze(ctx context.Context, p *pass) error {
	err := c.patchSet(ctx, p, func(s *machinev1.MachineSet) {
		if s.Labels == nil {
			s.Labels = map[string]string{}
		}
		s.Labels[machinev1.FreezeLabel] = freeze.LabelValue
	})
	if err != nil {
		return err
	}
	c.SafetyEvents.Event(p.set, corev1.EventTypeNormal, machinev1.EventFrozeMachineSet, freeze.MessageFrozen)
	return nil
}

func (c *Controller) unfreeze(ctx context.Context, p *pass) error {
	was := freeze.IsFrozen(p.set)
	err := c.patchSet(ctx, p, func(s *machinev1.MachineSet) {
		if was {
			delete(s.Labels, machinev1.FreezeLabel)
		}
		delete(s.Annotations, machinev1.UnfreezeAnnotation)
	})
	if err != nil || !was {
		return err
	}
	c.SafetyEvents.Event(p.set, corev1.EventTypeNormal, machinev1.EventUnfrozeMachineSet, freeze.MessageUnfrozen)
	return nil
}

// lookAgain asks for another look while there are too many machines, although
// every change of them brings one anyway.
func (c *Controller) lookAgain(p *pass) {
	if freeze.IsFrozen(p.set) || len(p.machines) > int(p.set.Spec.Replicas) {
		p.after(c.OvershootPeriod)
	}
}
