package machinedeployment

import (
	"context"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/safety/brake"
)

// frozenSets returns the names of the sets that create no machines because they
// have too many.
func (s *scope) frozenSets() []string {
	var names []string
	for _, o := range s.sets {
		if brake.IsFrozen(o.observed) {
			names = append(names, o.observed.Name)
		}
	}
	return names
}

// frozenCondition returns the condition Frozen of the first set that creates no machines
// because it has too many; nil if there is none. A set that has no such condition yet, or
// lost it, stands for itself.
func (s *scope) frozenCondition() *machinev1.MachineSetCondition {
	for _, o := range s.sets {
		if !brake.IsFrozen(o.observed) {
			continue
		}
		for i := range o.observed.Status.Conditions {
			if c := &o.observed.Status.Conditions[i]; c.Type == machinev1.MachineSetFrozen {
				return c
			}
		}
		return &machinev1.MachineSetCondition{
			Reason:  machinev1.ReasonMachineDeploymentStateSync,
			Message: "Machine set " + o.observed.Name + " is frozen",
		}
	}
	return nil
}

// syncFreeze labels the deployment as frozen while one of its sets is. The label
// only informs; it does not stop rollouts. A request to unfreeze is copied to the
// frozen sets, and removed from the deployment when all of them have it.
func (s *scope) syncFreeze(ctx context.Context) (bool, error) {
	if request, ok := s.desired.Annotations[machinev1.UnfreezeAnnotation]; ok {
		for _, o := range s.sets {
			if brake.IsFrozen(o.observed) {
				machinev1.SetAnnotation(o.desired, machinev1.UnfreezeAnnotation, request)
			}
		}
		if err := s.patchSets(ctx); err != nil {
			return false, err
		}
		delete(s.desired.Annotations, machinev1.UnfreezeAnnotation)
	}
	if len(s.frozenSets()) > 0 {
		machinev1.SetLabel(s.desired, machinev1.FreezeLabel, brake.FrozenLabel)
	} else if brake.IsFrozen(s.desired) {
		delete(s.desired.Labels, machinev1.FreezeLabel)
	}
	return true, s.patchDeployment(ctx)
}
