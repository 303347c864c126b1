package forecast

import (
	"fmt"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/rollout"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/safety/brake"
)

// heldBy is what keeps the controllers from doing anything; empty: nothing.
func (w *world) heldBy() string {
	if w.d != nil && !w.d.DeletionTimestamp.IsZero() {
		return "the MachineDeployment is being deleted"
	}
	if w.d != nil && machinev1.Held(w.d) {
		return "the MachineDeployment is held for a migration"
	}
	for _, m := range w.sets {
		if machinev1.Held(m.set) {
			return fmt.Sprintf("MachineSet %s is held for a migration", m.set.Name)
		}
		for _, machine := range m.machines {
			if machinev1.Held(machine) {
				return fmt.Sprintf("Machine %s is held for a migration", machine.Name)
			}
		}
	}
	return ""
}

// settle notes what the end looks like: which Machines are synced, and what is left to do.
func (w *world) settle() {
	if w.current != nil {
		moved := map[string]bool{}
		for _, name := range w.out.Updated {
			moved[name] = true
		}
		template := &w.current.set.Spec.Template
		for _, machine := range live(w.current.machines) {
			lacks := !rollout.InSync(&machine.Spec, &template.Spec) && rollout.PhaseOf(machine) != machinev1.MachineFailed
			if lacks && !w.created[machine] && !moved[machine.Name] {
				w.out.Synced = append(w.out.Synced, machine.Name)
			}
		}
	}
	w.out.Waits = w.unfinished()
}

// unfinished is why Machines are missing or left with an old template; empty: none are.
func (w *world) unfinished() string {
	left := 0
	for _, m := range w.olds() {
		left += len(m.machines)
	}
	done := 0
	if w.current != nil {
		done = len(w.current.machines)
	}
	finished := left == 0 && done == w.bounds.Replicas
	switch {
	case finished && w.byPersonUpdates():
		return "a person selects the nodes, with label " + machinev1.SelectedForUpdateLabel
	case finished:
		return ""
	}
	if paused := w.paused(); paused != "" {
		return paused
	}
	if frozen := w.frozen(); frozen != "" {
		return fmt.Sprintf("MachineSet %s is frozen, and creates no Machines", frozen)
	}
	return fmt.Sprintf("%d of %d Machines have the template, and Machines that are not available keep the others from "+
		"being replaced", done, w.bounds.Replicas)
}

// paused is why nothing is replaced; empty: the rollout is not paused.
func (w *world) paused() string {
	switch {
	case w.d == nil:
	case w.d.Spec.Paused:
		return "spec.paused is true"
	case w.current != nil && rollout.PausedTo(w.d, w.current.set.Name):
		return "the rollout is paused, because its machines do not join; remove annotation " +
			machinev1.RolloutPausedAnnotation + " to resume it"
	}
	return ""
}

// frozen is the name of a set that creates no Machines because it has too many; empty: none.
func (w *world) frozen() string {
	for _, m := range w.sets {
		if brake.IsFrozen(m.set) {
			return m.set.Name
		}
	}
	return ""
}

func (w *world) byPersonUpdates() bool { return w.d != nil && len(w.out.Updated) > 0 && w.byPerson() }
