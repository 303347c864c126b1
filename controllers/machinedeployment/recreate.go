package machinedeployment

import (
	"context"
	"errors"

	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/rollout"
)

// recreate deletes all old machines, and creates new ones when the last is gone. A set
// that is asked for none in this pass may have one that the cache does not show yet.
func (s *scope) recreate(ctx context.Context) error {
	annotated := s.markNodes(ctx)
	_, old := s.setViews()
	for i, o := range s.oldSets() {
		if old[i].Spec > 0 { // not of a set that is being deleted
			s.resize(o, 0)
		}
	}
	if !rollout.Gone(old) {
		if s.newSet != nil {
			s.syncNewSet()
		}
		return errors.Join(annotated, s.patchSets(ctx))
	}
	ready, err := s.ensureNewSet(ctx, func() int { return s.bounds.Replicas })
	if err != nil || !ready {
		return errors.Join(annotated, err)
	}
	if s.newSet.desired.Spec.Replicas != s.d.Spec.Replicas {
		s.resize(s.newSet, s.bounds.Replicas)
	}
	return errors.Join(annotated, s.patchSets(ctx), s.cleanUpIfComplete(ctx))
}
