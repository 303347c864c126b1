package rollout

import (
	"slices"
	"strings"
	"time"
)

// A Set is what the arithmetic sees of a MachineSet. All counts are machines.
type Set struct {
	Name    string
	Created time.Time
	// Spec is how many are asked for; 0 for a set that is being deleted.
	Spec int
	// Replicas is how many exist or are about to: terminating ones count, and
	// so do those that are asked for and not there yet.
	Replicas int
	// Live is how many exist or are about to, without the terminating ones.
	Live int
	// Available is how many of them are Running, or Available without a target cluster.
	Available int
	// Exhausted is how many live ones have no VM because the cloud has no capacity.
	Exhausted int
	// Failing is true if the rollout to the set is paused, because its machines do not join.
	Failing bool
	// Preserved is how many are Failed and kept for examination.
	Preserved int
	// ProtectedUnavailable is how many are neither preserved nor counted in Available, and
	// yet go no earlier than one that is available, e.g. because that has a priority.
	ProtectedUnavailable int
	// Marked is how many live ones somebody chose to be deleted first.
	Marked int
	// Desired is the replicas of the deployment when the set was last scaled; nil if unknown.
	Desired *int
	// Max is replicas + surge of the deployment when the set was last scaled; nil if unknown.
	Max *int
}

// Active reports whether s is asked to have machines.
func (s Set) Active() bool { return s.Spec > 0 }

// WithUnavailable returns s with n of its available machines counted as unavailable. The MachineSet
// does not prefer them when it deletes surplus, so that one of the others may go.
func (s Set) WithUnavailable(n int) Set {
	n = min(n, s.Available)
	s.Available -= n
	if s.Available > 0 {
		s.ProtectedUnavailable += n
	}
	return s
}

// sum adds up what of returns for each set.
func sum(sets []Set, of func(Set) int) int {
	total := 0
	for _, s := range sets {
		total += of(s)
	}
	return total
}

func spec(s Set) int      { return s.Spec }
func replicas(s Set) int  { return s.Replicas }
func available(s Set) int { return s.Available }

// preserved is how many of the machines that a set is to keep are Failed and kept
// for examination.
func preserved(s Set) int { return min(s.Preserved, s.Spec) }

// expected is how many live machines a set has or is about to have.
func expected(s Set) int { return max(s.Spec, s.Live) }

// older orders sets by age, then by name.
func older(a, b Set) int {
	if c := a.Created.Compare(b.Created); c != 0 {
		return c
	}
	return strings.Compare(a.Name, b.Name)
}

// NewReplicas is how many machines the set with the current template may be
// asked to have: as many more as there is room for below replicas + surge, but
// not beyond replicas. others are all other sets. A set that is larger already, because
// a rollout to another template was paused and the user rolled back, shrinks to replicas
// as far as availability allows.
//
// Terminating machines take up room, as they do in MCM, so a machine is
// replaced only when it is gone. MCM counts status.replicas alone and so grows
// the set twice before its first machines are reported; here those that are
// asked for count as well.
func NewReplicas(b Bounds, newSet Set, others []Set) int {
	if newSet.Spec > b.Replicas {
		return max(b.Replicas, newSet.Spec-dispensable(b, newSet))
	}
	room := b.Replicas + b.Surge - sum(others, replicas) - newSet.Replicas
	if room <= 0 {
		return newSet.Spec
	}
	return newSet.Spec + min(room, b.Replicas-newSet.Spec)
}

// dispensable is how many replicas s can lose while MinAvailable of its machines stay
// available: those that it has no machines for, or the unhealthy ones and the available
// ones beyond MinAvailable. Which machines go is up to the set, and a healthy one with a
// priority goes first.
func dispensable(b Bounds, s Set) int {
	return max(s.Spec-s.Live, unhealthy(s)+max(s.Available-b.MinAvailable(), 0))
}

// oldReplicas returns how many machines each of the old sets keeps during a
// rolling update, in the order of old. Unhealthy machines go first, whichever
// set they are in, then as many as availability allows; older sets before
// younger ones. Old machines that are kept for examination are not missed, as in
// the condition Available: nothing could be replaced otherwise while there are as
// many of them as machines may be unavailable.
func oldReplicas(b Bounds, newSet Set, old []Set) []int {
	keep := make([]int, len(old))
	for i, s := range old {
		keep[i] = s.Spec
	}
	missing := max(newSet.Spec-newSet.Available, 0)
	budget := sum(old, spec) + newSet.Spec - b.MinAvailable() - missing
	if budget <= 0 {
		return keep
	}
	order := byAge(old)
	for _, i := range order {
		n := min(budget, unhealthy(old[i]))
		keep[i] -= n
		budget -= n
	}
	// What is left of the budget bounds this too: available machines that a set has
	// in excess of its spec go anyway, and would otherwise be counted on.
	removable := min(budget, sum(old, available)+newSet.Available-b.MinAvailable()+sum(old, preserved))
	for _, i := range order {
		if removable <= 0 {
			break
		}
		n := min(removable, keep[i])
		keep[i] -= n
		removable -= n
	}
	return keep
}

// unhealthy is how many machines s loses if it is asked for fewer, before it
// loses one that is available. Those that are kept for examination go last, and
// others go late while a healthy one has a priority, so they do not count; MCM
// counts them and then loses available ones instead.
func unhealthy(s Set) int {
	return max(s.Spec-s.Available-s.Preserved-s.ProtectedUnavailable, 0)
}

// byAge returns the indexes of sets, oldest first.
func byAge(sets []Set) []int {
	order := make([]int, len(sets))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return older(sets[i], sets[j]) })
	return order
}
