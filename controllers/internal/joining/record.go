package joining

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// Record returns the conditions of a Machine with c as its condition MachineJoined, which
// goes last. The given slice is not changed.
func Record(conditions []corev1.NodeCondition, c corev1.NodeCondition) []corev1.NodeCondition {
	c.Type = machinev1.MachineJoined
	return append(OfNode(conditions), c)
}

// Recorded returns the condition MachineJoined of a Machine; nil if it has none yet.
func Recorded(m *machinev1.Machine) *corev1.NodeCondition {
	for i := range m.Status.Conditions {
		if m.Status.Conditions[i].Type == machinev1.MachineJoined {
			return &m.Status.Conditions[i]
		}
	}
	return nil
}

// FailedToJoin reports whether a Machine was given up because it did not join in time.
func FailedToJoin(m *machinev1.Machine) bool {
	c := Recorded(m)
	return c != nil && c.Status == corev1.ConditionFalse && c.Reason == machinev1.ReasonFailedJoin
}

// OfNode returns a copy of the conditions of a Machine without MachineJoined: those of its
// node, which are none until it is first seen.
func OfNode(conditions []corev1.NodeCondition) []corev1.NodeCondition {
	return slices.DeleteFunc(slices.Clone(conditions), func(c corev1.NodeCondition) bool {
		return c.Type == machinev1.MachineJoined
	})
}

// Joins are the machines that joined, or failed to, since some time.
type Joins struct {
	Failed, Joined int
	// First is when the first one failed; zero if none did.
	First time.Time
	// Longest is how long those that joined took at most.
	Longest time.Duration
	// Example is the name of that one; "" if none failed.
	Example string
}

// Joins counts the machines that joined since a failure was last counted, and those that
// failed to in a later cycle. What fails within one timeout of a counted failure belongs to
// its cycle and is never counted, even if it stays.
func (s State) Joins(p Policy, machines []*machinev1.Machine) Joins {
	var j Joins
	next := s.Counted.Add(s.Effective(p))
	for _, m := range machines {
		c := Recorded(m)
		if c == nil {
			continue
		}
		at := c.LastTransitionTime.Time
		switch {
		case c.Status == corev1.ConditionTrue && at.After(s.Counted):
			j.Joined++
			j.Longest = max(j.Longest, at.Sub(m.CreationTimestamp.Time))
		case c.Status == corev1.ConditionFalse && c.Reason == machinev1.ReasonFailedJoin && !at.Before(next):
			j.failed(m.Name, at)
		}
	}
	return j
}

func (j *Joins) failed(name string, at time.Time) {
	if j.Failed == 0 || at.Before(j.First) {
		j.First, j.Example = at, name
	}
	j.Failed++
}
