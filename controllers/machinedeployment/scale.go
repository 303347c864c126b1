package machinedeployment

import (
	"context"
	"slices"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/rollout"
)

// scale distributes changed replicas over the sets, without creating one.
func (s *scope) scale(ctx context.Context) error {
	if s.newSet != nil {
		s.syncNewSet()
	}
	if s.newSet != nil && s.d.Spec.Strategy.Type == machinev1.InPlaceUpdateStrategyType {
		if s.countMoved(); !s.oldSetsSettled() {
			return s.patchSets(ctx) // others grow once the old sets create no more
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

// countMoved adjusts replicas to where the machines are: a set gets replicas for
// machines that moved to it, which after a rollback may be an old one, and old sets
// lose those for machines that are gone and that they cannot replace.
func (s *scope) countMoved() {
	for _, o := range s.sets {
		asked := int(o.desired.Spec.Replicas)
		if n := min(len(o.moved()), len(o.live())-asked); n > 0 {
			s.resize(o, asked+n)
		}
	}
	for _, o := range s.oldSets() {
		terminating := len(o.machines) - len(o.live())
		// Machines that the set has just created may not be in the cache yet.
		actual := max(len(o.live()), int(o.observed.Status.Replicas)-terminating)
		if o.observed.Status.ObservedGeneration >= o.observed.Generation && actual < int(o.desired.Spec.Replicas) {
			s.resize(o, actual)
		}
	}
}

// moved returns the live machines that have moved to the set.
func (o *ownedSet) moved() []*machinev1.Machine {
	return slices.DeleteFunc(o.live(), func(m *machinev1.Machine) bool { return !hasMoved(m) })
}

// hasMoved reports whether a machine has come from another set, and the replica for it may not have followed.
func hasMoved(m *machinev1.Machine) bool {
	_, ok := m.Labels[machinev1.UpdateResultLabel]
	return ok
}

// oldSetsSettled reports whether each old set has observed the replicas that it is to have. Until
// then it may create machines that it was asked for before. Replicas that this reconcile takes from
// a set have not even been written.
func (s *scope) oldSetsSettled() bool {
	return !slices.ContainsFunc(s.oldSets(), func(o *ownedSet) bool {
		return o.desired.Spec.Replicas < o.observed.Spec.Replicas ||
			o.observed.Status.ObservedGeneration < o.observed.Generation
	})
}

// resizeInPlace scales the new set, or moves machines to it. The new set grows once the old ones have
// settled. When it is asked for all replicas, they shrink as far as availability allows.
func (s *scope) resizeInPlace(ctx context.Context) error {
	before := int(s.newSet.desired.Spec.Replicas)
	size, transfer, err := s.inPlaceReplicas(ctx)
	if err == nil && size > before {
		if err = s.readSelectedNodes(ctx); err == nil {
			size, transfer, err = s.inPlaceReplicas(ctx)
		}
	}
	if err != nil {
		return err
	}
	if size < before || size > before && s.oldSetsSettled() {
		s.resize(s.newSet, size)
	}
	if transfer {
		if err := s.transferMachines(ctx); err != nil {
			return err
		}
	}
	return s.shrinkOldSets(ctx)
}

// inPlaceReplicas returns how many machines the new set is asked for, and reports whether machines
// may move to it.
func (s *scope) inPlaceReplicas(ctx context.Context) (size int, transfer bool, err error) {
	undergoing, err := s.undergoing(ctx)
	if err != nil {
		return 0, false, err
	}
	newSet, old := s.setViews()
	size, transfer = rollout.InPlaceReplicas(s.bounds, *newSet, old, undergoing, false)
	return size, transfer, nil
}

// shrinkOldSets gives old sets the replicas that they keep beside the new set. While the API server of
// the target cluster is away they keep all: which machines are about to leave service is not known.
func (s *scope) shrinkOldSets(ctx context.Context) error {
	if _, shrinks, err := s.inPlaceKeep(ctx); err != nil || !shrinks {
		return err
	}
	if err := s.readSelectedNodes(ctx); err != nil {
		return err
	}
	keep, _, err := s.inPlaceKeep(ctx)
	if err != nil {
		return err
	}
	for i, o := range s.oldSets() {
		if keep[i] < int(o.desired.Spec.Replicas) {
			s.resize(o, keep[i])
		}
	}
	return nil
}

// inPlaceKeep returns how many machines each old set keeps, and reports whether one of them shrinks.
func (s *scope) inPlaceKeep(ctx context.Context) (keep []int, shrinks bool, err error) {
	newSet, old, err := s.inPlaceViews(ctx)
	if err != nil {
		return nil, false, err
	}
	keep = rollout.InPlaceKeep(s.bounds, newSet, old)
	for i := range old {
		shrinks = shrinks || keep[i] < old[i].Spec
	}
	return keep, shrinks, nil
}
