package machinedeployment

import (
	"context"
	"errors"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/rollout"
)

// isRollingUpdate says that the strategy is RollingUpdate.
func (s *scope) isRollingUpdate() bool {
	return s.d.Spec.Strategy.Type == machinev1.RollingUpdateStrategyType
}

// rollingUpdate replaces old machines bit by bit: each pass grows the new set and shrinks
// the old ones as far as surge and availability allow. One does not need the
// other's outcome: a machine that was just asked for is unavailable, so it earns
// no old one its removal.
func (s *scope) rollingUpdate(ctx context.Context) error {
	ready, err := s.ensureNewSet(ctx, func() int {
		_, old := s.setViews()
		return rollout.NewReplicas(s.bounds, rollout.Set{}, old)
	})
	if err != nil || !ready {
		return err
	}
	// Before any machine goes, so that its pods do not move to one that goes next.
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
			setAnnotation(o.desired, machinev1.PreferNoScheduleKey, "True")
		}
	}
	return errors.Join(tainted, s.patchSets(ctx), s.cleanUpIfComplete(ctx))
}

// recreate removes all old machines, and makes new ones when the last is gone.
func (s *scope) recreate(ctx context.Context) error {
	annotated := s.markNodes(ctx)
	left := 0
	for _, o := range s.oldSets() {
		if o.desired.Spec.Replicas > 0 {
			s.resize(o, 0)
		}
		left += o.view().Replicas
	}
	if left > 0 {
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

// cleanUpIfComplete cleans up behind a complete rollout.
func (s *scope) cleanUpIfComplete(ctx context.Context) error {
	if !s.complete() {
		return nil
	}
	return s.cleanUpHistory(ctx)
}
