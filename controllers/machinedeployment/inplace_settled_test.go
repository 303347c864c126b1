package machinedeployment

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/harness"
)

// TestInPlaceScaleBesideRefusedShrink: a rollback and a scale-out come together with the loss of a machine, and
// the write that takes the replica from its set is refused. The new set must not grow for what both could create.
func TestInPlaceScaleBesideRefusedShrink(t *testing.T) {
	t.Parallel()
	env := newInPlaceEnv(t, 4, machinev1.OrchestrationTypeAuto, 0, 1)
	env.changeSpec(class("v2"))
	env.until("one has moved", func() bool {
		return env.set("v2").Status.AvailableReplicas == 1 && env.set("v1").Spec.Replicas == 3
	})
	env.terminate(&env.members(env.set("v2"))[0])
	env.changeSpec(func(d *machinev1.MachineDeployment) {
		class("v1")(d)
		d.Spec.Replicas = 5
	})
	refused := env.set("v2").Name
	env.Fault = func(r harness.Request) error {
		if r.Name != refused {
			return nil
		}
		return refuseSets(r)
	}
	_, _ = env.try()
	env.Fault = nil
	env.playSets() // creates no sixth machine
	env.run()
}

// TestInPlaceCreateBesideUnobservedShrink: the template changes twice while an old set, whose replicas were
// reduced after a loss, is about to create a machine that it was asked for before.
func TestInPlaceCreateBesideUnobservedShrink(t *testing.T) {
	t.Parallel()
	env := newInPlaceEnv(t, 4, machinev1.OrchestrationTypeAuto, 0, 1)
	before := env.set("v1")
	env.terminate(&env.members(before)[0])
	for _, name := range []string{"v2", "v3"} {
		env.changeSpec(class(name))
		env.pass()
	}
	env.scaleSet(before)
	for _, set := range slices.Backward(env.sets()) { // none creates a fifth machine
		env.playSet(&set)
	}
	env.run()
}

// TestInPlaceUpdatedMachineGoes: after a scale-in nothing may move any more, and an old machine that was updated is
// surplus. It is the last one of its set, so that no available one can go in its place.
func TestInPlaceUpdatedMachineGoes(t *testing.T) {
	t.Parallel()
	env := newInPlaceEnv(t, 3, machinev1.OrchestrationTypeAuto, 1, 0)
	env.changeSpec(class("v2"))
	env.until("one has moved and another one is selected", func() bool {
		selected, _ := env.selected()
		return env.set("v2").Status.AvailableReplicas == 2 && env.set("v1").Spec.Replicas == 2 && len(selected) == 1
	})
	_, others := env.selected()
	unknown := env.members(env.set("v2"))[0]
	change(env, &unknown, func(m *machinev1.Machine) { m.Status.CurrentStatus.Phase = machinev1.MachineUnknown })
	env.changeSpec(func(d *machinev1.MachineDeployment) { d.Spec.Replicas = 2 })
	env.pass()
	env.terminate(&others[0])
	for range 10 {
		env.round()
	}
	change(env, &unknown, func(m *machinev1.Machine) { m.Status.CurrentStatus.Phase = machinev1.MachineRunning })
	env.until("two are left", func() bool { return len(env.live()) == 2 })
}

// TestInPlaceLabelWithoutCandidate: somebody has put the label of selected nodes on one that is not to be updated.
// It stays in service, so that the update goes on.
func TestInPlaceLabelWithoutCandidate(t *testing.T) {
	t.Parallel()
	env := newInPlaceEnv(t, 3, machinev1.OrchestrationTypeAuto, 1, 0)
	env.changeSpec(class("v2"))
	env.until("the surge runs", func() bool { return env.set("v2").Status.AvailableReplicas == 1 })
	surge := env.members(env.set("v2"))[0]
	change(env, env.node(surge.Name), func(n *corev1.Node) {
		machinev1.SetLabel(n, machinev1.SelectedForUpdateLabel, "true")
	})
	env.run()
}

// TestInPlaceSurplusOfOldSet: a scale-in takes replicas from two old sets, one of which has no available machine. Until
// the other one has deleted its surplus, that surplus does not count as available, and no node is selected beside it.
func TestInPlaceSurplusOfOldSet(t *testing.T) {
	t.Parallel()
	env := newInPlaceEnv(t, 6, machinev1.OrchestrationTypeManual, 0, 3)
	env.changeSpec(class("v2"))
	env.pass()
	for _, m := range env.live()[:3] {
		change(env, env.node(m.Name), func(n *corev1.Node) {
			machinev1.SetLabel(n, machinev1.SelectedForUpdateLabel, "true")
		})
	}
	env.until("three have moved", func() bool {
		return env.set("v2").Status.AvailableReplicas == 3 && env.set("v1").Spec.Replicas == 3
	})
	env.changeSpec(class("v3"))
	env.pass()
	for _, m := range env.members(env.set("v2")) {
		change(env, &m, func(m *machinev1.Machine) { m.Status.CurrentStatus.Phase = machinev1.MachineUnknown })
	}
	env.changeSpec(func(d *machinev1.MachineDeployment) {
		d.Spec.Replicas, d.Spec.Strategy = 4, inPlaceUpdate(machinev1.OrchestrationTypeAuto, 0, 3)
	})
	for range 3 {
		env.pass()
	}
	if selected, others := env.selected(); len(selected) != 1 || env.set("v1").Spec.Replicas != 2 {
		t.Errorf("%d selected, %d not: one of two has to stay available\n%s", len(selected), len(others), env.describe())
	}
}
