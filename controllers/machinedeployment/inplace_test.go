package machinedeployment

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/rollout"
)

func machineClass(name, region string) *machinev1.MachineClass {
	return &machinev1.MachineClass{
		ObjectMeta:   metav1.ObjectMeta{Namespace: namespace, Name: name},
		Provider:     "AWS",
		NodeTemplate: &machinev1.NodeTemplate{Region: region},
	}
}

func inPlace(o machinev1.OrchestrationType, surge, unavailable int32) func(*machinev1.MachineDeployment) {
	return func(d *machinev1.MachineDeployment) { d.Spec.Strategy = inPlaceUpdate(o, surge, unavailable) }
}

func names(machines []machinev1.Machine) []string {
	var all []string
	for _, m := range machines {
		all = append(all, m.Name)
	}
	return all
}

// TestInPlaceKeepsMachines updates all machines where they are.
func TestInPlaceKeepsMachines(t *testing.T) {
	t.Parallel()
	env := newEnv(t, deployment(4, inPlace(machinev1.OrchestrationTypeAuto, 0, 1)), machineClass("v1", "eu"),
		machineClass("v2", "eu"))
	env.run()
	before := names(env.live())
	env.changeSpec(class("v2"))
	env.until("all are updated", func() bool {
		away := 0
		for _, m := range env.live() {
			if !rollout.IsAvailable(&m) {
				away++
			}
		}
		if away > 1 {
			t.Fatalf("%d machines are away at once\n%s", away, env.describe())
		}
		d := env.deployment()
		return d.Status.UpdatedReplicas == 4 && d.Status.Replicas == 4 && d.Status.AvailableReplicas == 4
	})
	for range 4 { // labels and nodes are tidied up after the last has moved
		env.playSets()
		env.playMachines()
		env.pass()
	}
	if diff := cmp.Diff(before, names(env.live())); diff != "" {
		t.Fatalf("an update in place replaced machines\n%s", diff)
	}
	set := env.set("v2")
	for _, m := range env.live() {
		if !metav1.IsControlledBy(&m, set) || m.Spec.Class.Name != "v2" {
			t.Errorf("machine %s belongs to %v and class %s", m.Name, m.OwnerReferences, m.Spec.Class.Name)
		}
		want := map[string]string{
			"pool": "a", "node": "node-" + m.Name,
			machinev1.TemplateHashLabel: set.Labels[machinev1.TemplateHashLabel],
		}
		if diff := cmp.Diff(want, m.Labels); diff != "" {
			t.Errorf("labels of machine %s\n%s", m.Name, diff)
		}
		node := env.node(m.Name)
		if len(node.Labels) != 0 || node.Spec.Unschedulable || len(node.Annotations) != 1 {
			t.Errorf("node %s: labels %v, annotations %v, unschedulable %t", node.Name, node.Labels, node.Annotations,
				node.Spec.Unschedulable)
		}
		if diff := cmp.Diff([]corev1.Taint{{
			Key:    machinev1.CriticalComponentsNotReadyTaint,
			Effect: corev1.TaintEffectNoSchedule,
		}}, node.Spec.Taints); diff != "" {
			t.Errorf("an updated node waits for its components\n%s", diff)
		}
	}
}

// untilAllUpdated runs until all machines are updated, and fails when fewer than the replicas
// are available, or more machines exist than replicas and surge.
func (env *env) untilAllUpdated(what string) {
	env.Helper()
	env.until(what, func() bool {
		serving, d := 0, env.deployment()
		for _, m := range env.live() {
			if rollout.IsAvailable(&m) {
				serving++
			}
		}
		if serving < int(d.Spec.Replicas) || len(env.machines()) > int(d.Spec.Replicas)+1 {
			env.Fatalf("%d of %d machines are available\n%s", serving, len(env.machines()), env.describe())
		}
		n := d.Spec.Replicas
		return d.Status.UpdatedReplicas == n && d.Status.Replicas == n && d.Status.AvailableReplicas == n
	})
}

// TestInPlaceSurge updates all machines, and then back to the set that exists, while none may be
// missing.
func TestInPlaceSurge(t *testing.T) {
	t.Parallel()
	for _, replicas := range []int32{1, 3} { // with one replica the surge is the whole new set
		env := newEnv(t, deployment(replicas, inPlace(machinev1.OrchestrationTypeAuto, 1, 0)), machineClass("v1", "eu"),
			machineClass("v2", "eu"))
		env.run()
		for _, to := range []string{"v2", "v1"} {
			env.changeSpec(class(to))
			env.untilAllUpdated("all are updated to " + to)
		}
	}
}

// TestInPlaceSurgeLost: an old machine breaks while as many machines exist as must stay available.
// The update goes on with another machine of the surge, and no old one goes before that has joined.
func TestInPlaceSurgeLost(t *testing.T) {
	t.Parallel()
	env := newEnv(t, deployment(3, inPlace(machinev1.OrchestrationTypeAuto, 1, 0)), machineClass("v1", "eu"),
		machineClass("v2", "eu"))
	env.run()
	env.changeSpec(class("v2"))
	env.until("one has moved", func() bool {
		return env.set("v2").Status.AvailableReplicas == 2 && env.set("v1").Spec.Replicas == 2
	})
	env.terminate(&env.members(env.set("v1"))[0])
	env.untilAllUpdated("all are updated")
}

// TestInPlaceNotWedged is what MCM cannot do (facts/mcm.md 9.2.3 to 9.2.5): the
// replicas change in the middle, a new machine has no node yet, an old node is
// gone.
func TestInPlaceNotWedged(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reason string
		to     int32
	}{
		"Same": {"A missing node holds nothing up.", 4},
		"Out":  {"More are made in the new set.", 6},
		"In":   {"Fewer are left.", 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := newEnv(t, deployment(4, inPlace(machinev1.OrchestrationTypeAuto, 0, 1)), machineClass("v1", "eu"),
				machineClass("v2", "eu"))
			env.run()
			env.changeSpec(class("v2"))
			env.until("one has moved", func() bool { return env.set("v2").Status.Replicas >= 1 })
			lost := env.live()[3]
			env.Delete(env.node(lost.Name))
			env.changeSpec(func(d *machinev1.MachineDeployment) { d.Spec.Replicas = tc.to })
			for range 3 {
				env.pass()
				env.playSets()
			}
			env.terminate(&lost) // as its health timeout will do
			env.run()
			if got := env.set("v2").Spec.Replicas; got != tc.to || env.set("v1").Spec.Replicas != 0 {
				t.Errorf("%s\n%s", tc.reason, env.describe())
			}
		})
	}
}

func TestInPlaceManual(t *testing.T) {
	t.Parallel()
	env := newEnv(t, deployment(2, inPlace(machinev1.OrchestrationTypeManual, 1, 1)), machineClass("v1", "eu"),
		machineClass("v2", "eu"))
	env.run()
	env.changeSpec(class("v2"))
	for range 5 {
		env.pass()
		env.playSets()
		env.playMachines()
	}
	first := env.live()[0].Name
	for _, m := range env.live() {
		node := env.node(m.Name)
		if node.Labels[machinev1.CandidateForUpdateLabel] != "true" || selectedForUpdate(node) || m.Spec.Class.Name != "v1" {
			t.Errorf("node %s must be a candidate and wait for a person: %v", node.Name, node.Labels)
		}
	}
	change(env, env.node(first), func(n *corev1.Node) { n.Labels[machinev1.SelectedForUpdateLabel] = "true" })
	env.until("the chosen one has moved", func() bool {
		return env.set("v2").Status.AvailableReplicas == 1 && env.set("v1").Spec.Replicas == 1
	})
	if got := names(env.members(env.set("v2"))); !cmp.Equal(got, []string{first}) {
		t.Errorf("%v moved, want %s", got, first)
	}
	if len(env.live()) != 2 {
		t.Errorf("%s", env.describe())
	}
}

// TestTransferKeepsClassOfAnotherRegion: with the new class the VM would be
// looked for where it is not.
func TestTransferKeepsClassOfAnotherRegion(t *testing.T) {
	t.Parallel()
	env := newEnv(t, deployment(1, inPlace(machinev1.OrchestrationTypeAuto, 0, 1)), machineClass("v1", "eu"),
		machineClass("v2", "us"))
	env.run()
	env.changeSpec(class("v2"))
	env.run()
	if got := env.live()[0].Spec.Class.Name; got != "v1" {
		t.Errorf("the machine refers to %s", got)
	}
}

// TestTransferLeavesTheMarkOfTheOldSet: a machine that a set preserved by itself would count
// against the limit of the new one. What a user asked for goes with the machine.
func TestTransferLeavesTheMarkOfTheOldSet(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		machinev1.PreserveAuto: "", machinev1.PreserveWhenFailed: machinev1.PreserveWhenFailed,
		machinev1.PreserveNow: machinev1.PreserveNow, machinev1.PreserveFalse: machinev1.PreserveFalse,
	} {
		env := newEnv(t, deployment(1, inPlace(machinev1.OrchestrationTypeAuto, 0, 1)), machineClass("v1", "eu"),
			machineClass("v2", "eu"))
		env.run()
		change(env, &env.live()[0], func(m *machinev1.Machine) {
			machinev1.SetAnnotation(m, machinev1.PreserveAnnotation, value)
		})
		env.changeSpec(class("v2"))
		env.run()
		if m := env.live()[0]; m.Spec.Class.Name != "v2" || m.Annotations[machinev1.PreserveAnnotation] != want {
			t.Errorf("%s: class %s, annotations %v, want preserve=%q", value, m.Spec.Class.Name, m.Annotations, want)
		}
	}
}

// TestTransferGoesStepByStep: no set may change its size before its controller
// can see that the machine has moved, nor lose the label before it has seen the
// size.
func TestTransferGoesStepByStep(t *testing.T) {
	t.Parallel()
	env := newEnv(t, deployment(3, inPlace(machinev1.OrchestrationTypeAuto, 0, 1)), machineClass("v1", "eu"),
		machineClass("v2", "eu"))
	env.run()
	before := names(env.live())
	env.changeSpec(class("v2"))
	for range 2 { // selected and away, updated
		env.pass()
		env.playMachines()
	}
	sizes := func() [2]int32 { return [2]int32{env.set("v1").Spec.Replicas, env.set("v2").Spec.Replicas} }
	labelled := func() int {
		n := 0
		for _, m := range env.live() {
			if _, ok := m.Labels[machinev1.UpdateResultLabel]; ok {
				n++
			}
		}
		return n
	}
	env.pass()
	if got := sizes(); got != [2]int32{3, 0} || len(env.members(env.set("v2"))) != 1 || labelled() != 1 {
		t.Fatalf("the machine moves first, the sizes %v stay\n%s", got, env.describe())
	}
	env.pass() // the cache has it, the old set has not counted yet
	if got := sizes(); got != [2]int32{3, 1} || labelled() != 1 {
		t.Fatalf("the new set is asked for it: %v\n%s", got, env.describe())
	}
	env.playSet(env.set("v1"))
	env.pass()
	if got := sizes(); got != [2]int32{2, 1} || labelled() != 1 {
		t.Fatalf("the old set is not asked for it any more, and the label waits for the new one: %v\n%s", got, env.describe())
	}
	env.playSets()
	env.pass()
	if labelled() != 0 {
		t.Fatalf("the label has done its work\n%s", env.describe())
	}
	env.run()
	if diff := cmp.Diff(before, names(env.live())); diff != "" {
		t.Errorf("machines were lost or made\n%s", diff)
	}
}

// TestInPlaceBack takes a change back before anything was updated: the set must
// be able to make machines again, and nothing is left on its nodes.
func TestInPlaceBack(t *testing.T) {
	t.Parallel()
	env := newEnv(t, deployment(2, inPlace(machinev1.OrchestrationTypeManual, 0, 1)), machineClass("v1", "eu"),
		machineClass("v2", "eu"))
	env.run()
	env.changeSpec(class("v2"))
	env.pass()
	if env.set("v1").Labels[machinev1.ScaleUpDisabledLabel] != "true" {
		t.Fatalf("an old set makes no machines: %v", env.set("v1").Labels)
	}
	env.changeSpec(func(d *machinev1.MachineDeployment) { class("v1")(d); d.Spec.Replicas = 3 })
	env.run()
	if len(env.live()) != 3 {
		t.Errorf("%s", env.describe())
	}
	for _, m := range env.live() {
		if node := env.node(m.Name); len(node.Labels)+len(node.Spec.Taints) != 0 || len(node.Annotations) != 1 {
			t.Errorf("node %s: %v %v %v", node.Name, node.Labels, node.Annotations, node.Spec.Taints)
		}
	}
}

func TestInPlaceNeedsTarget(t *testing.T) {
	t.Parallel()
	env := newEnv(t, deployment(1, inPlace(machinev1.OrchestrationTypeAuto, 0, 1)))
	env.c.Target = nil
	env.pass()
	if c := specValidCondition(&env.deployment().Status); c == nil || len(env.sets()) != 0 {
		t.Errorf("an update in place without nodes must be refused: %+v", c)
	}
}

// TestStaleMachineDoesNotMove: it may have moved already, or be somebody else's.
func TestStaleMachineDoesNotMove(t *testing.T) {
	t.Parallel()
	env := newEnv(t, deployment(1, inPlace(machinev1.OrchestrationTypeAuto, 0, 1)), machineClass("v1", "eu"),
		machineClass("v2", "eu"))
	env.run()
	env.changeSpec(class("v2"))
	for range 2 {
		env.pass()
		env.playMachines()
	}
	s, err := env.c.observe(t.Context(), env.deployment())
	if err != nil {
		t.Fatal(err)
	}
	change(env, &env.live()[0], func(m *machinev1.Machine) { machinev1.SetAnnotation(m, "changed", "since") })
	if err := s.act(t.Context()); !apierrors.IsConflict(err) {
		t.Errorf("error %v, want a conflict", err)
	}
	if len(env.members(env.set("v1"))) != 1 {
		t.Errorf("%s", env.describe())
	}
}
