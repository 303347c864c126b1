package machineset

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/hold"
)

// waitForHold reports whether one of the set's Machines is being moved to another door, or
// one that the set would adopt: then nothing is created, deleted, adopted or
// changed, so that it does not matter in which order a pool is held and released.
// The set is told once; the Machine's release wakes it.
func (c *Controller) waitForHold(s *scope) bool {
	s.heldMachine = firstHeldMachine(s.machines)
	if s.heldMachine == "" {
		s.heldMachine = firstHeldMachine(s.orphans)
	}
	if s.heldMachine != "" && !s.memory.holdReported {
		c.Events.Eventf(s.set, corev1.EventTypeNormal, machinev1.EventHeld, "%s", heldMessage(s))
	}
	s.memory.holdReported = s.heldMachine != ""
	return s.memory.holdReported
}

// firstHeldMachine is the name of the first Machine that is held; empty if none is.
func firstHeldMachine(machines []*machinev1.Machine) string {
	for _, m := range machines {
		if machinev1.Held(m) {
			return m.Name
		}
	}
	return ""
}

func heldMessage(s *scope) string {
	return fmt.Sprintf("Machine %s is held for a migration, and nothing is created, deleted or changed until annotation "+
		"%s is off it", s.heldMachine, machinev1.MigrationHoldAnnotation)
}

// errIfHeld fails with a conflict if the API server has a hold on the set or on
// one of its Machines that the cache does not show.
func errIfHeld(set *machinev1.MachineSet, machines []*machinev1.Machine) error {
	if machinev1.Held(set) {
		return hold.Behind(set.Name)
	}
	if name := firstHeldMachine(machines); name != "" {
		return hold.Behind(name)
	}
	return nil
}

// confirmNotHeld makes sure that the set is not held, before its Machines are deleted
// with it: these deletions do not mind what has become of a Machine meanwhile.
func (c *Controller) confirmNotHeld(ctx context.Context, s *scope) error { return c.gate.Confirm(ctx, s.set) }
