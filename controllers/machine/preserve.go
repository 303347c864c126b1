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
				return preserveRequest{}, "Node " + node.Name + ": " + annotationWarning(key, value, "now, when-failed or false"), false
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

// preserveAction is what a wish asks for.
type preserveAction uint8

const (
	actionStop         preserveAction = iota // end preservation, keep the annotations
	actionStopAndClear                       // end preservation, remove the annotations
	actionPreserve                           // preserve
)

// preserveActionOf is MCM's table of what each wish means.
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
func (c *Controller) preserve(ctx context.Context, f *facts) error {
	if node := f.node; node != nil && !ownsNode(f) {
		f.node = nil // only the Machine itself is kept: the pods there may be another's
		defer func() { f.node = node }()
	}
	expiry := f.machine.Status.CurrentStatus.PreserveExpiryTime
	w, warning, ok := preserveRequestOf(f.machine, f.node)
	if warning != "" {
		f.warnings = append(f.warnings, warning)
	}
	if !ok || (expiry == nil && w.value == "" &&
		f.machine.Annotations[machinev1.LastAppliedNodePreserveAnnotation] == "") {
		return nil
	}
	return c.applyPreserveRequest(ctx, f, w)
}

// applyPreserveRequest does what the wish means for a machine in this phase, at this time.
func (c *Controller) applyPreserveRequest(ctx context.Context, f *facts, w preserveRequest) error {
	expiry := f.machine.Status.CurrentStatus.PreserveExpiryTime
	failed := phaseOf(f) == machinev1.MachineFailed
	expired := expiry != nil && !f.now.Before(expiry.Time)
	var err error
	switch preserveActionOf(w.value, failed, expired) {
	case actionPreserve:
		err = c.startPreserving(ctx, f, w, failed)
	case actionStop:
		err = c.stopPreserving(ctx, f, false)
	case actionStopAndClear:
		return c.stopPreserving(ctx, f, true)
	}
	if err != nil {
		return err
	}
	return c.recordNodeRequest(ctx, f, w)
}

// phaseOf is the phase that the Machine will have after this pass.
func phaseOf(f *facts) machinev1.MachinePhase {
	if f.transition != nil {
		return f.transition.phase
	}
	return f.machine.Status.CurrentStatus.Phase
}

// startPreserving keeps the machine until its time is over: the autoscaler leaves its
// node alone, and a failed one takes no pods and loses those that it has.
func (c *Controller) startPreserving(ctx context.Context, f *facts, w preserveRequest, failed bool) error {
	until := f.machine.Status.CurrentStatus.PreserveExpiryTime
	if until == nil {
		// It is written before the node is touched, so that whatever happens then
		// somebody gives the node back. The write wakes the machine again.
		t := metav1.NewTime(f.now.Add(f.settings.preserve).Truncate(time.Second))
		f.expiry = &expiryChange{&t}
		return nil
	}
	requeueAfter(f, until.Sub(f.now))
	if f.node == nil {
		return nil
	}
	if shown := nodeConditionOf(f.node, machinev1.NodePreserved); shown != nil && shown.Status == corev1.ConditionTrue &&
		(!failed || f.node.Annotations[machinev1.PreservedDrainedAnnotation] == "true") {
		return c.removePreservedTaint(ctx, f, failed)
	}
	if err := c.patchNode(ctx, f, func(n *corev1.Node) { markNodePreserved(n, failed) }); err != nil {
		return err
	}
	want, ok := c.preservedCondition(ctx, f, w, failed)
	if !ok {
		return nil
	}
	if err := c.setNodeCondition(ctx, f, want); err != nil || !failed || want.Status != corev1.ConditionTrue {
		return err
	}
	return c.patchNode(ctx, f, func(n *corev1.Node) { setAnnotation(n, machinev1.PreservedDrainedAnnotation, "true") })
}

// markNodePreserved keeps the autoscaler off the node, and new pods off one whose
// machine failed.
func markNodePreserved(n *corev1.Node, failed bool) {
	if n.Annotations[machinev1.ScaleDownDisabledAnnotation] != "true" {
		setAnnotation(n, machinev1.ScaleDownDisabledAnnotation, "true")
		setAnnotation(n, machinev1.ScaleDownDisabledByMCMAnnotation, "true")
	}
	n.Spec.Taints = withoutTaint(n.Spec.Taints, machinev1.PreservedTaint)
	if failed {
		n.Spec.Taints = withTaint(n.Spec.Taints, corev1.Taint{
			Key:    machinev1.PreservedTaint,
			Effect: corev1.TaintEffectNoSchedule,
		})
	}
}

// preservedCondition is what the node says about its preservation, after one
// more step of the drain of a failed machine; ok is false while that goes on.
func (c *Controller) preservedCondition(ctx context.Context, f *facts, w preserveRequest, failed bool) (want corev1.NodeCondition,
	ok bool,
) {
	want = corev1.NodeCondition{
		Type: machinev1.NodePreserved, Status: corev1.ConditionTrue,
		Reason: machinev1.ReasonPreservedByUser,
	}
	if w.value == machinev1.PreserveAuto {
		want.Reason = machinev1.ReasonPreservedByMCM
	}
	text := "Machine preserved until " + f.machine.Status.CurrentStatus.PreserveExpiryTime.UTC().Format(time.RFC3339) + "."
	want.Message = text
	if !failed {
		return want, true
	}
	done, err := c.drainPreserved(ctx, f)
	if err != nil {
		f.drained = &drainState{reason: machinev1.ReasonDraining, message: err.Error()}
		requeueAfter(f, slowJoinCheck)
		want.Status, want.Message = corev1.ConditionFalse, machinev1.MessagePreservedNotDrained+" "+text
		return want, true
	}
	want.Message = machinev1.MessagePreservedDrained + " " + text
	return want, done
}

// removePreservedTaint lets pods back onto a preserved node that recovered.
func (c *Controller) removePreservedTaint(ctx context.Context, f *facts, failed bool) error {
	if failed {
		return nil
	}
	return c.patchNode(ctx, f, func(n *corev1.Node) {
		n.Spec.Taints = withoutTaint(n.Spec.Taints, machinev1.PreservedTaint)
	})
}

// drainPreserved moves the pods off a failed machine that is kept.
func (c *Controller) drainPreserved(ctx context.Context, f *facts) (bool, error) {
	started := f.machine.Status.CurrentStatus.LastUpdateTime.Time
	force := f.machine.Labels[machinev1.ForceDrainLabel] == "True" || f.now.Sub(started) > f.settings.drain
	if waits, err := c.drainPausedByOutage(ctx, f, force); err != nil || waits {
		return false, err
	}
	result, err := c.drainer.Drain(ctx, c.drainRequest(ctx, f, started, force || longUnhealthy(f.node, f.now)))
	if err != nil {
		return false, err
	}
	f.drained = &drainState{result.Done, result.Reason, result.Message}
	requeueAfter(f, result.Wait)
	if !result.Done {
		requeueAfter(f, started.Add(f.settings.drain).Sub(f.now)+time.Second)
	}
	return result.Done, nil
}

// stopPreserving gives the machine back to everybody, and where the wish is
// fulfilled removes it too.
func (c *Controller) stopPreserving(ctx context.Context, f *facts, fulfilled bool) error {
	if f.machine.Status.CurrentStatus.PreserveExpiryTime == nil {
		return nil
	}
	if f.node != nil {
		stopped := corev1.NodeCondition{
			Type: machinev1.NodePreserved, Status: corev1.ConditionFalse,
			Reason: machinev1.ReasonPreservationStopped,
		}
		if err := c.setNodeCondition(ctx, f, stopped); err != nil {
			return err
		}
		err := c.patchNode(ctx, f, func(n *corev1.Node) {
			if n.Annotations[machinev1.ScaleDownDisabledByMCMAnnotation] == "true" {
				delete(n.Annotations, machinev1.ScaleDownDisabledAnnotation)
				delete(n.Annotations, machinev1.ScaleDownDisabledByMCMAnnotation)
			}
			delete(n.Annotations, machinev1.PreservedDrainedAnnotation)
			if fulfilled {
				delete(n.Annotations, machinev1.PreserveAnnotation)
			}
			n.Spec.Taints = withoutTaint(n.Spec.Taints, machinev1.PreservedTaint)
		})
		if err != nil {
			return err
		}
	}
	if fulfilled {
		err := c.patchMachine(ctx, f, func(m *machinev1.Machine) {
			delete(m.Annotations, machinev1.PreserveAnnotation)
			delete(m.Annotations, machinev1.LastAppliedNodePreserveAnnotation)
		})
		if err != nil {
			return err
		}
	}
	f.expiry = &expiryChange{}
	return nil
}

// recordNodeRequest notes that the node's annotation has taken over from the Machine's.
func (c *Controller) recordNodeRequest(ctx context.Context, f *facts, w preserveRequest) error {
	if !w.fromNode || f.machine.Annotations[machinev1.LastAppliedNodePreserveAnnotation] == w.value {
		return nil
	}
	return c.patchMachine(ctx, f, func(m *machinev1.Machine) {
		delete(m.Annotations, machinev1.PreserveAnnotation)
		if w.value == "" {
			delete(m.Annotations, machinev1.LastAppliedNodePreserveAnnotation)
			return
		}
		setAnnotation(m, machinev1.LastAppliedNodePreserveAnnotation, w.value)
	})
}

// reportPreservation carries the change of this pass into the status.
func reportPreservation(f *facts, status *machinev1.MachineStatus) {
	if f.expiry != nil && f.machine.DeletionTimestamp.IsZero() {
		status.CurrentStatus.PreserveExpiryTime = f.expiry.until
	}
}
