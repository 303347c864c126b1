package rollout

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// Complete reports whether all machines of d have the current template and are
// available, and that no others are left.
func Complete(d *machinev1.MachineDeployment, s *machinev1.MachineDeploymentStatus) bool {
	return s.UpdatedReplicas == d.Spec.Replicas && s.Replicas == d.Spec.Replicas &&
		s.AvailableReplicas == d.Spec.Replicas && s.ObservedGeneration >= d.Generation
}

// Progressed reports whether there are more updated, ready or available machines, or
// fewer old ones, than before.
func Progressed(before, after *machinev1.MachineDeploymentStatus) bool {
	return after.UpdatedReplicas > before.UpdatedReplicas ||
		after.Replicas-after.UpdatedReplicas < before.Replicas-before.UpdatedReplicas ||
		after.ReadyReplicas > before.ReadyReplicas ||
		after.AvailableReplicas > before.AvailableReplicas
}

// Deadline returns how long d may go on without progress, negative if that is
// over. ok is false if it has no deadline, or none runs: nothing has begun, or
// the rollout is complete.
func Deadline(d *machinev1.MachineDeployment, s *machinev1.MachineDeploymentStatus, now time.Time) (left time.Duration,
	ok bool,
) {
	progressing := Condition(s, machinev1.MachineDeploymentProgressing)
	if d.Spec.ProgressDeadlineSeconds == nil || progressing == nil || d.Spec.Paused ||
		progressing.Reason == machinev1.ReasonNewMachineSetAvailable {
		return 0, false
	}
	end := progressing.LastUpdateTime.Add(time.Duration(*d.Spec.ProgressDeadlineSeconds) * time.Second)
	return end.Sub(now), true
}

// TimedOut reports whether d has made no progress within its deadline.
func TimedOut(d *machinev1.MachineDeployment, s *machinev1.MachineDeploymentStatus, now time.Time) bool {
	if c := Condition(s, machinev1.MachineDeploymentProgressing); c != nil &&
		c.Reason == machinev1.ReasonProgressDeadlineExceeded {
		return true
	}
	left, ok := Deadline(d, s, now)
	return ok && left < 0
}

// Condition returns the condition of that type; nil if there is none.
func Condition(s *machinev1.MachineDeploymentStatus,
	kind machinev1.MachineDeploymentConditionType,
) *machinev1.MachineDeploymentCondition {
	for i := range s.Conditions {
		if s.Conditions[i].Type == kind {
			return &s.Conditions[i]
		}
	}
	return nil
}

// setCondition puts c into s. One with the same status and reason stays as it
// is, whatever its message; one with the same status keeps its transition time.
// The list is copied, never changed.
func setCondition(s *machinev1.MachineDeploymentStatus, c machinev1.MachineDeploymentCondition, now time.Time) {
	former := Condition(s, c.Type)
	if former != nil && former.Status == c.Status && former.Reason == c.Reason {
		return
	}
	renewCondition(s, c, now)
}

// renewCondition puts c into s with a new update time even if there is an equal
// one: the progress deadline counts from it.
func renewCondition(s *machinev1.MachineDeploymentStatus, c machinev1.MachineDeploymentCondition, now time.Time) {
	c.LastUpdateTime = metav1.NewTime(now)
	c.LastTransitionTime = metav1.NewTime(now)
	if former := Condition(s, c.Type); former != nil && former.Status == c.Status {
		c.LastTransitionTime = former.LastTransitionTime
	}
	removeCondition(s, c.Type)
	s.Conditions = append(s.Conditions, c)
}

// removeCondition takes the condition of that type out of s.
func removeCondition(s *machinev1.MachineDeploymentStatus, kind machinev1.MachineDeploymentConditionType) {
	s.Conditions = slices.DeleteFunc(slices.Clone(s.Conditions), func(c machinev1.MachineDeploymentCondition) bool {
		return c.Type == kind
	})
}
