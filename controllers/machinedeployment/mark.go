package machinedeployment

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/message"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/rollout"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/target"
)

// markForDeletion marks the machines that a scaler has listed, so that their sets
// delete them first, removes marks from machines that are no longer listed, and
// drops entries of the list that are done. After it has marked a machine it is
// not ready: the sets may only be scaled in once the caches show the marks to
// their controller, or they would delete other machines.
func (s *scope) markForDeletion(ctx context.Context) (bool, error) {
	requests, malformed := rollout.ParseDeletionRequests(
		s.d.Annotations[machinev1.TriggerDeletionAnnotation], s.lastScalerChange())
	for _, entry := range malformed {
		s.emitWarning(machinev1.ReasonInvalidSpec,
			"Annotation %s: entry %q is dropped; entries are machine~2006-01-02T15:04:05Z",
			machinev1.TriggerDeletionAnnotation, message.Truncate(entry, maxQuoted))
	}
	machines := s.machinesByName()
	open := slices.DeleteFunc(requests, func(r rollout.DeletionRequest) bool {
		return !s.isOpen(ctx, r, machines[r.Name])
	})
	marked, err := s.markMachines(ctx, open)
	if err != nil {
		return false, err
	}
	s.setDeletionRequests(open)
	if err := s.patchDeployment(ctx); err != nil {
		return false, err
	}
	if marked {
		s.requeue = staleCacheRetry // the watch events of the machines come sooner
	}
	return !marked, nil
}

// lastScalerChange returns when the scaler last changed the replicas; now if that is unknown.
func (s *scope) lastScalerChange() time.Time {
	at, err := time.Parse(time.RFC3339, s.d.Annotations[machinev1.LastReplicaChangeByScalerAnnotation])
	if err != nil {
		return s.now
	}
	return at
}

// machinesByName returns the machines of the deployment by name.
func (s *scope) machinesByName() map[string]*machinev1.Machine {
	all := map[string]*machinev1.Machine{}
	for _, o := range s.sets {
		for _, m := range o.machines {
			all[m.Name] = m
		}
	}
	return all
}

// isOpen reports whether a listed machine still has to be deleted. m is nil if the
// deployment has no such machine; MCM marks it even if another deployment has it.
func (s *scope) isOpen(ctx context.Context, r rollout.DeletionRequest, m *machinev1.Machine) bool {
	if m == nil {
		err := s.Client.Get(ctx, client.ObjectKey{Namespace: s.d.Namespace, Name: r.Name}, &machinev1.Machine{})
		if err == nil {
			s.emitWarning(machinev1.ReasonInvalidSpec,
				"Annotation %s: machine %q is dropped; it does not belong to this deployment",
				machinev1.TriggerDeletionAnnotation, r.Name)
		}
		return false
	}
	return m.DeletionTimestamp.IsZero() && m.Status.CurrentStatus.Phase != machinev1.MachineFailed &&
		m.Status.CurrentStatus.Phase != machinev1.MachineTerminating
}

// markMachines sets and removes the marks of all machines, and reports whether one
// was changed.
func (s *scope) markMachines(ctx context.Context, open []rollout.DeletionRequest) (bool, error) {
	requestedAt := map[string]string{}
	for _, r := range open {
		requestedAt[r.Name] = r.RequestedAt
	}
	changed := false
	for _, o := range s.sets {
		for _, m := range o.live() {
			marked := s.withDeletionMark(m, requestedAt[m.Name])
			if marked == nil {
				continue
			}
			changed = true
			if err := s.patchMachine(ctx, m, marked); err != nil {
				return changed, err
			}
		}
	}
	return changed, nil
}

// withDeletionMark returns a copy of the machine with the right marks; nil if it
// has them. requestedAt is "" for a machine that is not listed. Only marks with a
// time are removed: a priority alone may be a user's. Failed machines keep their
// marks: they are not listed because they are replaced anyway.
func (s *scope) withDeletionMark(m *machinev1.Machine, requestedAt string) *machinev1.Machine {
	listed := requestedAt != ""
	_, timed := m.Annotations[machinev1.MarkedForDeletionAnnotation]
	marked := timed && m.Annotations[machinev1.PriorityAnnotation] == machinev1.HighestPriority
	if listed == marked || !listed && m.Status.CurrentStatus.Phase == machinev1.MachineFailed {
		return nil
	}
	changed := m.DeepCopy()
	if listed {
		machinev1.SetAnnotation(changed, machinev1.PriorityAnnotation, machinev1.HighestPriority)
		if !timed {
			machinev1.SetAnnotation(changed, machinev1.MarkedForDeletionAnnotation, requestedAt)
		}
		return changed
	}
	priority, ok := s.d.Spec.Template.Annotations[machinev1.PriorityAnnotation]
	if !ok {
		priority = machinev1.DefaultPriority
	}
	machinev1.SetAnnotation(changed, machinev1.PriorityAnnotation, priority)
	delete(changed.Annotations, machinev1.MarkedForDeletionAnnotation)
	return changed
}

// setDeletionRequests writes the open requests back into the annotation. The sets
// compare them with the time of the scaler's last change, so there must be one.
func (s *scope) setDeletionRequests(open []rollout.DeletionRequest) {
	if len(open) == 0 {
		delete(s.desired.Annotations, machinev1.TriggerDeletionAnnotation)
		return
	}
	entries := make([]string, len(open))
	for i, r := range open {
		entries[i] = r.String()
	}
	machinev1.SetAnnotation(s.desired, machinev1.TriggerDeletionAnnotation, strings.Join(entries, ","))
	if s.d.Annotations[machinev1.LastReplicaChangeByScalerAnnotation] == "" {
		machinev1.SetAnnotation(s.desired, machinev1.LastReplicaChangeByScalerAnnotation, s.now.UTC().Format(time.RFC3339))
	}
}

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
	// finishUpdate: nodes that were updated in place are put back to work. Those of machines that
	// have moved always are: the template may have changed since.
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
		marks := m
		marks.finishUpdate = m.finishUpdate || hasMoved(machine)
		err = s.patchNode(ctx, node, marks.apply(node, machine))
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
func initialized(node client.Object) bool {
	return node.GetAnnotations()[machinev1.NodeMachineAnnotation] != ""
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
