package machinedeployment

import (
	"context"
	"errors"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/rollout"
)

// rollingUpdate replaces old machines gradually: each reconcile scales the new set
// out and the old ones in as far as surge and availability allow. Neither relies
// on the other: a machine that was only just asked for is unavailable, so no old
// one is removed for it.
func (s *scope) rollingUpdate(ctx context.Context) error {
	ready, err := s.ensureNewSet(ctx, func() int {
		_, old := s.setViews()
		return rollout.NewReplicas(s.bounds, rollout.Set{}, old)
	})
	if err != nil || !ready {
		return err
	}
	// Before a machine is deleted, so that its pods do not move to the next node
	// that is drained.
	tainted := s.markNodes(ctx)
	current, old := s.setViews()
	if size := rollout.NewReplicas(s.bounds, *current, old); size != current.Spec {
		s.resize(s.newSet, size)
		current.Spec = size
	}
	keep := rollout.OldReplicas(s.bounds, *current, old)
	for i, o := range s.oldSets() {
		if keep[i] != old[i].Spec {
			s.resize(o, keep[i])
		}
		if len(o.live()) > 0 {
			machinev1.SetAnnotation(o.desired, machinev1.PreferNoScheduleKey, "True")
		}
	}
	return errors.Join(tainted, s.patchSets(ctx), s.cleanUpIfComplete(ctx))
}
