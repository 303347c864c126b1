package machinedeployment

import (
	"fmt"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/rollout"
)

// The conditions of status.conditions are MCM's, to the reason: autoscalers and
// MCM's own tests read them.

func (s *scope) setCondition(status *machinev1.MachineDeploymentStatus, kind machinev1.MachineDeploymentConditionType,
	value machinev1.ConditionStatus, t explanation,
) {
	rollout.SetCondition(status, machinev1.MachineDeploymentCondition{
		Type: kind, Status: value, Reason: t.reason,
		Message: t.message,
	}, s.now)
}

// setAvailable reports whether enough machines are available. Those that are kept
// for examination are not missed.
func (s *scope) setAvailable(status *machinev1.MachineDeploymentStatus) {
	// #nosec G115 -- at most spec.replicas
	enough := max(s.d.Spec.Replicas-int32(s.bounds.Unavailable)-status.PreservedFailedReplicas, 0)
	if status.AvailableReplicas >= enough {
		s.setCondition(status, machinev1.MachineDeploymentAvailable, machinev1.ConditionTrue,
			explanation{machinev1.ReasonMinimumReplicasAvailable, "The minimum of machines is available"})
		return
	}
	s.setCondition(status, machinev1.MachineDeploymentAvailable, machinev1.ConditionFalse,
		explanation{machinev1.ReasonMinimumReplicasUnavailable, fmt.Sprintf("Fewer than %d machines are available", enough)})
}

// setFrozen mirrors the sets' freeze.
func (s *scope) setFrozen(status *machinev1.MachineDeploymentStatus) {
	names := s.frozenSets()
	if len(names) == 0 {
		rollout.RemoveCondition(status, machinev1.MachineDeploymentFrozen)
		return
	}
	s.setCondition(status, machinev1.MachineDeploymentFrozen, machinev1.ConditionTrue,
		explanation{machinev1.ReasonMachineDeploymentStateSync, fmt.Sprintf("Machine set %s is frozen", names[0])})
}

// setProgressing reports whether the rollout proceeds. A paused one says so, unless
// it had run out of time before.
func (s *scope) setProgressing(status *machinev1.MachineDeploymentStatus) {
	former := rollout.Condition(status, machinev1.MachineDeploymentProgressing)
	reason := ""
	if former != nil {
		reason = former.Reason
	}
	switch {
	case reason == machinev1.ReasonProgressDeadlineExceeded && s.d.Spec.Paused:
		return
	case s.d.Spec.Paused:
		s.setCondition(status, machinev1.MachineDeploymentProgressing, machinev1.ConditionUnknown,
			explanation{machinev1.ReasonDeploymentPaused, "Deployment is paused"})
		return
	case reason == machinev1.ReasonDeploymentPaused:
		s.setCondition(status, machinev1.MachineDeploymentProgressing, machinev1.ConditionUnknown,
			explanation{machinev1.ReasonDeploymentResumed, "Deployment is resumed"})
	}
	s.rolloutStarted(status, former)
	s.rolloutProgressed(status)
}

// rolloutStarted notes that a rollout has begun, or could not. Unlike in MCM this does
// not take a progress deadline: an autoscaler that still reads
// NewMachineSetAvailable would remove nodes.
func (s *scope) rolloutStarted(status *machinev1.MachineDeploymentStatus, former *machinev1.MachineDeploymentCondition) {
	switch {
	case s.rolloutEvent.reason == machinev1.ReasonMachineSetCreateError:
		s.setCondition(status, machinev1.MachineDeploymentProgressing, machinev1.ConditionFalse, s.rolloutEvent)
	case s.rolloutEvent.reason != "":
		// The deadline starts anew, even if the former rollout had not got beyond this.
		rollout.RenewCondition(status, machinev1.MachineDeploymentCondition{
			Type: machinev1.MachineDeploymentProgressing, Status: machinev1.ConditionTrue,
			Reason: s.rolloutEvent.reason, Message: s.rolloutEvent.message,
		}, s.now)
	case former == nil && s.newSet != nil:
		s.setCondition(status, machinev1.MachineDeploymentProgressing, machinev1.ConditionTrue,
			explanation{machinev1.ReasonFoundNewMachineSet, fmt.Sprintf("Found new machine set %q", s.newSet.observed.Name)})
	}
}

// rolloutProgressed compares the status with the former one.
func (s *scope) rolloutProgressed(status *machinev1.MachineDeploymentStatus) {
	former := rollout.Condition(status, machinev1.MachineDeploymentProgressing)
	if former != nil && former.Reason == machinev1.ReasonNewMachineSetAvailable && status.Replicas == status.UpdatedReplicas {
		return // scaling a complete deployment is no rollout
	}
	subject := fmt.Sprintf("Machine deployment %q", s.d.Name)
	if s.newSet != nil {
		subject = fmt.Sprintf("MachineSet %q", s.newSet.observed.Name)
	}
	switch {
	case rollout.Complete(s.d, status):
		s.setCondition(status, machinev1.MachineDeploymentProgressing, machinev1.ConditionTrue,
			explanation{machinev1.ReasonNewMachineSetAvailable, subject + " has successfully progressed"})
	case rollout.Progressed(&s.d.Status, status):
		rollout.RenewCondition(status, machinev1.MachineDeploymentCondition{
			Type: machinev1.MachineDeploymentProgressing, Status: machinev1.ConditionTrue,
			Reason: machinev1.ReasonMachineSetUpdated, Message: subject + " is progressing",
		}, s.now)
	case rollout.TimedOut(s.d, status, s.now):
		s.setCondition(status, machinev1.MachineDeploymentProgressing, machinev1.ConditionFalse,
			explanation{machinev1.ReasonProgressDeadlineExceeded, subject + " has timed out progressing"})
	}
}

// setReplicaFailure copies a ReplicaFailure of a set, of the current one first.
func (s *scope) setReplicaFailure(status *machinev1.MachineDeploymentStatus) {
	pools := s.oldSets()
	if s.newSet != nil {
		pools = append([]*ownedSet{s.newSet}, pools...)
	}
	for _, o := range pools {
		for _, c := range o.observed.Status.Conditions {
			if c.Type == machinev1.MachineSetReplicaFailure {
				s.setCondition(status, machinev1.MachineDeploymentReplicaFailure, c.Status, explanation{c.Reason, c.Message})
				return
			}
		}
	}
	rollout.RemoveCondition(status, machinev1.MachineDeploymentReplicaFailure)
}
