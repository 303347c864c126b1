package rollout

import (
	"slices"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// InPlaceReplicas is how many machines the set with the current template may be
// asked to have during an update in place, and whether machines that are
// updated may move to it. undergoing is how many machines of old sets are being updated:
// they will move, and leave no room for new ones.
//
// It never grows for a machine that could be updated instead: only by what the
// old sets lack, and to all replicas once they have none. It gets the surge when it
// is created, i.e. creating is true, and while no machine may be taken out for its
// update without surge: after a rollback to a set that exists, or when an old
// machine was lost. A set that is too large shrinks as far as availability allows,
// and gives back the replicas for which it has no machines while more are asked for in all
// than replicas and surge: after a rollback these machines are in another set.
func InPlaceReplicas(b Bounds, newSet Set, old []Set, undergoing int, creating bool) (size int, transfer bool) {
	kept := sum(old, expected)
	excess := min(kept+newSet.Spec-b.Allowed(), newSet.Spec-newSet.Live)
	switch {
	case excess > 0:
		return newSet.Spec - excess, false
	case newSet.Spec == b.Replicas:
		return newSet.Spec, false
	case newSet.Spec > b.Replicas:
		return max(b.Replicas, newSet.Spec-dispensable(b, newSet)), false
	case kept == 0:
		return b.Replicas, false
	case kept+newSet.Spec < b.Replicas:
		return b.Replicas - kept, false
	case b.Surge > 0 && (creating || kept+newSet.Spec <= b.MinAvailable()):
		size = min(NewReplicas(b, newSet, old), b.Replicas-undergoing)
		return max(size, newSet.Spec), size <= newSet.Spec
	}
	return newSet.Spec, true
}

// InPlaceKeep returns how many machines each of the old sets keeps during an update in place, in the
// order of old: all, until newSet is asked for all replicas, and then as many as in a rolling update.
func InPlaceKeep(b Bounds, newSet Set, old []Set) []int {
	if newSet.Spec >= b.Replicas {
		return oldReplicas(b, newSet, old)
	}
	keep := make([]int, len(old))
	for i, s := range old {
		keep[i] = s.Spec
	}
	return keep
}

// InPlace is what selecting machines for an update in place goes by.
type InPlace struct {
	// Asked is the sum of spec.replicas of all sets.
	Asked int
	// New is spec.replicas of the set with the current template, and
	// NewAvailable how many of its machines are available.
	New, NewAvailable int
	// Available is how many machines of all sets are available, without those
	// that were selected.
	Available int
	// Undergoing is how many machines of old sets were selected and have not moved.
	Undergoing int
}

// Selectable is how many more machines may be taken out for an update in place,
// so that enough stay available and no more are updated than wanted. Machines that are asked for beyond
// replicas and surge do not count: a scale-in that has not reached the sets takes as many, which may be
// available ones.
//
// MCM subtracts a machine that is being updated both as selected and as
// unavailable and so takes out the next only when all are back; here it counts
// once.
func Selectable(b Bounds, s InPlace) int {
	wanted := b.Replicas - s.New - s.Undergoing
	missing := max(s.New-s.NewAvailable, 0)
	needed := b.MinAvailable() + max(s.Asked-b.Allowed(), 0)
	possible := s.Asked - needed - missing - s.Undergoing
	return max(min(wanted, possible, s.Available-needed), 0)
}

// InUpdateOrder sorts machines for their update in place: available ones first, then by age and name.
func InUpdateOrder(machines []*machinev1.Machine) []*machinev1.Machine {
	slices.SortStableFunc(machines, func(a, b *machinev1.Machine) int {
		if IsAvailable(a) != IsAvailable(b) {
			if IsAvailable(a) {
				return -1
			}
			return 1
		}
		return a.CreationTimestamp.Compare(b.CreationTimestamp.Time)
	})
	return machines
}
