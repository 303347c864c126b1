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
	// Longest is how long those that joined took at most.
	Longest time.Duration
	// Example is the name of one that failed; "" if none did.
	Example string
}

// Since counts the machines that joined, or failed to, after t. The others do not count.
func Since(t time.Time, machines []*machinev1.Machine) Joins {
	var j Joins
	for _, m := range machines {
		c := Recorded(m)
		if c == nil || !c.LastTransitionTime.After(t) {
			continue
		}
		switch {
		case c.Status == corev1.ConditionTrue:
			j.Joined++
			j.Longest = max(j.Longest, c.LastTransitionTime.Sub(m.CreationTimestamp.Time))
		case c.Reason == machinev1.ReasonFailedJoin:
			j.Failed++
			j.Example = m.Name
		}
	}
	return j
}
