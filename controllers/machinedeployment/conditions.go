package machinedeployment

import (
	"fmt"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/rollout"
)

// The conditions of status.conditions are MCM's, to the reason: autoscalers and
// MCM's own tests read them.

func (p *pass) set(s *machinev1.MachineDeploymentStatus, kind machinev1.MachineDeploymentConditionType,
	status machinev1.ConditionStatus, t turn,
) {
	rollout.SetCondition(s, machinev1.MachineDeploymentCondition{
		Type: kind, Status: status, Reason: t.reason,
		Message: t.message,
	}, p.now)
}

// judgeAvailable reports whether enough machines are available. Those that are kept
// for examination are not missed.
func (p *pass) judgeAvailable(s *machinev1.MachineDeploymentStatus) {
	// #nosec G115 -- at most spec.replicas
	enough := max(p.d.Spec.Replicas-int32(p.bounds.Unavailable)-s.PreservedFailedReplicas, 0)
	if s.AvailableReplicas >= enough {
		p.set(s, machinev1.MachineDeploymentAvailable, machinev1.ConditionTrue,
			turn{machinev1.ReasonMinimumReplicasAvailable, "The minimum of machines is available"})
		return
	}
	p.set(s, machinev1.MachineDeploymentAvailable, machinev1.ConditionFalse,
		turn{machinev1.ReasonMinimumReplicasUnavailable, fmt.Sprintf("Fewer than %d machines are available", enough)})
}

// judgeFrozen mirrors the sets' freeze.
func (p *pass) judgeFrozen(s *machinev1.MachineDeploymentStatus) {
	names := p.frozenSets()
	if len(names) == 0 {
		rollout.RemoveCondition(s, machinev1.MachineDeploymentFrozen)
		return
	}
	p.set(s, machinev1.MachineDeploymentFrozen, machinev1.ConditionTrue,
		turn{machinev1.ReasonMachineDeploymentStateSync, fmt.Sprintf("Machine set %s is frozen", names[0])})
}

// judgeProgress reports whether the rollout proceeds. A paused one says so, unless
// it had run out of time before.
func (p *pass) judgeProgress(s *machinev1.MachineDeploymentStatus) {
	former := rollout.Condition(s, machinev1.MachineDeploymentProgressing)
	reason := ""
	if former != nil {
		reason = former.Reason
	}
	switch {
	case reason == machinev1.ReasonProgressDeadlineExceeded && p.d.Spec.Paused:
		return
	case p.d.Spec.Paused:
		p.set(s, machinev1.MachineDeploymentProgressing, machinev1.ConditionUnknown,
			turn{machinev1.ReasonDeploymentPaused, "Deployment is paused"})
		return
	case reason == machinev1.ReasonDeploymentPaused:
		p.set(s, machinev1.MachineDeploymentProgressing, machinev1.ConditionUnknown,
			turn{machinev1.ReasonDeploymentResumed, "Deployment is resumed"})
	}
	p.begin(s, former)
	p.advance(s)
}

// begin notes that a rollout has begun, or could not. Unlike in MCM this does
// not take a progress deadline: an autoscaler that still reads
// NewMachineSetAvailable would remove nodes.
func (p *pass) begin(s *machinev1.MachineDeploymentStatus, former *machinev1.MachineDeploymentCondition) {
	switch {
	case p.turn.reason == machinev1.ReasonMachineSetCreateError:
		p.set(s, machinev1.MachineDeploymentProgressing, machinev1.ConditionFalse, p.turn)
	case p.turn.reason != "":
		// The deadline starts anew, even if the former rollout had not got beyond this.
		rollout.RenewCondition(s, machinev1.MachineDeploymentCondition{
			Type: machinev1.MachineDeploymentProgressing, Status: machinev1.ConditionTrue,
			Reason: p.turn.reason, Message: p.turn.message,
		}, p.now)
	case former == nil && p.current != nil:
		p.set(s, machinev1.MachineDeploymentProgressing, machinev1.ConditionTrue,
			turn{machinev1.ReasonFoundNewMachineSet, fmt.Sprintf("Found new machine set %q", p.current.seen.Name)})
	}
}

// advance compares the status with the former one.
func (p *pass) advance(s *machinev1.MachineDeploymentStatus) {
	former := rollout.Condition(s, machinev1.MachineDeploymentProgressing)
	if former != nil && former.Reason == machinev1.ReasonNewMachineSetAvailable && s.Replicas == s.UpdatedReplicas {
		return // scaling a complete deployment is no rollout
	}
	subject := fmt.Sprintf("Machine deployment %q", p.d.Name)
	if p.current != nil {
		subject = fmt.Sprintf("MachineSet %q", p.current.seen.Name)
	}
	switch {
	case rollout.Complete(p.d, s):
		p.set(s, machinev1.MachineDeploymentProgressing, machinev1.ConditionTrue,
			turn{machinev1.ReasonNewMachineSetAvailable, subject + " has successfully progressed"})
	case rollout.Progressed(&p.d.Status, s):
		rollout.RenewCondition(s, machinev1.MachineDeploymentCondition{
			Type: machinev1.MachineDeploymentProgressing, Status: machinev1.ConditionTrue,
			Reason: machinev1.ReasonMachineSetUpdated, Message: subject + " is progressing",
		}, p.now)
	case rollout.TimedOut(p.d, s, p.now):
		p.set(s, machinev1.MachineDeploymentProgressing, machinev1.ConditionFalse,
			turn{machinev1.ReasonProgressDeadlineExceeded, subject + " has timed out progressing"})
	}
}

// judgeFailure copies a ReplicaFailure of a set, of the current one first.
func (p *pass) judgeFailure(s *machinev1.MachineDeploymentStatus) {
	pools := p.old()
	if p.current != nil {
		pools = append([]*pool{p.current}, pools...)
	}
	for _, o := range pools {
		for _, c := range o.seen.Status.Conditions {
			if c.Type == machinev1.MachineSetReplicaFailure {
				p.set(s, machinev1.MachineDeploymentReplicaFailure, c.Status, turn{c.Reason, c.Message})
				return
			}
		}
	}
	rollout.RemoveCondition(s, machinev1.MachineDeploymentReplicaFailure)
}
