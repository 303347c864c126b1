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
func (p *pass) updateInPlace(ctx context.Context) error {
	ready, err := p.ensure(ctx, func() int {
		_, old := p.views()
		size, _ := rollout.InPlaceReplicas(p.bounds, rollout.Set{}, old, true)
		return size
	})
	if err != nil || !ready {
		return err
	}
	marked := p.markNodes(ctx)
	p.closeOld()
	p.count()
	if err := p.resizeInPlace(ctx); err != nil {
		return errors.Join(marked, err, p.saveSets(ctx))
	}
	return errors.Join(marked, p.saveSets(ctx), p.unlabel(ctx), p.selectNodes(ctx), p.settle(ctx))
}

// closeOld keeps old sets from making machines, and marks them as MCM does.
func (p *pass) closeOld() {
	for _, o := range p.old() {
		if o.want.Spec.Replicas > 0 {
			label(o.want, machinev1.ScaleUpDisabledLabel, "true")
		}
		if len(o.live()) > 0 {
			annotate(o.want, machinev1.PreferNoScheduleKey, "True")
		}
	}
}

// count makes up for what a pass that ended early, or the loss of a machine, has
// left: the current set is asked for machines that moved to it, old sets are no
// longer asked for machines that they cannot replace.
func (p *pass) count() {
	moved := 0
	for _, m := range p.current.live() {
		if _, ok := m.Labels[machinev1.UpdateResultLabel]; ok {
			moved++
		}
	}
	asked := int(p.current.want.Spec.Replicas)
	if n := min(moved, len(p.current.live())-asked); n > 0 {
		p.resize(p.current, asked+n)
	}
	for _, o := range p.old() {
		terminating := len(o.machines) - len(o.live())
		// Machines that the set has just made may not be in the cache yet.
		actual := max(len(o.live()), int(o.seen.Status.Replicas)-terminating)
		if o.seen.Status.ObservedGeneration >= o.seen.Generation && actual < int(o.want.Spec.Replicas) {
			p.resize(o, actual)
		}
	}
}

// resizeInPlace sizes the current set, or moves machines to it; when it has all
// that is wanted, the old sets lose the rest.
func (p *pass) resizeInPlace(ctx context.Context) error {
	current, old := p.views()
	size, transfer := rollout.InPlaceReplicas(p.bounds, *current, old, false)
	if size != current.Spec {
		p.resize(p.current, size)
	}
	if transfer {
		if err := p.transfer(ctx); err != nil {
			return err
		}
	}
	if p.current.want.Spec.Replicas != p.d.Spec.Replicas {
		return nil
	}
	for _, o := range p.old() {
		if o.want.Spec.Replicas > 0 {
			p.resize(o, 0)
		}
	}
	return nil
}

// unlabel takes the label off machines that have moved, once their set has seen
// that it is asked for them: until then the label keeps it from deleting one of
// them as surplus.
func (p *pass) unlabel(ctx context.Context) error {
	seen := p.current.seen
	if seen.Status.ObservedGeneration < seen.Generation || len(p.current.live()) > int(seen.Spec.Replicas) {
		return nil
	}
	for _, m := range p.current.live() {
		if _, ok := m.Labels[machinev1.UpdateResultLabel]; !ok {
			continue
		}
		plain := m.DeepCopy()
		delete(plain.Labels, machinev1.UpdateResultLabel)
		if err := p.released(ctx); err != nil {
			return err
		}
		if err := p.Client.Patch(ctx, plain, client.MergeFrom(m)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("take update result off machine %s: %w", m.Name, err)
		}
	}
	return nil
}

// selectNodes selects as many nodes for their update as availability allows,
// those of the oldest set first, available ones before others, older before
// younger. With orchestration Manual a person does.
func (p *pass) selectNodes(ctx context.Context) error {
	if p.d.Spec.Strategy.InPlaceUpdate.OrchestrationType == machinev1.OrchestrationTypeManual || !p.replacing() {
		return nil
	}
	next, err := p.next(ctx)
	if err != nil || len(next) == 0 {
		return err
	}
	// What we selected in the last pass may not be in the cache yet.
	live := &corev1.NodeList{}
	if err := p.Target.Live.List(ctx, live, client.HasLabels{machinev1.SelectedForUpdateLabel}); err != nil {
		return fmt.Errorf("list selected nodes: %w", err)
	}
	for i := range live.Items {
		p.nodes[live.Items[i].Name] = &live.Items[i]
	}
	if next, err = p.next(ctx); err != nil {
		return err
	}
	for _, node := range next {
		shaped := node.DeepCopy()
		label(shaped, machinev1.SelectedForUpdateLabel, "true")
		if err := p.patchNode(ctx, node, shaped); err != nil {
			return err
		}
	}
	return nil
}

// next returns the nodes that may be selected now.
func (p *pass) next(ctx context.Context) ([]*corev1.Node, error) {
	candidates, state, err := p.candidates(ctx)
	if err != nil {
		return nil, err
	}
	return candidates[:min(rollout.Selectable(p.bounds, state), len(candidates))], nil
}

// candidates returns the nodes that can be selected, in that order, and what
// the arithmetic goes by.
func (p *pass) candidates(ctx context.Context) ([]*corev1.Node, rollout.InPlace, error) {
	current, _ := p.views()
	state := rollout.InPlace{
		Asked:            current.Spec,
		Current:          current.Spec,
		CurrentAvailable: current.Available,
		Available:        current.Available,
	}
	var nodes []*corev1.Node
	for _, o := range p.old() {
		state.Asked += int(o.want.Spec.Replicas)
		for _, m := range inTurn(o.live()) {
			node, err := p.node(ctx, m)
			if err != nil {
				return nil, state, err
			}
			if node != nil && selected(node) {
				state.Undergoing++
				continue
			}
			if serves(m) {
				state.Available++
			}
			if node != nil {
				nodes = append(nodes, node)
			}
		}
	}
	return nodes, state, nil
}

func selected(node *corev1.Node) bool {
	_, ok := node.Labels[machinev1.SelectedForUpdateLabel]
	return ok
}

// inTurn sorts machines for their update: available ones first, then by age and name.
func inTurn(machines []*machinev1.Machine) []*machinev1.Machine {
	slices.SortStableFunc(machines, func(a, b *machinev1.Machine) int {
		if serves(a) != serves(b) {
			if serves(a) {
				return -1
			}
			return 1
		}
		return a.CreationTimestamp.Compare(b.CreationTimestamp.Time)
	})
	return machines
}
