package machinedeployment

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/target"
)

// nodeInitRetry is when a node is read again that was not initialized when the
// rollout was complete: the node controller may be about to disable its
// scale-down.
const nodeInitRetry = 10 * time.Second

// nodeMarks is what the nodes of a set carry during a rollout.
type nodeMarks struct {
	// preferNoSchedule taints nodes that are drained later. False removes the taint,
	// also from nodes whose set has the template again.
	preferNoSchedule bool
	// disableScaleDown prevents autoscalers from removing the node. A node that is not
	// initialized yet gets that from the node controller, with its first patch.
	disableScaleDown bool
	// enableScaleDown: autoscalers may remove the node again.
	enableScaleDown bool
	// candidate: the node is to be updated in place.
	candidate bool
	// finishUpdate: nodes that were updated in place are put back to work.
	finishUpdate bool
}

// markNodes brings the marks of all nodes up to date, each node with at most one
// patch. Nodes of machines that are terminating are left alone. A failure does
// not stop the rollout: the marks only keep pods and autoscalers from doing
// needless work.
func (s *scope) markNodes(ctx context.Context) error {
	if s.Target == nil {
		return nil
	}
	complete, rolling := s.complete(), s.hasOldReplicas()
	inPlace := s.d.Spec.Strategy.Type == machinev1.InPlaceUpdateStrategyType
	recreate := s.d.Spec.Strategy.Type == machinev1.RecreateStrategyType
	var errs []error
	for _, o := range s.sets {
		old := o != s.newSet
		m := nodeMarks{
			preferNoSchedule: old && !recreate,
			disableScaleDown: rolling && s.AnnotateDuringRollout,
			enableScaleDown:  complete,
			candidate:        old && inPlace,
			finishUpdate:     !old && inPlace,
		}
		errs = append(errs, s.markSetNodes(ctx, o, m))
	}
	return errors.Join(errs...)
}

// hasOldReplicas reports whether old sets still have machines to replace.
func (s *scope) hasOldReplicas() bool {
	return slices.ContainsFunc(s.oldSets(), func(o *ownedSet) bool {
		return o.observed.Spec.Replicas > 0 && !o.deleting()
	})
}

// markSetNodes stops at the first error: the target cluster may be unreachable. A
// node that has changed since it was read keeps none of the others waiting.
func (s *scope) markSetNodes(ctx context.Context, o *ownedSet, m nodeMarks) error {
	var stale error
	for _, machine := range o.live() {
		node, err := s.node(ctx, machine)
		if err != nil {
			return err
		}
		if node == nil {
			continue
		}
		if m.enableScaleDown && s.AnnotateDuringRollout && !initialized(node) {
			s.requeueAfter(nodeInitRetry)
		}
		err = s.patchNode(ctx, node, m.apply(node, machine))
		switch {
		case apierrors.IsConflict(err):
			stale = err
		case err != nil:
			return err
		}
	}
	return stale
}

// node returns the node of a machine, which belongs to the cache; nil if it has
// none or the node is gone.
func (s *scope) node(ctx context.Context, m *machinev1.Machine) (*corev1.Node, error) {
	name := m.Labels[machinev1.NodeLabel]
	if name == "" || s.Target == nil {
		return nil, nil //nolint:nilnil // no node is an answer here, and a common one
	}
	if node, ok := s.nodes[name]; ok {
		return node, nil
	}
	node := &corev1.Node{}
	err := s.Target.Client.Get(ctx, client.ObjectKey{Name: name}, node, client.UnsafeDisableDeepCopy)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read node %s: %w", name, err)
	}
	if err != nil {
		node = nil
	}
	s.nodes[name] = node
	return node, nil
}

// patchNode patches the node to shaped, which differs at most in labels,
// annotations, taints and unschedulable.
func (s *scope) patchNode(ctx context.Context, node, shaped *corev1.Node) error {
	if apiequality.Semantic.DeepEqual(node.Labels, shaped.Labels) &&
		apiequality.Semantic.DeepEqual(node.Annotations, shaped.Annotations) &&
		apiequality.Semantic.DeepEqual(node.Spec, shaped.Spec) {
		return nil
	}
	saved := shaped.DeepCopy() // the answer is decoded into it, and shaped shares memory with the cache
	err := target.PatchNode(ctx, s.Target.Client, node, saved)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("patch node %s: %w", node.Name, err)
	}
	s.nodes[node.Name] = saved
	return nil
}

// apply returns the node with its marks. It shares with node what it does not change.
func (m nodeMarks) apply(node *corev1.Node, machine *machinev1.Machine) *corev1.Node {
	out := *node
	out.Labels, out.Annotations = maps.Clone(node.Labels), maps.Clone(node.Annotations)
	out.Spec.Taints = slices.Clone(node.Spec.Taints)
	if m.preferNoSchedule {
		taint(&out, machinev1.PreferNoScheduleKey, "True", corev1.TaintEffectPreferNoSchedule)
	} else {
		untaint(&out, machinev1.PreferNoScheduleKey)
	}
	m.applyAutoscaler(&out, machine)
	if m.candidate {
		machinev1.SetLabel(&out, machinev1.CandidateForUpdateLabel, "true")
	}
	if m.finishUpdate {
		finishNodeUpdate(&out)
	}
	return &out
}

// applyAutoscaler sets or removes scale-down-disabled. One that is there without
// MCM's mark is the user's and stays as it is (MCM marks it too, and so removes
// it at the end). While a machine is preserved, its preservation needs it.
func (m nodeMarks) applyAutoscaler(node *corev1.Node, machine *machinev1.Machine) {
	_, disabled := node.Annotations[machinev1.ScaleDownDisabledAnnotation]
	_, byUs := node.Annotations[machinev1.ScaleDownDisabledByMCMAnnotation]
	switch {
	case m.disableScaleDown && !disabled && initialized(node):
		machinev1.SetAnnotation(node, machinev1.ScaleDownDisabledAnnotation, "true")
		machinev1.SetAnnotation(node, machinev1.ScaleDownDisabledByMCMAnnotation, "true")
	case m.enableScaleDown && byUs && machine.Status.CurrentStatus.PreserveExpiryTime.IsZero():
		delete(node.Annotations, machinev1.ScaleDownDisabledAnnotation)
		delete(node.Annotations, machinev1.ScaleDownDisabledByMCMAnnotation)
	}
}

// initialized reports whether the node controller has annotated the node with its Machine.
func initialized(node *corev1.Node) bool {
	return node.Annotations[machinev1.NodeMachineAnnotation] != ""
}

// finishNodeUpdate makes a node of the new set schedulable after its in-place
// update, with a taint until its critical components are ready. A node that was
// not selected, because its set got the template again, is no candidate any more.
func finishNodeUpdate(node *corev1.Node) {
	_, selected := node.Labels[machinev1.SelectedForUpdateLabel]
	switch {
	case updateSucceeded(node):
		delete(node.Labels, machinev1.CandidateForUpdateLabel)
		delete(node.Labels, machinev1.SelectedForUpdateLabel)
		delete(node.Labels, machinev1.UpdateResultLabel)
		delete(node.Annotations, machinev1.UpdateFailedReasonAnnotation)
		node.Spec.Unschedulable = false
		taint(node, machinev1.CriticalComponentsNotReadyTaint, "", corev1.TaintEffectNoSchedule)
	case !selected:
		delete(node.Labels, machinev1.CandidateForUpdateLabel)
	}
}

// updateSucceeded reports whether an in-place update of the node has succeeded and
// the Machine controller has observed that.
func updateSucceeded(node *corev1.Node) bool {
	return node.Labels[machinev1.UpdateResultLabel] == machinev1.UpdateSuccessful &&
		slices.ContainsFunc(node.Status.Conditions, updateSuccessful)
}

func taint(node *corev1.Node, key, value string, effect corev1.TaintEffect) {
	if !slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key && t.Effect == effect }) {
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: key, Value: value, Effect: effect})
	}
}

func untaint(node *corev1.Node, key string) {
	node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key })
}
