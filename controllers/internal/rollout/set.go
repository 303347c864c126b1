package rollout

import (
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
