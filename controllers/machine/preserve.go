package machine

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// expiryChange is a change of until when a machine is kept; a nil until ends it.
type expiryChange struct{ until *metav1.Time }

// preserveRequest is what the user asks for: a value of the preserve annotation, and
// whether the node's is the one that counts.
type preserveRequest struct {
	value    string
	fromNode bool
}

// preserveRequestOf returns what applies of the annotations on Machine and node: the
// node's once it had one. warning is set when a value cannot be read; a bad
// value on the Machine counts as none, a bad one on the node stops everything.
func preserveRequestOf(m *machinev1.Machine, node *corev1.Node) (w preserveRequest, warning string, ok bool) {
	const key = machinev1.PreserveAnnotation
	if node != nil {
		value := node.Annotations[key]
		if value != "" || m.Annotations[machinev1.LastAppliedNodePreserveAnnotation] != "" {
			if !slices.Contains(preserveValues, value) {
				warning := annotationWarning(key, value, "now, when-failed or false")
				return preserveRequest{}, "Node " + node.Name + ": " + warning, false
			}
			return preserveRequest{value, true}, "", true
		}
	}
	value := m.Annotations[key]
	if !slices.Contains(preserveValues, value) {
		return preserveRequest{}, annotationWarning(key, value, "now, when-failed or false"), true
	}
	return preserveRequest{value, false}, "", true
}

var preserveValues = []string{
	"", machinev1.PreserveFalse, machinev1.PreserveNow, machinev1.PreserveWhenFailed,
	machinev1.PreserveAuto,
}

// preserveAction is what a request asks for.
type preserveAction uint8

const (
	actionStop         preserveAction = iota // end preservation, keep the annotations
	actionStopAndClear                       // end preservation, remove the annotations
	actionPreserve                           // preserve
)

// preserveActionOf is MCM's table of what each request means.
func preserveActionOf(value string, failed, expired bool) preserveAction {
	switch value {
	case machinev1.PreserveWhenFailed:
		switch {
		case expired:
			return actionStopAndClear
		case failed:
			return actionPreserve
		}
	case machinev1.PreserveNow:
		if expired {
			return actionStopAndClear
		}
		return actionPreserve
	case machinev1.PreserveAuto:
		if !failed || expired {
			return actionStopAndClear
		}
		return actionPreserve
	}
	return actionStop
}

// preserve preserves a machine for examination, as its annotations ask, or ends that.
func (c *Controller) preserve(ctx context.Context, p *pass) error {
	if node := p.node; node != nil && !ownsNode(p) {
		p.node = nil // only the Machine itself is kept: the pods there may be another's
		defer func() { p.node = node }()
	}
	expiry := p.machine.Status.CurrentStatus.PreserveExpiryTime
	w, warning, ok := preserveRequestOf(p.machine, p.node)
	if warning != "" {
		p.did.warnings = append(p.did.warnings, warning)
	}
	if !ok || (expiry == nil && w.value == "" &&
		p.machine.Annotations[machinev1.LastAppliedNodePreserveAnnotation] == "") {
		return nil
	}
	return c.applyPreserveRequest(ctx, p, w)
}

// applyPreserveRequest does what the request means for a machine in this phase, at this time.
func (c *Controller) applyPreserveRequest(ctx context.Context, p *pass, w preserveRequest) error {
	expiry := p.machine.Status.CurrentStatus.PreserveExpiryTime
	failed := phaseOf(p) == machinev1.MachineFailed
	expired := expiry != nil && !p.seen.now.Before(expiry.Time)
	if expired && keepsExpiry(p.machine, w, failed) {
		return nil
	}
	var err error
	switch preserveActionOf(w.value, failed, expired) {
	case actionPreserve:
		err = c.startPreserving(ctx, p, w, failed)
	case actionStop:
		err = c.stopPreserving(ctx, p, false)
	case actionStopAndClear:
		return c.stopPreserving(ctx, p, true)
	}
	if err != nil {
		return err
	}
	return c.recordNodeRequest(ctx, p, w)
}

// keepsExpiry reports whether a machine stays as it is when its time is over: a failed
// one that its MachineSet preserved, and now replaces because of that time. Without it
// the set would preserve the machine again.
func keepsExpiry(m *machinev1.Machine, w preserveRequest, failed bool) bool {
	return w.value == machinev1.PreserveAuto && failed && metav1.GetControllerOf(m) != nil
}

// phaseOf is the phase that the Machine will have after this pass.
func phaseOf(p *pass) machinev1.MachinePhase {
	if p.did.transition != nil {
		return p.did.transition.phase
	}
	return p.machine.Status.CurrentStatus.Phase
}

// startPreserving keeps the machine until its time is over: the autoscaler leaves its
// node alone, and a failed one takes no pods and loses those that it has.
func (c *Controller) startPreserving(ctx context.Context, p *pass, w preserveRequest, failed bool) error {
	until := p.machine.Status.CurrentStatus.PreserveExpiryTime
	if until == nil {
		// It is written before the node is touched, so that whatever happens then
		// somebody gives the node back. The write wakes the machine again.
		t := metav1.NewTime(p.seen.now.Add(p.seen.settings.preserve).Truncate(time.Second))
		p.did.expiry = &expiryChange{&t}
		return nil
	}
	requeueAfter(p, until.Sub(p.seen.now))
	if p.node == nil {
		return nil
	}
	if nodePreserved(p.node, failed) {
		return nil
	}
	if err := c.patchNode(ctx, p, func(n *corev1.Node) { markNodePreserved(n, failed) }); err != nil {
		return err
	}
	want, ok := c.preservedCondition(ctx, p, w, failed)
	if !ok {
		return nil
	}
	if err := c.setNodeCondition(ctx, p, want); err != nil || !failed || want.Status != corev1.ConditionTrue {
		return err
	}
	return c.patchNode(ctx, p, func(n *corev1.Node) {
		machinev1.SetAnnotation(n, machinev1.PreservedDrainedAnnotation, "true")
	})
}

// nodePreserved reports whether node shows all that preservation does to it. The node of a
// failed machine has been drained; that of one that recovered takes pods again, and is not
// marked as drained, so that it is drained again at the next failure.
func nodePreserved(node *corev1.Node, failed bool) bool {
	shown := nodeConditionOf(node, machinev1.NodePreserved)
	if shown == nil || shown.Status != corev1.ConditionTrue {
		return false
	}
	drained := node.Annotations[machinev1.PreservedDrainedAnnotation] == "true"
	if failed {
		return drained
	}
	return !drained && len(withoutPreservedTaint(node.Spec.Taints)) == len(node.Spec.Taints)
}

// markNodePreserved keeps the autoscaler off the node, and new pods off one whose machine
// failed. A taint does that, so that a user's cordon stays.
func markNodePreserved(n *corev1.Node, failed bool) {
	if n.Annotations[machinev1.ScaleDownDisabledAnnotation] != "true" {
		machinev1.SetAnnotation(n, machinev1.ScaleDownDisabledAnnotation, "true")
		machinev1.SetAnnotation(n, machinev1.ScaleDownDisabledByMCMAnnotation, "true")
	}
	if !failed {
		n.Spec.Taints = withoutPreservedTaint(n.Spec.Taints)
		delete(n.Annotations, machinev1.PreservedDrainedAnnotation)
		return
	}
	n.Spec.Taints = withTaint(withoutPreservedTaint(n.Spec.Taints), corev1.Taint{
		Key:    machinev1.PreservedTaint,
		Effect: corev1.TaintEffectNoSchedule,
	})
}

func withoutPreservedTaint(taints []corev1.Taint) []corev1.Taint {
	return slices.DeleteFunc(slices.Clone(taints), func(t corev1.Taint) bool { return t.Key == machinev1.PreservedTaint })
}

// preservedCondition is the node's condition about its preservation, after one
// more step of the drain of a failed machine; ok is false while that goes on.
func (c *Controller) preservedCondition(
	ctx context.Context, p *pass, w preserveRequest, failed bool,
) (want corev1.NodeCondition, ok bool) {
	want = corev1.NodeCondition{
		Type: machinev1.NodePreserved, Status: corev1.ConditionTrue,
		Reason: machinev1.ReasonPreservedByUser,
	}
	if w.value == machinev1.PreserveAuto {
		want.Reason = machinev1.ReasonPreservedByMCM
	}
	text := "Machine preserved until " + p.machine.Status.CurrentStatus.PreserveExpiryTime.UTC().Format(time.RFC3339) + "."
	want.Message = text
	if !failed {
		return want, true
	}
	done, err := c.drainPreserved(ctx, p)
	if err != nil {
		p.did.drained = &drainState{reason: machinev1.ReasonDraining, message: err.Error()}
		requeueAfter(p, slowJoinCheck)
		want.Status, want.Message = corev1.ConditionFalse, machinev1.MessagePreservedNotDrained+" "+text
		return want, true
	}
	want.Message = machinev1.MessagePreservedDrained + " " + text
	return want, done
}

// drainPreserved moves the pods off a failed machine that is kept.
func (c *Controller) drainPreserved(ctx context.Context, p *pass) (bool, error) {
	started := p.machine.Status.CurrentStatus.LastUpdateTime.Time
	force := forceDrain(p.machine) || drainOverdue(p, started)
	if waits, err := c.drainPausedByOutage(ctx, p, force); err != nil || waits {
		return false, err
	}
	result, err := c.drainer.Drain(ctx, c.drainRequest(p, started, force || longUnhealthy(p.node, p.seen.now)))
	if err != nil {
		return false, err
	}
	p.did.drained = drainStateOf(result)
	requeueAfter(p, result.Wait)
	if !result.Done {
		requeueAfter(p, started.Add(p.seen.settings.drain).Sub(p.seen.now)+time.Second)
	}
	return result.Done, nil
}

// stopPreserving ends the preservation of machine and node. Once the request is fulfilled
// its annotations go too: an automatic one of a machine that recovered before it was
// preserved would preserve it at its next failure, and count until then.
func (c *Controller) stopPreserving(ctx context.Context, p *pass, fulfilled bool) error {
	preserved := p.machine.Status.CurrentStatus.PreserveExpiryTime != nil
	if preserved && p.node != nil {
		if err := c.releasePreservedNode(ctx, p, fulfilled); err != nil {
			return err
		}
	}
	if fulfilled {
		err := c.patchMachine(ctx, p, func(m *machinev1.Machine) {
			delete(m.Annotations, machinev1.PreserveAnnotation)
			delete(m.Annotations, machinev1.LastAppliedNodePreserveAnnotation)
		})
		if err != nil {
			return err
		}
	}
	if preserved {
		p.did.expiry = &expiryChange{}
	}
	return nil
}

// releasePreservedNode takes back what preservation did to the node. Whether a user
// cordoned it is not touched.
func (c *Controller) releasePreservedNode(ctx context.Context, p *pass, fulfilled bool) error {
	stopped := corev1.NodeCondition{
		Type: machinev1.NodePreserved, Status: corev1.ConditionFalse,
		Reason: machinev1.ReasonPreservationStopped,
	}
	if err := c.setNodeCondition(ctx, p, stopped); err != nil {
		return err
	}
	return c.patchNode(ctx, p, func(n *corev1.Node) {
		if n.Annotations[machinev1.ScaleDownDisabledByMCMAnnotation] == "true" {
			delete(n.Annotations, machinev1.ScaleDownDisabledAnnotation)
			delete(n.Annotations, machinev1.ScaleDownDisabledByMCMAnnotation)
		}
		delete(n.Annotations, machinev1.PreservedDrainedAnnotation)
		if fulfilled {
			delete(n.Annotations, machinev1.PreserveAnnotation)
		}
		n.Spec.Taints = withoutPreservedTaint(n.Spec.Taints)
	})
}

// recordNodeRequest notes that the node's annotation has taken over from the Machine's, and
// removes the Machine's.
func (c *Controller) recordNodeRequest(ctx context.Context, p *pass, w preserveRequest) error {
	if !w.fromNode {
		return nil
	}
	return c.patchMachine(ctx, p, func(m *machinev1.Machine) {
		delete(m.Annotations, machinev1.PreserveAnnotation)
		machinev1.SetOrRemoveAnnotation(m, machinev1.LastAppliedNodePreserveAnnotation, w.value)
	})
}

// reportPreservation carries the change of this pass into the status.
func reportPreservation(p *pass, status *machinev1.MachineStatus) {
	if p.did.expiry != nil && p.machine.DeletionTimestamp.IsZero() {
		status.CurrentStatus.PreserveExpiryTime = p.did.expiry.until
	}
}
