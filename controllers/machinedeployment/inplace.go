package machinedeployment

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/rollout"
)

// updateInPlace updates the nodes of old machines where they are. All of them
// become candidates; some are selected, by us or by a person; their machines'
// controller drains them, an agent on the node updates them, and then the
// machines move to the current set, with their VMs. Old sets make no machines
// any more. A machine without a node is skipped, where MCM stops.
func (s *scope) updateInPlace(ctx context.Context) error {
	ready, err := s.ensureNewSet(ctx, func() int {
		_, old := s.setViews()
		size, _ := rollout.InPlaceReplicas(s.bounds, rollout.Set{}, old, true)
		return size
	})
	if err != nil || !ready {
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

// disableOldScaleUp keeps old sets from making machines, and marks them as MCM does.
func (s *scope) disableOldScaleUp() {
	for _, o := range s.oldSets() {
		if o.desired.Spec.Replicas > 0 {
			setLabel(o.desired, machinev1.ScaleUpDisabledLabel, "true")
		}
		if len(o.live()) > 0 {
			setAnnotation(o.desired, machinev1.PreferNoScheduleKey, "True")
		}
	}
}

// countMoved makes up for what a pass that ended early, or the loss of a machine, has
// left: the current set is asked for machines that moved to it, old sets are no
// longer asked for machines that they cannot replace.
func (s *scope) countMoved() {
	moved := 0
	for _, m := range s.newSet.live() {
		if _, ok := m.Labels[machinev1.UpdateResultLabel]; ok {
			moved++
		}
	}
	asked := int(s.newSet.desired.Spec.Replicas)
	if n := min(moved, len(s.newSet.live())-asked); n > 0 {
		s.resize(s.newSet, asked+n)
	}
	for _, o := range s.oldSets() {
		terminating := len(o.machines) - len(o.live())
		// Machines that the set has just made may not be in the cache yet.
		actual := max(len(o.live()), int(o.observed.Status.Replicas)-terminating)
		if o.observed.Status.ObservedGeneration >= o.observed.Generation && actual < int(o.desired.Spec.Replicas) {
			s.resize(o, actual)
		}
	}
}

// resizeInPlace sizes the current set, or moves machines to it; when it has all
// that is wanted, the old sets lose the rest.
func (s *scope) resizeInPlace(ctx context.Context) error {
	current, old := s.setViews()
	size, transfer := rollout.InPlaceReplicas(s.bounds, *current, old, false)
	if size != current.Spec {
		s.resize(s.newSet, size)
	}
	if transfer {
		if err := s.transferMachines(ctx); err != nil {
			return err
		}
	}
	if s.newSet.desired.Spec.Replicas != s.d.Spec.Replicas {
		return nil
	}
	for _, o := range s.oldSets() {
		if o.desired.Spec.Replicas > 0 {
			s.resize(o, 0)
		}
	}
	return nil
}

// removeUpdateResults takes the label off machines that have moved, once their set has seen
// that it is asked for them: until then the label keeps it from deleting one of
// them as surplus.
func (s *scope) removeUpdateResults(ctx context.Context) error {
	seen := s.newSet.observed
	if seen.Status.ObservedGeneration < seen.Generation || len(s.newSet.live()) > int(seen.Spec.Replicas) {
		return nil
	}
	for _, m := range s.newSet.live() {
		if _, ok := m.Labels[machinev1.UpdateResultLabel]; !ok {
			continue
		}
		plain := m.DeepCopy()
		delete(plain.Labels, machinev1.UpdateResultLabel)
		if err := s.confirmNotHeld(ctx); err != nil {
			return err
		}
		if err := s.Client.Patch(ctx, plain, client.MergeFrom(m)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("take update result off machine %s: %w", m.Name, err)
		}
	}
	return nil
}

// selectNodes selects as many nodes for their update as availability allows,
// those of the oldest set first, available ones before others, older before
// younger. With orchestration Manual a person does.
func (s *scope) selectNodes(ctx context.Context) error {
	if s.d.Spec.Strategy.InPlaceUpdate.OrchestrationType == machinev1.OrchestrationTypeManual || !s.hasOldReplicas() {
		return nil
	}
	next, err := s.nextNodes(ctx)
	if err != nil || len(next) == 0 {
		return err
	}
	// What we selected in the last pass may not be in the cache yet.
	live := &corev1.NodeList{}
	if err := s.Target.Live.List(ctx, live, client.HasLabels{machinev1.SelectedForUpdateLabel}); err != nil {
		return fmt.Errorf("list selected nodes: %w", err)
	}
	for i := range live.Items {
		s.nodes[live.Items[i].Name] = &live.Items[i]
	}
	if next, err = s.nextNodes(ctx); err != nil {
		return err
	}
	for _, node := range next {
		shaped := node.DeepCopy()
		setLabel(shaped, machinev1.SelectedForUpdateLabel, "true")
		if err := s.patchNode(ctx, node, shaped); err != nil {
			return err
		}
	}
	return nil
}

// nextNodes returns the nodes that may be selected now.
func (s *scope) nextNodes(ctx context.Context) ([]*corev1.Node, error) {
	candidates, state, err := s.updateCandidates(ctx)
	if err != nil {
		return nil, err
	}
	return candidates[:min(rollout.Selectable(s.bounds, state), len(candidates))], nil
}

// updateCandidates returns the nodes that can be selected, in that order, and what
// the arithmetic goes by.
func (s *scope) updateCandidates(ctx context.Context) ([]*corev1.Node, rollout.InPlace, error) {
	current, _ := s.setViews()
	state := rollout.InPlace{
		Asked:            current.Spec,
		Current:          current.Spec,
		CurrentAvailable: current.Available,
		Available:        current.Available,
	}
	var nodes []*corev1.Node
	for _, o := range s.oldSets() {
		state.Asked += int(o.desired.Spec.Replicas)
		for _, m := range inUpdateOrder(o.live()) {
			node, err := s.node(ctx, m)
			if err != nil {
				return nil, state, err
			}
			if node != nil && selectedForUpdate(node) {
				state.Undergoing++
				continue
			}
			if isAvailable(m) {
				state.Available++
			}
			if node != nil {
				nodes = append(nodes, node)
			}
		}
	}
	return nodes, state, nil
}

func selectedForUpdate(node *corev1.Node) bool {
	_, ok := node.Labels[machinev1.SelectedForUpdateLabel]
	return ok
}

// inUpdateOrder sorts machines for their update: available ones first, then by age and name.
func inUpdateOrder(machines []*machinev1.Machine) []*machinev1.Machine {
	slices.SortStableFunc(machines, func(a, b *machinev1.Machine) int {
		if isAvailable(a) != isAvailable(b) {
			if isAvailable(a) {
				return -1
			}
			return 1
		}
		return a.CreationTimestamp.Compare(b.CreationTimestamp.Time)
	})
	return machines
}
