package machinedeployment

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
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
	w := newWorld(t, deployment(4, inPlace(machinev1.OrchestrationTypeAuto, 0, 1)), machineClass("v1", "eu"),
		machineClass("v2", "eu"))
	w.run()
	before := names(w.live())
	w.changeSpec(class("v2"))
	w.until("all are updated", func() bool {
		away := 0
		for _, m := range w.live() {
			if !serves(&m) {
				away++
			}
		}
		if away > 1 {
			t.Fatalf("%d machines are away at once\n%s", away, w.describe())
		}
		d := w.deployment()
		return d.Status.UpdatedReplicas == 4 && d.Status.Replicas == 4 && d.Status.AvailableReplicas == 4
	})
	for range 4 { // labels and nodes are tidied up after the last has moved
		w.playSets()
		w.playMachines()
		w.pass()
	}
	if diff := cmp.Diff(before, names(w.live())); diff != "" {
		t.Fatalf("an update in place replaced machines\n%s", diff)
	}
	set := w.set("v2")
	for _, m := range w.live() {
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
		node := w.node(m.Name)
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

func TestInPlaceSurge(t *testing.T) {
	t.Parallel()
	w := newWorld(t, deployment(3, inPlace(machinev1.OrchestrationTypeAuto, 1, 0)), machineClass("v1", "eu"),
		machineClass("v2", "eu"))
	w.run()
	w.changeSpec(class("v2"))
	w.until("all are updated", func() bool {
		serving := 0
		for _, m := range w.live() {
			if serves(&m) {
				serving++
			}
		}
		if serving < 3 || len(w.machines()) > 4 {
			t.Fatalf("%d of %d machines are available\n%s", serving, len(w.machines()), w.describe())
		}
		d := w.deployment()
		return d.Status.UpdatedReplicas == 3 && d.Status.Replicas == 3 && d.Status.AvailableReplicas == 3
	})
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
			w := newWorld(t, deployment(4, inPlace(machinev1.OrchestrationTypeAuto, 0, 1)), machineClass("v1", "eu"),
				machineClass("v2", "eu"))
			w.run()
			w.changeSpec(class("v2"))
			w.until("one has moved", func() bool { return w.set("v2").Status.Replicas >= 1 })
			lost := w.live()[3]
			if err := w.client.Delete(t.Context(), w.node(lost.Name)); err != nil {
				t.Fatal(err)
			}
			w.changeSpec(func(d *machinev1.MachineDeployment) { d.Spec.Replicas = tc.to })
			for range 3 {
				w.pass()
				w.playSets()
			}
			w.terminate(&lost) // as its health timeout will do
			w.run()
			if got := w.set("v2").Spec.Replicas; got != tc.to || w.set("v1").Spec.Replicas != 0 {
				t.Errorf("%s\n%s", tc.reason, w.describe())
			}
		})
	}
}

func TestInPlaceManual(t *testing.T) {
	t.Parallel()
	w := newWorld(t, deployment(2, inPlace(machinev1.OrchestrationTypeManual, 1, 1)), machineClass("v1", "eu"),
		machineClass("v2", "eu"))
	w.run()
	w.changeSpec(class("v2"))
	for range 5 {
		w.pass()
		w.playSets()
		w.playMachines()
	}
	first := w.live()[0].Name
	for _, m := range w.live() {
		node := w.node(m.Name)
		if node.Labels[machinev1.CandidateForUpdateLabel] != "true" || selected(node) || m.Spec.Class.Name != "v1" {
			t.Errorf("node %s must be a candidate and wait for a person: %v", node.Name, node.Labels)
		}
	}
	change(w, w.node(first), func(n *corev1.Node) { n.Labels[machinev1.SelectedForUpdateLabel] = "true" })
	w.until("the chosen one has moved", func() bool {
		return w.set("v2").Status.AvailableReplicas == 1 && w.set("v1").Spec.Replicas == 1
	})
	if got := names(w.members(w.set("v2"))); !cmp.Equal(got, []string{first}) {
		t.Errorf("%v moved, want %s", got, first)
	}
	if len(w.live()) != 2 {
		t.Errorf("%s", w.describe())
	}
}

// TestTransferKeepsClassOfAnotherRegion: with the new class the VM would be
// looked for where it is not.
func TestTransferKeepsClassOfAnotherRegion(t *testing.T) {
	t.Parallel()
	w := newWorld(t, deployment(1, inPlace(machinev1.OrchestrationTypeAuto, 0, 1)), machineClass("v1", "eu"),
		machineClass("v2", "us"))
	w.run()
	w.changeSpec(class("v2"))
	w.run()
	if got := w.live()[0].Spec.Class.Name; got != "v1" {
		t.Errorf("the machine refers to %s", got)
	}
}

// TestTransferGoesStepByStep: no set may change its size before its controller
// can see that the machine has moved, nor lose the label before it has seen the
// size.
func TestTransferGoesStepByStep(t *testing.T) {
	t.Parallel()
	w := newWorld(t, deployment(3, inPlace(machinev1.OrchestrationTypeAuto, 0, 1)), machineClass("v1", "eu"),
		machineClass("v2", "eu"))
	w.run()
	before := names(w.live())
	w.changeSpec(class("v2"))
	for range 2 { // selected and away, updated
		w.pass()
		w.playMachines()
	}
	sizes := func() [2]int32 { return [2]int32{w.set("v1").Spec.Replicas, w.set("v2").Spec.Replicas} }
	labelled := func() int {
		n := 0
		for _, m := range w.live() {
			if _, ok := m.Labels[machinev1.UpdateResultLabel]; ok {
				n++
			}
		}
		return n
	}
	w.pass()
	if got := sizes(); got != [2]int32{3, 0} || len(w.members(w.set("v2"))) != 1 || labelled() != 1 {
		t.Fatalf("the machine moves first, the sizes %v stay\n%s", got, w.describe())
	}
	w.pass() // the cache has it, the old set has not counted yet
	if got := sizes(); got != [2]int32{3, 1} || labelled() != 1 {
		t.Fatalf("the new set is asked for it: %v\n%s", got, w.describe())
	}
	w.playSet(w.set("v1"))
	w.pass()
	if got := sizes(); got != [2]int32{2, 1} || labelled() != 1 {
		t.Fatalf("the old set is not asked for it any more, and the label waits for the new one: %v\n%s", got, w.describe())
	}
	w.playSets()
	w.pass()
	if labelled() != 0 {
		t.Fatalf("the label has done its work\n%s", w.describe())
	}
	w.run()
	if diff := cmp.Diff(before, names(w.live())); diff != "" {
		t.Errorf("machines were lost or made\n%s", diff)
	}
}

// TestInPlaceBack takes a change back before anything was updated: the set must
// be able to make machines again, and nothing is left on its nodes.
func TestInPlaceBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, deployment(2, inPlace(machinev1.OrchestrationTypeManual, 0, 1)), machineClass("v1", "eu"),
		machineClass("v2", "eu"))
	w.run()
	w.changeSpec(class("v2"))
	w.pass()
	if w.set("v1").Labels[machinev1.ScaleUpDisabledLabel] != "true" {
		t.Fatalf("an old set makes no machines: %v", w.set("v1").Labels)
	}
	w.changeSpec(func(d *machinev1.MachineDeployment) { class("v1")(d); d.Spec.Replicas = 3 })
	w.run()
	if len(w.live()) != 3 {
		t.Errorf("%s", w.describe())
	}
	for _, m := range w.live() {
		if node := w.node(m.Name); len(node.Labels)+len(node.Spec.Taints) != 0 || len(node.Annotations) != 1 {
			t.Errorf("node %s: %v %v %v", node.Name, node.Labels, node.Annotations, node.Spec.Taints)
		}
	}
}

func TestInPlaceNeedsTarget(t *testing.T) {
	t.Parallel()
	w := newWorld(t, deployment(1, inPlace(machinev1.OrchestrationTypeAuto, 0, 1)))
	w.c.Target = nil
	w.pass()
	if c := told(&w.deployment().Status); c == nil || len(w.sets()) != 0 {
		t.Errorf("an update in place without nodes must be refused: %+v", c)
	}
}

// TestStaleMachineDoesNotMove: it may have moved already, or be somebody else's.
func TestStaleMachineDoesNotMove(t *testing.T) {
	t.Parallel()
	w := newWorld(t, deployment(1, inPlace(machinev1.OrchestrationTypeAuto, 0, 1)), machineClass("v1", "eu"),
		machineClass("v2", "eu"))
	w.run()
	w.changeSpec(class("v2"))
	for range 2 {
		w.pass()
		w.playMachines()
	}
	p, err := w.c.observe(t.Context(), w.deployment())
	if err != nil {
		t.Fatal(err)
	}
	change(w, &w.live()[0], func(m *machinev1.Machine) { annotate(m, "changed", "since") })
	if err := p.act(t.Context()); !apierrors.IsConflict(err) {
		t.Errorf("error %v, want a conflict", err)
	}
	if len(w.members(w.set("v1"))) != 1 {
		t.Errorf("%s", w.describe())
	}
}
