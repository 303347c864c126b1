package machine

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// updateInPlace plays the machine's part of an update in place. The labels on
// the node are set by the MachineDeployment (candidate, selected) and by the
// agent on the node (result); the condition InPlaceUpdate answers them:
//
//	candidate ─▶ selected ─▶ DrainSuccessful ─▶ ReadyForUpdate ─▶ agent updates ─▶ result
func (c *Controller) updateInPlace(ctx context.Context, p *pass) error {
	if p.node == nil || p.otherClaimant != "" {
		return nil
	}
	want, ok := inPlaceCondition(p.node)
	if ok {
		if err := c.setNodeCondition(ctx, p, want); err != nil {
			return err
		}
	}
	shown := nodeConditionOf(p.node, machinev1.NodeInPlaceUpdate)
	if shown == nil || p.did.transition != nil {
		return nil // what becomes of the machine is written first, that wakes it again
	}
	switch shown.Reason {
	case machinev1.ReasonSelectedForUpdate:
		return c.drainInPlace(ctx, p, shown.LastTransitionTime.Time)
	case machinev1.ReasonDrainSuccessful:
		if p.machine.Status.CurrentStatus.Phase != machinev1.MachineInPlaceUpdating {
			p.did.transition = inPlaceStarted()
			return nil
		}
		return c.setNodeCondition(ctx, p, inPlace(machinev1.ReasonReadyForUpdate,
			"The node has been drained and can be updated"))
	}
	return nil
}

// inPlaceStarted is the transition of a machine whose node is handed to the
// agent. It is persisted before the agent may begin.
func inPlaceStarted() *transition {
	return &transition{
		phase: machinev1.MachineInPlaceUpdating, operation: machinev1.MachineOperationInPlaceUpdate,
		state:       machinev1.MachineStateProcessing,
		description: "The node has been drained and can be updated in place",
	}
}

// inPlaceCondition is what the condition becomes because of the node's labels;
// ok is false if it stays.
func inPlaceCondition(node *corev1.Node) (want corev1.NodeCondition, ok bool) {
	reason := ""
	if shown := nodeConditionOf(node, machinev1.NodeInPlaceUpdate); shown != nil {
		reason = shown.Reason
	}
	_, candidate := node.Labels[machinev1.CandidateForUpdateLabel]
	_, selected := node.Labels[machinev1.SelectedForUpdateLabel]
	again := reason == machinev1.ReasonUpdateSuccessful && node.Labels[machinev1.UpdateResultLabel] == ""
	switch {
	case candidate && (reason == "" || again):
		return inPlace(machinev1.ReasonCandidateForUpdate, "The node is a candidate for an update in place"), true
	case selected && reason == machinev1.ReasonCandidateForUpdate:
		return inPlace(machinev1.ReasonSelectedForUpdate, "The node was selected for an update in place"), true
	}
	return inPlaceResult(node, reason)
}

// inPlaceResult is what the condition becomes because of the agent's result;
// ok is false if it shows that already.
func inPlaceResult(node *corev1.Node, shown string) (want corev1.NodeCondition, ok bool) {
	switch result := node.Labels[machinev1.UpdateResultLabel]; {
	case result == machinev1.UpdateSuccessful && shown != machinev1.ReasonUpdateSuccessful:
		return inPlace(machinev1.ReasonUpdateSuccessful, "The node was updated in place"), true
	case result == machinev1.UpdateFailed && shown != machinev1.ReasonUpdateFailed:
		return inPlace(machinev1.ReasonUpdateFailed, node.Annotations[machinev1.UpdateFailedReasonAnnotation]), true
	}
	return corev1.NodeCondition{}, false
}

func inPlace(reason, message string) corev1.NodeCondition {
	return corev1.NodeCondition{
		Type: machinev1.NodeInPlaceUpdate, Status: corev1.ConditionTrue, Reason: reason,
		Message: message,
	}
}

// drainInPlace moves the pods off a node that was selected, and then hands it to
// the agent.
func (c *Controller) drainInPlace(ctx context.Context, p *pass, selected time.Time) error {
	if err := c.drainer.Cordon(ctx, p.node); err != nil {
		return err
	}
	late := drainOverdue(p, selected)
	force := late || forceDrain(p.machine) || longUnhealthy(p.node, p.seen.now)
	result, err := c.drainer.Drain(ctx, c.drainRequest(p, selected, force))
	if err != nil {
		return err
	}
	p.did.drained = drainStateOf(result)
	if !result.Done {
		requeueAfter(p, result.Wait)
		if !late {
			requeueAfter(p, selected.Add(p.seen.settings.drain).Sub(p.seen.now)+time.Second)
		}
		p.did.transition = &transition{
			phase: p.machine.Status.CurrentStatus.Phase, operation: machinev1.MachineOperationDrainNode,
			state:       machinev1.MachineStateProcessing,
			description: result.Message + ". " + machinev1.StepDrain,
		}
		return nil
	}
	if err := c.setNodeCondition(ctx, p, inPlace(machinev1.ReasonDrainSuccessful,
		"The node has been drained")); err != nil {
		return err
	}
	p.did.transition = inPlaceStarted()
	return nil
}
