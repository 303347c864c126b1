package machinedeployment

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/rollout"
)

// inPlaceUpdate updates the nodes of old machines without replacing the VMs. All
// nodes become candidates; some are selected, by us or by a person; the Machine
// controller drains them, an agent on the node updates them, and then the machines
// move to the new set. Old sets create no machines any more. A machine without a
// node is skipped, where MCM stops.
func (s *scope) inPlaceUpdate(ctx context.Context) error {
	if ready, err := s.ensureNewSetInPlace(ctx); err != nil || !ready {
		return err
	}
	marked := s.markNodes(ctx)
	s.disableOldScaleUp()
	s.countMoved()
	if err := s.resizeInPlace(ctx); err != nil {
		return errors.Join(marked, err, s.patchSets(ctx))
	}
	return errors.Join(marked, s.patchSets(ctx), s.removeUpdateResults(ctx), s.selectNodes(ctx), s.cleanUpIfComplete(ctx))
}

// ensureNewSetInPlace ensures that a set with the template exists. One is created once the old
// sets have observed their replicas.
func (s *scope) ensureNewSetInPlace(ctx context.Context) (bool, error) {
	if s.newSet != nil {
		return s.ensureNewSet(ctx, nil)
	}
	if !s.oldSetsSettled() {
		return false, nil // the status of the set comes
	}
	if err := s.readSelectedNodes(ctx); err != nil {
		return false, err
	}
	undergoing, err := s.undergoing(ctx)
	if err != nil {
		return false, err
	}
	return s.ensureNewSet(ctx, func() int {
		_, old := s.setViews()
		size, _ := rollout.InPlaceReplicas(s.bounds, rollout.Set{}, old, undergoing, true)
		return size
	})
}

// disableOldScaleUp prevents old sets from creating machines, and marks them as MCM does.
func (s *scope) disableOldScaleUp() {
	for _, o := range s.oldSets() {
		if o.desired.Spec.Replicas > 0 {
			machinev1.SetLabel(o.desired, machinev1.ScaleUpDisabledLabel, "true")
		}
		if len(o.live()) > 0 {
			machinev1.SetAnnotation(o.desired, machinev1.PreferNoScheduleKey, "True")
		}
	}
}

// undergoing returns how many machines of old sets are being updated: their nodes are selected.
func (s *scope) undergoing(ctx context.Context) (int, error) {
	n := 0
	for _, o := range s.oldSets() {
		selected, _, err := s.splitSelected(ctx, o)
		if err != nil {
			return 0, err
		}
		n += len(selected)
	}
	return n, nil
}

// splitSelected returns the live machines of a set whose nodes are selected for their update, and the others.
func (s *scope) splitSelected(ctx context.Context, o *ownedSet) (selected, others []*machinev1.Machine, err error) {
	for _, m := range o.live() {
		node, err := s.node(ctx, m)
		if err != nil {
			return nil, nil, err
		}
		if node != nil && selectedForUpdate(node) {
			selected = append(selected, m)
		} else {
			others = append(others, m)
		}
	}
	return selected, others, nil
}

// inPlaceViews returns setViews, where available machines whose update has been asked for are not
// available: they are about to leave service. After a rollback the new set may have some, too.
func (s *scope) inPlaceViews(ctx context.Context) (newSet rollout.Set, old []rollout.Set, err error) {
	for _, o := range s.sets {
		leaving := 0
		for _, m := range o.live() {
			node, err := s.node(ctx, m)
			if err != nil {
				return newSet, nil, err
			}
			if node != nil && rollout.IsAvailable(m) && leavesForUpdate(node) {
				leaving++
			}
		}
		view := o.view().WithUnavailable(leaving)
		if o == s.newSet {
			newSet = view
		} else {
			old = append(old, view)
		}
	}
	return newSet, old, nil
}

// removeUpdateResults removes the label from machines that have moved, once their
// set has observed the replicas for them: until then the label prevents it from
// deleting one of them as surplus. countMoved has given the set these replicas, which may not have
// been written. A set that has fewer all the same was scaled in, and the label must not keep its
// surplus. In an old set the label also tells that the update is one to that set, until the node
// does not show it any more.
func (s *scope) removeUpdateResults(ctx context.Context) error {
	for _, o := range s.sets {
		written := o.observed.Spec.Replicas == o.desired.Spec.Replicas
		if !written || o.observed.Status.ObservedGeneration < o.observed.Generation {
			continue
		}
		for _, m := range o.moved() {
			node, err := s.node(ctx, m)
			if err != nil {
				return err
			}
			if o != s.newSet && node != nil && updateSucceeded(node) {
				continue
			}
			plain := m.DeepCopy()
			delete(plain.Labels, machinev1.UpdateResultLabel)
			if err := s.patchMachine(ctx, m, plain); err != nil {
				return err
			}
		}
	}
	return nil
}

// selectNodes selects as many nodes for their update as availability allows, in the
// order of updateCandidates. With orchestration Manual a person selects them.
func (s *scope) selectNodes(ctx context.Context) error {
	if s.d.Spec.Strategy.InPlaceUpdate.OrchestrationType == machinev1.OrchestrationTypeManual || !s.hasOldReplicas() {
		return nil
	}
	next, err := s.nextNodes(ctx)
	if err != nil || len(next) == 0 {
		return err
	}
	if err := s.readSelectedNodes(ctx); err != nil {
		return err
	}
	if next, err = s.nextNodes(ctx); err != nil {
		return err
	}
	for _, node := range next {
		shaped := node.DeepCopy()
		machinev1.SetLabel(shaped, machinev1.SelectedForUpdateLabel, "true")
		if err := s.patchNode(ctx, node, shaped); err != nil {
			return err
		}
	}
	return nil
}

// readSelectedNodes reads the nodes that are selected for their update from the API server. What the
// last reconcile selected may not be in the cache yet.
func (s *scope) readSelectedNodes(ctx context.Context) error {
	live := &corev1.NodeList{}
	if err := s.Target.Live.List(ctx, live, client.HasLabels{machinev1.SelectedForUpdateLabel}); err != nil {
		return fmt.Errorf("list selected nodes: %w", err)
	}
	for i := range live.Items {
		s.nodes[live.Items[i].Name] = &live.Items[i]
	}
	return nil
}

// nextNodes returns the nodes that can be selected now.
func (s *scope) nextNodes(ctx context.Context) ([]*corev1.Node, error) {
	candidates, state, err := s.updateCandidates(ctx)
	if err != nil {
		return nil, err
	}
	return candidates[:min(rollout.Selectable(s.bounds, state), len(candidates))], nil
}

// updateCandidates returns the nodes that are not selected yet, those of the oldest
// set first, available ones before others, older before younger, and the input of
// the rollout arithmetic.
func (s *scope) updateCandidates(ctx context.Context) ([]*corev1.Node, rollout.InPlace, error) {
	newSet, _, err := s.inPlaceViews(ctx)
	if err != nil {
		return nil, rollout.InPlace{}, err
	}
	state := rollout.InPlace{
		Asked:        newSet.Spec,
		New:          newSet.Spec,
		NewAvailable: min(newSet.Available, newSet.Spec), // the set deletes the others
		Available:    min(newSet.Available, newSet.Spec),
	}
	var nodes []*corev1.Node
	for _, o := range s.oldSets() {
		selected, others, err := s.splitSelected(ctx, o)
		if err != nil {
			return nil, state, err
		}
		candidates, available, err := s.candidates(ctx, others)
		if err != nil {
			return nil, state, err
		}
		nodes = append(nodes, candidates...)
		replicas := int(o.desired.Spec.Replicas)
		state.Asked += replicas
		state.Undergoing += len(selected)
		state.Available += min(available, max(replicas-len(selected), 0)) // the set deletes the others
	}
	return nodes, state, nil
}

// candidates returns the nodes of machines that may be updated, in the order of their update, and how
// many of the machines are available.
func (s *scope) candidates(ctx context.Context, machines []*machinev1.Machine) (nodes []*corev1.Node, available int,
	err error,
) {
	for _, m := range rollout.InUpdateOrder(machines) {
		node, err := s.node(ctx, m)
		if err != nil {
			return nil, 0, err
		}
		if rollout.IsAvailable(m) {
			available++
		}
		if node != nil && !hasMoved(m) { // its last update is finished first
			nodes = append(nodes, node)
		}
	}
	return nodes, available, nil
}

func selectedForUpdate(node *corev1.Node) bool {
	_, ok := node.Labels[machinev1.SelectedForUpdateLabel]
	return ok
}

// leavesForUpdate reports whether a node is or will be taken out of service for its update. The
// label alone does not do that, where somebody has put it on a node that is no candidate.
func leavesForUpdate(node *corev1.Node) bool {
	_, candidate := node.Labels[machinev1.CandidateForUpdateLabel]
	return selectedForUpdate(node) && (candidate || slices.ContainsFunc(node.Status.Conditions,
		func(c corev1.NodeCondition) bool {
			return c.Type == machinev1.NodeInPlaceUpdate && c.Reason != machinev1.ReasonUpdateSuccessful
		}))
}

// transferMachines moves the machines that were updated in place to the new set,
// each with one patch. The replicas follow in the next reconcile, in countMoved:
// a set that is resized before its controller's cache shows the move would delete
// or create a machine. Until then the label on the machine prevents its new set
// from deleting it as surplus, and the old set creates none.
func (s *scope) transferMachines(ctx context.Context) error {
	class, err := s.newSetClass(ctx)
	if err != nil {
		return err
	}
	for _, o := range s.oldSets() {
		if _, disabled := o.observed.Labels[machinev1.ScaleUpDisabledLabel]; !disabled && o.observed.Spec.Replicas > 0 {
			continue // it would replace a machine that moves
		}
		for _, m := range o.live() {
			ready, err := s.transferable(ctx, m)
			if err != nil {
				return err
			}
			if !ready {
				continue
			}
			if err := s.transferMachine(ctx, m, o, class); err != nil {
				return err
			}
		}
	}
	return nil
}

// transferable reports whether a machine's node was updated, according to both the
// machine and the node. One that has just moved was updated to the set that it is in.
func (s *scope) transferable(ctx context.Context, m *machinev1.Machine) (bool, error) {
	if hasMoved(m) || m.Status.CurrentStatus.Phase == machinev1.MachineInPlaceUpdating ||
		!slices.ContainsFunc(m.Status.Conditions, updateSuccessful) {
		return false, nil
	}
	node, err := s.node(ctx, m)
	if err != nil || node == nil {
		return false, err
	}
	return node.Labels[machinev1.UpdateResultLabel] == machinev1.UpdateSuccessful, nil
}

func updateSuccessful(c corev1.NodeCondition) bool {
	return c.Type == machinev1.NodeInPlaceUpdate && c.Reason == machinev1.ReasonUpdateSuccessful
}

// transferMachine moves a machine to the new set: owner, labels and class. It fails
// on a stale machine, which may have moved already.
func (s *scope) transferMachine(ctx context.Context, m *machinev1.Machine, from *ownedSet,
	class *machinev1.MachineClass,
) error {
	moved := m.DeepCopy()
	to := s.newSet.observed
	owner := *metav1.NewControllerRef(to, machinev1.GroupVersion.WithKind(machinev1.MachineSetKind))
	moved.OwnerReferences = slices.DeleteFunc(moved.OwnerReferences, func(r metav1.OwnerReference) bool {
		return r.UID == from.observed.UID
	})
	moved.OwnerReferences = append([]metav1.OwnerReference{owner}, moved.OwnerReferences...)
	if s := from.observed.Spec.Selector; s != nil {
		for key := range s.MatchLabels {
			delete(moved.Labels, key)
		}
	}
	if s := to.Spec.Selector; s != nil {
		for key, value := range s.MatchLabels {
			machinev1.SetLabel(moved, key, value)
		}
	}
	machinev1.SetLabel(moved, machinev1.UpdateResultLabel, machinev1.UpdateSuccessful)
	if moved.Annotations[machinev1.PreserveAnnotation] == machinev1.PreserveAuto {
		delete(moved.Annotations, machinev1.PreserveAnnotation) // the old set's mark would count against the new one's limit
	}
	if s.canTakeClass(ctx, class, m) {
		moved.Spec.Class = to.Spec.Template.Spec.Class
	}
	if err := s.Client.Patch(ctx, moved, client.MergeFromWithOptions(m,
		client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("move Machine %s to MachineSet %s: %w", m.Name, to.Name, err)
	}
	return nil
}

// newSetClass reads the class of the new set; nil if it does not exist or is being
// deleted.
func (s *scope) newSetClass(ctx context.Context) (*machinev1.MachineClass, error) {
	class := &machinev1.MachineClass{}
	name := s.newSet.observed.Spec.Template.Spec.Class.Name
	err := s.Client.Get(ctx, client.ObjectKey{Namespace: s.d.Namespace, Name: name}, class)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read MachineClass %s: %w", name, err)
	}
	if apierrors.IsNotFound(err) || !class.DeletionTimestamp.IsZero() {
		return nil, nil //nolint:nilnil // no class is an answer here
	}
	return class, nil
}

// canTakeClass reports whether a machine that was updated in place can refer to the
// class of its new set.
//
// MCM leaves the old class in the machine, so that the class can never be removed,
// and the machine keeps its virtual capacity. For a machine that has its VM, the
// class only tells where the VM is and which credentials delete it. So the new
// class replaces the old one if both name the same provider and region. Otherwise
// the VM could be looked up in the wrong place and be lost.
func (s *scope) canTakeClass(ctx context.Context, class *machinev1.MachineClass, m *machinev1.Machine) bool {
	if class == nil || class.Name == m.Spec.Class.Name ||
		slices.Contains(machinev1.FallbackClasses(s.d, class.Name), m.Spec.Class.Name) {
		return false
	}
	old := &machinev1.MachineClass{}
	if err := s.Client.Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: m.Spec.Class.Name}, old); err != nil {
		// A class that does not exist deletes no VM. After another error the old class stays.
		return client.IgnoreNotFound(err) == nil
	}
	return old.Provider == class.Provider && region(old) == region(class)
}

func region(c *machinev1.MachineClass) string {
	if c.NodeTemplate == nil {
		return ""
	}
	return c.NodeTemplate.Region
}
