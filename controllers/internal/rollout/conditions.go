package rollout

import (
	"fmt"
	"time"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// An Explanation is reason and message of a condition. The zero Explanation has none.
type Explanation struct{ Reason, Message string }

// Observation is what the conditions of a MachineDeployment follow from, besides
// its spec and the counts of its new status.
type Observation struct {
	Now    time.Time
	Bounds Bounds
	// NewSet is the name of the set with the template; "" if there is none.
	NewSet string
	// Frozen is the condition Frozen of a set; nil if none is frozen.
	Frozen *machinev1.MachineSetCondition
	// Started is how a rollout has begun in this reconcile, or why it could not;
	// zero if nothing of that happened.
	Started Explanation
	// Failure is the ReplicaFailure of a set; nil if none has one.
	Failure *machinev1.MachineSetCondition
}

// SetConditions sets status.conditions, which are MCM's to the reason and message:
// autoscalers and MCM's own tests read them. While d is being deleted it sets only
// Available and Frozen.
func (o Observation) SetConditions(d *machinev1.MachineDeployment, status *machinev1.MachineDeploymentStatus) {
	o.setAvailable(d, status)
	o.setFrozen(status)
	if d.DeletionTimestamp.IsZero() {
		o.setProgressing(d, status)
		o.setReplicaFailure(status)
	}
}

func (o Observation) set(status *machinev1.MachineDeploymentStatus, kind machinev1.MachineDeploymentConditionType,
	value machinev1.ConditionStatus, e Explanation,
) {
	setCondition(status, machinev1.MachineDeploymentCondition{
		Type: kind, Status: value, Reason: e.Reason, Message: e.Message,
	}, o.Now)
}

// setAvailable sets whether enough machines are available. Preserved failed
// machines reduce the number that is needed.
func (o Observation) setAvailable(d *machinev1.MachineDeployment, status *machinev1.MachineDeploymentStatus) {
	// #nosec G115 -- at most spec.replicas
	needed := max(d.Spec.Replicas-int32(o.Bounds.Unavailable)-status.PreservedFailedReplicas, 0)
	if status.AvailableReplicas >= needed {
		o.set(status, machinev1.MachineDeploymentAvailable, machinev1.ConditionTrue,
			Explanation{machinev1.ReasonMinimumReplicasAvailable, "The minimum of machines is available"})
		return
	}
	o.set(status, machinev1.MachineDeploymentAvailable, machinev1.ConditionFalse,
		Explanation{machinev1.ReasonMinimumReplicasUnavailable, fmt.Sprintf("Fewer than %d machines are available", needed)})
}

// setFrozen copies the Frozen of a set, as MCM writes both alike.
func (o Observation) setFrozen(status *machinev1.MachineDeploymentStatus) {
	if o.Frozen == nil {
		removeCondition(status, machinev1.MachineDeploymentFrozen)
		return
	}
	o.set(status, machinev1.MachineDeploymentFrozen, machinev1.ConditionTrue,
		Explanation{o.Frozen.Reason, o.Frozen.Message})
}

// setProgressing sets whether the rollout proceeds. A paused one is reported as
// paused, unless its deadline had been exceeded before.
func (o Observation) setProgressing(d *machinev1.MachineDeployment, status *machinev1.MachineDeploymentStatus) {
	former := Condition(status, machinev1.MachineDeploymentProgressing)
	reason := ""
	if former != nil {
		reason = former.Reason
	}
	switch {
	case reason == machinev1.ReasonProgressDeadlineExceeded && d.Spec.Paused:
		return
	case d.Spec.Paused:
		o.set(status, machinev1.MachineDeploymentProgressing, machinev1.ConditionUnknown,
			Explanation{machinev1.ReasonDeploymentPaused, "Deployment is paused"})
		return
	case reason == machinev1.ReasonDeploymentPaused:
		o.set(status, machinev1.MachineDeploymentProgressing, machinev1.ConditionUnknown,
			Explanation{machinev1.ReasonDeploymentResumed, "Deployment is resumed"})
	}
	o.setStarted(status, former)
	o.setProgressed(d, status)
}

// setStarted records that a rollout has begun, or could not. Unlike MCM it does so
// without a progress deadline too: an autoscaler that still reads
// NewMachineSetAvailable would remove nodes.
func (o Observation) setStarted(status *machinev1.MachineDeploymentStatus,
	former *machinev1.MachineDeploymentCondition,
) {
	switch {
	case o.Started.Reason == machinev1.ReasonMachineSetCreateError:
		o.set(status, machinev1.MachineDeploymentProgressing, machinev1.ConditionFalse, o.Started)
	case o.Started.Reason != "":
		// The deadline restarts, even if the former rollout had not got beyond this.
		renewCondition(status, machinev1.MachineDeploymentCondition{
			Type: machinev1.MachineDeploymentProgressing, Status: machinev1.ConditionTrue,
			Reason: o.Started.Reason, Message: o.Started.Message,
		}, o.Now)
	case former == nil && o.NewSet != "":
		o.set(status, machinev1.MachineDeploymentProgressing, machinev1.ConditionTrue,
			Explanation{machinev1.ReasonFoundNewMachineSet, fmt.Sprintf("Found new machine set %q", o.NewSet)})
	}
}

// setProgressed compares the new status with that of d.
func (o Observation) setProgressed(d *machinev1.MachineDeployment, status *machinev1.MachineDeploymentStatus) {
	former := Condition(status, machinev1.MachineDeploymentProgressing)
	if former != nil && former.Reason == machinev1.ReasonNewMachineSetAvailable &&
		status.Replicas == status.UpdatedReplicas {
		return // scaling a complete deployment is no rollout
	}
	subject := fmt.Sprintf("Machine deployment %q", d.Name)
	if o.NewSet != "" {
		subject = fmt.Sprintf("MachineSet %q", o.NewSet)
	}
	switch {
	case Complete(d, status):
		o.set(status, machinev1.MachineDeploymentProgressing, machinev1.ConditionTrue,
			Explanation{machinev1.ReasonNewMachineSetAvailable, subject + " has successfully progressed"})
	case Progressed(&d.Status, status):
		renewCondition(status, machinev1.MachineDeploymentCondition{
			Type: machinev1.MachineDeploymentProgressing, Status: machinev1.ConditionTrue,
			Reason: machinev1.ReasonMachineSetUpdated, Message: subject + " is progressing",
		}, o.Now)
	case TimedOut(d, status, o.Now):
		o.set(status, machinev1.MachineDeploymentProgressing, machinev1.ConditionFalse,
			Explanation{machinev1.ReasonProgressDeadlineExceeded, subject + " has timed out progressing"})
	}
}

// setReplicaFailure copies the ReplicaFailure of a set.
func (o Observation) setReplicaFailure(status *machinev1.MachineDeploymentStatus) {
	if o.Failure == nil {
		removeCondition(status, machinev1.MachineDeploymentReplicaFailure)
		return
	}
	o.set(status, machinev1.MachineDeploymentReplicaFailure, o.Failure.Status,
		Explanation{o.Failure.Reason, o.Failure.Message})
}
