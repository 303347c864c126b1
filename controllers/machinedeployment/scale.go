package machinedeployment

import (
	"context"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/rollout"
)

// scale distributes changed replicas over the sets, without creating one.
func (s *scope) scale(ctx context.Context) error {
	if s.newSet != nil {
		s.syncNewSet()
		if s.d.Spec.Strategy.Type == machinev1.InPlaceUpdateStrategyType {
			s.countMoved()
		}
	}
	s.distribute()
	if err := s.patchSets(ctx); err != nil {
		return err
	}
	if s.d.Spec.Paused && s.d.Spec.RollbackTo == nil {
		return s.cleanUpHistory(ctx)
	}
	return nil
}

// distribute sizes each set for its share of the replicas.
func (s *scope) distribute() {
	views := make([]rollout.Set, len(s.sets))
	current := -1
	for i, o := range s.sets {
		views[i] = o.view()
		if o == s.newSet {
			current = i
		}
	}
	current = rollout.MarkFailing(s.d, views, current)
	for i, size := range rollout.Scaled(s.bounds, views, current, rollout.Proportional(s.d)) {
		// Sets of unchanged size get the annotations too, which record that scaling is
		// done. MCM omits that during an in-place update, which then never continues.
		if views[i].Active() || size > 0 {
			s.resize(s.sets[i], size)
		}
	}
}
