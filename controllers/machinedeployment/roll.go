package machinedeployment

import (
	"context"
	"errors"
	"maps"

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
	roll := rollout.RollOf(s.d, s.bounds, *current, old)
	s.capacityMissing, s.fellBack = roll.CapacityMissing, roll.FellBack
	if roll.New != current.Spec {
		s.resize(s.newSet, roll.New)
	}
	for i, o := range s.oldSets() {
		if roll.Keep[i] != old[i].Spec {
			s.resize(o, roll.Keep[i])
		}
		if len(o.live()) > 0 {
			machinev1.SetAnnotation(o.desired, machinev1.PreferNoScheduleKey, "True")
		}
	}
	patched := s.patchSets(ctx)
	if patched == nil {
		s.emitSurgeFallback()
	}
	return errors.Join(tainted, patched, s.cleanUpIfComplete(ctx))
}

// emitSurgeFallback emits an Event if an old machine went before there was a new one.
func (s *scope) emitSurgeFallback() {
	if s.fellBack {
		s.emitWarning(machinev1.ReasonSurgeFallback, "The cloud has no capacity for Machine %s: an old machine is deleted "+
			"first, and %d machines stay available (surge is tried again with the next machine)",
			s.exhaustedMachine(), rollout.Fallback(s.bounds).MinAvailable())
	}
}

// exhaustedMachine is the name of a machine of the new set that the cloud has no capacity
// for; "" if there is none.
func (s *scope) exhaustedMachine() string {
	for _, m := range s.newSet.live() {
		if rollout.IsExhausted(m) {
			return m.Name
		}
	}
	return ""
}

// rollBack gives the deployment the template of the requested revision, and clears
// the request whether that is possible or not. The next reconcile rolls it out.
func (s *scope) rollBack(ctx context.Context) error {
	revision := s.d.Spec.RollbackTo.Revision
	if revision == 0 {
		revision = rollout.LastRevision(s.machineSets())
	}
	s.desired.Spec.RollbackTo = nil
	set := rollout.OfRevision(s.machineSets(), revision)
	switch {
	case set == nil && revision == 0:
		s.emitWarning(machinev1.EventRollbackRevisionNotFound, "There is no earlier revision to roll back to; "+
			"nothing is rolled back")
	case set == nil:
		s.emitWarning(machinev1.EventRollbackRevisionNotFound, "There is no revision %d to roll back to; "+
			"nothing is rolled back", revision)
	case machinev1.SameTemplate(&s.d.Spec.Template, &set.Spec.Template):
		s.emitWarning(machinev1.EventRollbackTemplateUnchanged,
			"The template is that of revision %d already; nothing is rolled back", revision)
	default:
		s.restoreRevision(set)
		if err := s.patchDeployment(ctx); err != nil {
			return err
		}
		s.emitNormal(machinev1.EventDeploymentRollback, "Rolled back to revision %d", revision)
	}
	return s.patchDeployment(ctx)
}

// restoreRevision gives the deployment the template and the annotations of a set.
func (s *scope) restoreRevision(set *machinev1.MachineSet) {
	s.desired.Spec.Template = *set.Spec.Template.DeepCopy()
	delete(s.desired.Spec.Template.Labels, machinev1.TemplateHashLabel)
	maps.DeleteFunc(s.desired.Annotations, func(key, _ string) bool {
		return copiedToSets(key) && !s.survivesRollback(key)
	})
	for key, value := range set.Annotations {
		if copiedToSets(key) && !s.survivesRollback(key) {
			machinev1.SetAnnotation(s.desired, key, value)
		}
	}
}

// survivesRollback reports whether a rollback leaves an annotation of the deployment
// alone: the time of the scaler's last change is not part of any revision, and neither is a
// creation timeout that was adapted, which belongs to the record beside it.
func (s *scope) survivesRollback(key string) bool {
	_, adapted := s.d.Annotations[machinev1.EffectiveCreationTimeoutAppliedAnnotation]
	return key == machinev1.LastReplicaChangeByScalerAnnotation ||
		adapted && key == machinev1.EffectiveCreationTimeoutAnnotation
}

func (s *scope) machineSets() []*machinev1.MachineSet {
	var sets []*machinev1.MachineSet
	for _, o := range s.sets {
		sets = append(sets, o.observed)
	}
	return sets
}
