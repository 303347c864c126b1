package machineset

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/freeze"
)

// freezeOvershoot freezes a set that has too many machines, and unfreezes it when they are
// gone or a person asks for it. It runs before anything is deleted, so that a
// surplus is noticed however fast it is removed. A frozen set creates nothing.
func (c *Controller) freezeOvershoot(ctx context.Context, s *scope) error {
	s.limits = freeze.LimitsOf(s.set, s.deployment, freeze.Margins{Up: c.SafetyUp, Down: c.SafetyDown})
	if _, asked := s.set.Annotations[machinev1.UnfreezeAnnotation]; asked {
		s.memory.unfrozenUntil = s.now.Add(c.OvershootPeriod)
		return c.unfreeze(ctx, s)
	}
	frozen := freeze.IsFrozen(s.set)
	defer func() { c.requeueWhileOvershooting(s) }()
	switch s.limits.Evaluate(frozen, len(s.machines)) {
	case freeze.Freeze:
		// What a person has unfrozen gets its chance to create what is missing.
		if s.now.Before(s.memory.unfrozenUntil) {
			return nil
		}
		return c.freeze(ctx, s)
	case freeze.Unfreeze:
		return c.unfreeze(ctx, s)
	case freeze.Keep:
	}
	return nil
}

func (c *Controller) freeze(ctx context.Context, s *scope) error {
	err := c.patchSet(ctx, s, func(set *machinev1.MachineSet) {
		if set.Labels == nil {
			set.Labels = map[string]string{}
		}
		set.Labels[machinev1.FreezeLabel] = freeze.LabelValue
	})
	if err != nil {
		return err
	}
	c.SafetyEvents.Event(s.set, corev1.EventTypeNormal, machinev1.EventFrozeMachineSet, freeze.MessageFrozen)
	return nil
}

func (c *Controller) unfreeze(ctx context.Context, s *scope) error {
	was := freeze.IsFrozen(s.set)
	err := c.patchSet(ctx, s, func(set *machinev1.MachineSet) {
		if was {
			delete(set.Labels, machinev1.FreezeLabel)
		}
		delete(set.Annotations, machinev1.UnfreezeAnnotation)
	})
	if err != nil || !was {
		return err
	}
	c.SafetyEvents.Event(s.set, corev1.EventTypeNormal, machinev1.EventUnfrozeMachineSet, freeze.MessageUnfrozen)
	return nil
}

// requeueWhileOvershooting asks for another look while there are too many machines, although
// every change of them brings one anyway.
func (c *Controller) requeueWhileOvershooting(s *scope) {
	if freeze.IsFrozen(s.set) || len(s.machines) > int(s.set.Spec.Replicas) {
		s.requeueAfter(c.OvershootPeriod)
	}
}
