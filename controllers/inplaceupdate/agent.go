package inplaceupdate

import (
	"context"
	"time"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// agent has the agent on the node update it, in the way of the native API:
//
//	selected ─▶ drained ─▶ ReadyForUpdate ─▶ the agent updates ─▶ result ─▶ back in service
//
// The answer is zero once the node is back in service.
func (e *Extension) agent(ctx context.Context, u *update) (answer, error) {
	for _, step := range []func(context.Context, *update) (answer, error){
		e.begin, e.drainNode, e.handOver, e.awaitResult, e.finish,
	} {
		if a, err := step(ctx, u); err != nil || a != (answer{}) {
			return a, err
		}
	}
	return answer{}, nil
}

// begin selects the node for this update. The condition comes first: should the
// call end between the two writes, it is the update before that looks unfinished,
// and no agent takes a node for ready before it is drained.
func (e *Extension) begin(ctx context.Context, u *update) (answer, error) {
	ours := u.node.Annotations[infrav1.UpdateTargetAnnotation] == u.target
	if ours && (u.result() != "" || running(u)) {
		return answer{}, nil
	}
	if err := e.show(ctx, u, machinev1.ReasonSelectedForUpdate,
		"The node was selected for an update in place"); err != nil || ours {
		return answer{}, err
	}
	return answer{}, e.selectNode(ctx, u)
}

// running reports whether the condition is one of an update between its selection
// and its result.
func running(u *update) bool {
	c := shown(u.node)
	if c == nil {
		return false
	}
	switch c.Reason {
	case machinev1.ReasonSelectedForUpdate, machinev1.ReasonDrainSuccessful, machinev1.ReasonReadyForUpdate:
		return true
	}
	return false
}

// drainNode moves the pods off the node, before the agent may touch it. Core leaves
// that to the extension.
func (e *Extension) drainNode(ctx context.Context, u *update) (answer, error) {
	c := shown(u.node)
	if u.result() != "" || c.Reason != machinev1.ReasonSelectedForUpdate {
		return answer{}, nil
	}
	if err := e.cordon(ctx, u); err != nil {
		return answer{}, err
	}
	if a, err := e.drain(ctx, u, c.LastTransitionTime.Time); err != nil || a != (answer{}) {
		return a, err
	}
	return answer{}, e.show(ctx, u, machinev1.ReasonDrainSuccessful, "The node has been drained")
}

// handOver gives the node to the agent.
func (e *Extension) handOver(ctx context.Context, u *update) (answer, error) {
	if u.result() != "" || shown(u.node).Reason != machinev1.ReasonDrainSuccessful {
		return answer{}, nil
	}
	return answer{}, e.show(ctx, u, machinev1.ReasonReadyForUpdate, "The node has been drained and can be updated")
}

// awaitResult looks for what the agent says. An agent that has failed may still succeed.
func (e *Extension) awaitResult(ctx context.Context, u *update) (answer, error) {
	wants := u.machine.Spec.Version
	has := u.node.Status.NodeInfo.KubeletVersion
	switch result := u.result(); {
	case result == machinev1.UpdateFailed:
		return e.agentFailed(ctx, u)
	case result == machinev1.UpdateSuccessful && (wants == "" || wants == has):
		return answer{}, nil
	case e.overdue(u):
		return failed(infrav1.ReasonNodeAgentTimedOut,
			"%s within %s of %s; look at the agent on Node %s, whose label %s=%s ends the update, or delete the Machine, so "+
				"that a new one replaces it",
			u.missing(), e.NodeAgentTimeout, u.handedOver().UTC().Format(
				time.RFC3339), u.node.Name, machinev1.UpdateResultLabel, machinev1.UpdateSuccessful), nil
	case result == machinev1.UpdateSuccessful:
		return waiting(later, "Waiting for the kubelet of Node %s, which was updated, to report version %s instead of %s",
			u.node.Name, wants, has), nil
	}
	return waiting(later, "Waiting for the agent on Node %s, which was drained for it, to label it with %s", u.node.Name,
		machinev1.UpdateResultLabel), nil
}

// missing says what has not come in time.
func (u *update) missing() string {
	if u.result() == machinev1.UpdateSuccessful {
		return "The kubelet has not reported version " + u.machine.Spec.Version
	}
	return "The agent on the node has given no result"
}

// agentFailed shows a failure on the Node, as the native API does.
func (e *Extension) agentFailed(ctx context.Context, u *update) (answer, error) {
	why := u.node.Annotations[machinev1.UpdateFailedReasonAnnotation]
	if err := e.show(ctx, u, machinev1.ReasonUpdateFailed, why); err != nil {
		return answer{}, err
	}
	if why == "" {
		why = "there is no reason in the annotation " + machinev1.UpdateFailedReasonAnnotation
	}
	return failed(infrav1.ReasonNodeAgentFailed,
		"The agent on Node %s has failed: %s; remove its label %s to retry, or delete the Machine, so that a "+
			"new one replaces it",
		u.node.Name, why, machinev1.UpdateResultLabel), nil
}

// handedOver is since when the condition says what it says; now, if it is lost.
func (u *update) handedOver() time.Time {
	if c := shown(u.node); c != nil {
		return c.LastTransitionTime.Time
	}
	return u.now
}

func (e *Extension) overdue(u *update) bool { return u.now.Sub(u.handedOver()) > e.NodeAgentTimeout }

// finish takes the node back into service. What was done is written down first,
// and the mark of the update goes last.
func (e *Extension) finish(ctx context.Context, u *update) (answer, error) {
	if err := e.record(ctx, u); err != nil {
		return answer{}, err
	}
	if err := e.show(ctx, u, machinev1.ReasonUpdateSuccessful, "The node was updated in place"); err != nil {
		return answer{}, err
	}
	return answer{}, e.release(ctx, u)
}
