package forecast

import (
	"slices"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/rollout"
)

// updateInPlace is one pass of the strategy InPlaceUpdate.
func (w *world) updateInPlace(current *rollout.Set, old []rollout.Set) {
	if current == nil {
		size, _ := rollout.InPlaceReplicas(w.bounds, rollout.Set{}, old, w.undergoing(), true)
		w.add(size)
	}
	w.sync()
	for _, m := range w.olds() {
		if m.set.Spec.Replicas > 0 {
			machinev1.SetLabel(m.set, machinev1.ScaleUpDisabledLabel, "true")
		}
	}
	w.shrinkOld()
	current, old = w.views()
	size, transfer := rollout.InPlaceReplicas(w.bounds, *current, old, w.undergoing(), false)
	if size != current.Spec {
		w.resize(w.current, size)
	}
	current, old = w.views()
	keep := rollout.InPlaceKeep(w.bounds, *current, old)
	for i, m := range w.olds() {
		if keep[i] != old[i].Spec {
			w.resize(m, keep[i])
		}
	}
	if transfer {
		w.transfer()
	}
	w.selectNext()
}

// undergoing returns how many machines of old sets are being updated.
func (w *world) undergoing() int {
	n := 0
	for _, m := range w.olds() {
		for _, machine := range live(m.machines) {
			if m.selected[machine] {
				n++
			}
		}
	}
	return n
}

// shrinkOld takes from the old sets the replicas whose machines are gone.
func (w *world) shrinkOld() {
	for _, m := range w.olds() {
		if n := len(live(m.machines)); n < int(m.set.Spec.Replicas) {
			w.resize(m, n)
		}
	}
}

// transfer moves the machines that were updated to the set with the template.
func (w *world) transfer() {
	for _, m := range w.olds() {
		var moved []*machinev1.Machine
		for _, machine := range live(m.machines) {
			if m.selected[machine] {
				moved = append(moved, machine)
				w.out.Updated = append(w.out.Updated, machine.Name)
			}
		}
		if len(moved) == 0 {
			continue
		}
		m.selected = nil
		m.machines = slices.DeleteFunc(m.machines, func(machine *machinev1.Machine) bool {
			return slices.Contains(moved, machine)
		})
		w.current.machines = append(w.current.machines, moved...)
		w.resize(m, int(m.set.Spec.Replicas)-len(moved))
		w.resize(w.current, int(w.current.set.Spec.Replicas)+len(moved))
		w.current.report()
		m.report()
	}
}

// selectNext selects as many machines as may be updated now. Where a person selects them, all are.
func (w *world) selectNext() {
	current, old := w.views()
	if !slices.ContainsFunc(old, rollout.Set.Active) {
		return
	}
	state := rollout.InPlace{
		Asked: current.Spec, New: current.Spec, NewAvailable: current.Available, Available: current.Available,
	}
	type candidate struct {
		of      *member
		machine *machinev1.Machine
	}
	var candidates []candidate
	for _, m := range w.olds() {
		state.Asked += int(m.set.Spec.Replicas)
		for _, machine := range rollout.InUpdateOrder(live(m.machines)) {
			if m.selected[machine] {
				state.Undergoing++
				continue
			}
			if rollout.IsAvailable(machine) {
				state.Available++
			}
			if machine.Labels[machinev1.NodeLabel] != "" {
				candidates = append(candidates, candidate{m, machine})
			}
		}
	}
	n := min(rollout.Selectable(w.bounds, state), len(candidates))
	if w.byPerson() {
		n = len(candidates)
	}
	for _, c := range candidates[:n] {
		if c.of.selected == nil {
			c.of.selected = map[*machinev1.Machine]bool{}
		}
		c.of.selected[c.machine], w.changed = true, true
	}
}

// byPerson reports whether a person selects the nodes for an update in place.
func (w *world) byPerson() bool {
	update := w.d.Spec.Strategy.InPlaceUpdate
	return w.d.Spec.Strategy.Type == machinev1.InPlaceUpdateStrategyType && update != nil &&
		update.OrchestrationType == machinev1.OrchestrationTypeManual
}
