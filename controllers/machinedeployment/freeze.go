package machinedeployment

import (
	"context"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/freeze"
)

// frozenSets returns the names of the sets that may not make machines, because
// they have too many.
func (s *scope) frozenSets() []string {
	var names []string
	for _, o := range s.sets {
		if freeze.IsFrozen(o.observed) {
			names = append(names, o.observed.Name)
		}
	}
	return names
}

// syncFreeze labels the deployment as frozen while any of its sets is, and passes
// a person's wish to unfreeze on to them. The label is a sign only: it does not
// stop rollouts. The wish is taken off the deployment when every frozen set has
// it.
func (s *scope) syncFreeze(ctx context.Context) (bool, error) {
	if wish, ok := s.desired.Annotations[machinev1.UnfreezeAnnotation]; ok {
		for _, o := range s.sets {
			if freeze.IsFrozen(o.observed) {
				setAnnotation(o.desired, machinev1.UnfreezeAnnotation, wish)
			}
		}
		if err := s.patchSets(ctx); err != nil {
			return false, err
		}
		delete(s.desired.Annotations, machinev1.UnfreezeAnnotation)
	}
	if len(s.frozenSets()) > 0 {
		setLabel(s.desired, machinev1.FreezeLabel, freeze.LabelValue)
	} else if freeze.IsFrozen(s.desired) {
		delete(s.desired.Labels, machinev1.FreezeLabel)
	}
	return true, s.patchDeployment(ctx)
}
