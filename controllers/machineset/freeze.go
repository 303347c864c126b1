package machineset

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/safety/brake"
)

// Messages of the Events. They never vary, so that repetitions are counted on
// one Event.
const (
	messageFrozen   = "MachineSet has too many machines, none is created until the surplus is gone"
	messageUnfrozen = "MachineSet may create machines again"
)

// freezeOvershoot freezes a set that has too many machines, and unfreezes it when
// they are gone or a person asks for it. It runs before machines are deleted, so
// that a surplus is noticed however fast it is removed. A frozen set creates no
// machines.
func (c *Controller) freezeOvershoot(ctx context.Context, s *scope) error {
	s.bounds = brake.BoundsOf(s.set, s.deployment, brake.Margins{Up: c.SafetyUp, Down: c.SafetyDown})
	if _, asked := s.set.Annotations[machinev1.UnfreezeAnnotation]; asked {
		s.memory.unfrozenUntil = s.now.Add(c.OvershootPeriod)
		return c.unfreeze(ctx, s)
	}
	is := brake.IsFrozen(s.set)
	defer func() { c.requeueWhileOvershooting(s) }()
	s.overshoot = s.overshootCount()
	switch becomes := s.bounds.Frozen(s.set, s.overshoot); {
	case is && !becomes:
		return c.unfreeze(ctx, s)
	case becomes && !is && !s.now.Before(s.memory.unfrozenUntil): // until then a person has it create what is missing
		return c.freeze(ctx, s)
	}
	return nil
}

// overshootCount returns how many machines are compared with the limits. Terminating ones
// are no surplus of a set that has all that it wants: they go, and there is nothing to
// prevent. Where the set lacks machines they count, as they always do in MCM: a set whose
// machines fail and cannot be deleted would create ever more VMs.
func (s *scope) overshootCount() int {
	alive := len(active(s.machines))
	if alive < int(s.set.Spec.Replicas) {
		return len(s.machines)
	}
	return alive
}

func (c *Controller) freeze(ctx context.Context, s *scope) error {
	err := c.patchSet(ctx, s, func(set *machinev1.MachineSet) {
		machinev1.SetLabel(set, machinev1.FreezeLabel, brake.FrozenLabel)
	})
	if err != nil {
		return err
	}
	c.SafetyEvents.Event(s.set, corev1.EventTypeNormal, machinev1.EventFrozeMachineSet, messageFrozen)
	return nil
}

func (c *Controller) unfreeze(ctx context.Context, s *scope) error {
	wasFrozen := brake.IsFrozen(s.set)
	err := c.patchSet(ctx, s, func(set *machinev1.MachineSet) {
		if wasFrozen {
			delete(set.Labels, machinev1.FreezeLabel)
		}
		delete(set.Annotations, machinev1.UnfreezeAnnotation)
	})
	if err != nil || !wasFrozen {
		return err
	}
	c.SafetyEvents.Event(s.set, corev1.EventTypeNormal, machinev1.EventUnfrozeMachineSet, messageUnfrozen)
	return nil
}

// requeueWhileOvershooting repeats the check while there are too many machines,
// even if none of them changes.
func (c *Controller) requeueWhileOvershooting(s *scope) {
	if brake.IsFrozen(s.set) || s.overshootCount() > int(s.set.Spec.Replicas) {
		s.requeueAfter(c.OvershootPeriod)
	}
}
