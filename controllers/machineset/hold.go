package machineset

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/hold"
)

// waitForHold reports whether a Machine of the set, or one that the set would
// adopt, is held for a migration. Then nothing is created, deleted, adopted or
// changed, so that the objects of a worker pool can be held and released in any
// order. One Event says so; the end of the Machine's hold triggers a reconcile.
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

// firstHeldMachine returns the name of the first Machine that is held; "" if none is.
func firstHeldMachine(machines []*machinev1.Machine) string {
	for _, m := range machines {
		if machinev1.Held(m) {
			return m.Name
		}
	}
	return ""
}

func heldMessage(s *scope) string {
	return fmt.Sprintf("Machine %s is held for a migration; nothing is created, deleted or changed until annotation "+
		"%s is removed from it", s.heldMachine, machinev1.MigrationHoldAnnotation)
}

// errIfHeld returns a conflict if the set or one of its Machines is held on the
// API server. The cache does not show that yet.
func errIfHeld(set *machinev1.MachineSet, machines []*machinev1.Machine) error {
	if machinev1.Held(set) {
		return hold.Behind(set.Name)
	}
	if name := firstHeldMachine(machines); name != "" {
		return hold.Behind(name)
	}
	return nil
}
