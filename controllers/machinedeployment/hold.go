package machinedeployment

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// waitForHold reports whether a set or machine of the deployment, or a set that it
// would adopt, is held for a migration. Then nothing is rolled out, scaled or
// changed, so that the objects of a worker pool can be held and released in any
// order. One Event says so.
func (s *scope) waitForHold() bool {
	s.heldObject = s.firstHeldObject()
	if s.heldObject != "" && !s.holdReported() {
		s.emitNormal(machinev1.EventHeld, "%s", s.heldMessage())
	}
	return s.heldObject != ""
}

// holdReported reports whether the status already says that the deployment waits
// for a held object.
func (s *scope) holdReported() bool {
	if s.d.Status.Progress == nil {
		return false
	}
	c := meta.FindStatusCondition(s.d.Status.Progress.Conditions, machinev1.ConditionReplicasReady)
	return c != nil && c.Reason == machinev1.ReasonHeld
}

// firstHeldObject returns kind and name of the first set or machine that is held;
// "" if none is.
func (s *scope) firstHeldObject() string {
	for _, o := range s.sets {
		if machinev1.Held(o.observed) {
			return "MachineSet " + o.observed.Name
		}
		for _, m := range o.machines {
			if machinev1.Held(m) {
				return "Machine " + m.Name
			}
		}
	}
	for _, orphan := range s.orphans {
		if s.selector != nil && s.selector.Matches(labels.Set(orphan.Labels)) && machinev1.Held(orphan) {
			return "MachineSet " + orphan.Name
		}
	}
	return ""
}

func (s *scope) heldMessage() string {
	return fmt.Sprintf("%s is held for a migration; nothing is created, scaled or changed until annotation %s "+
		"is removed from it", s.heldObject, machinev1.MigrationHoldAnnotation)
}
