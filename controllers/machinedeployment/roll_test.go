package machinedeployment

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// TestFlow is the flow of MCM's own integration suite, as far as this
// controller has a part in it (facts/mcm.md 10.1, steps 2a to 2f).
func TestFlow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, deployment(0))
	w.pass()
	sets := w.sets()
	if len(sets) != 1 || sets[0].OwnerReferences[0].Name != "pool" || sets[0].Spec.Replicas != 0 {
		t.Fatalf("there must be one set although no machine is wanted: %+v", sets)
	}
	w.run()

	w.changeSpec(func(d *machinev1.MachineDeployment) { d.Spec.Replicas = 1; d.Spec.MinReadySeconds = 500 })
	w.run()
	type condition struct{ Type, Status, Reason string }
	var got []condition
	for _, c := range w.deployment().Status.Conditions {
		got = append(got, condition{string(c.Type), string(c.Status), c.Reason})
	}
	want := []condition{{"Available", "True", "MinimumReplicasAvailable"}, {"Progressing", "True", "NewMachineSetAvailable"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("MCM's suite wants exactly two conditions\n%s", diff)
	}

	for _, replicas := range []int32{6, 2} {
		w.changeSpec(func(d *machinev1.MachineDeployment) { d.Spec.Replicas = replicas })
		w.run()
		if n := len(w.live()); n != int(replicas) {
			t.Fatalf("%d machines, want %d", n, replicas)
		}
	}

	w.changeSpec(func(d *machinev1.MachineDeployment) { d.Spec.Replicas = 4; class("v2")(d) })
	w.run()
	if s := w.set("v2"); s.Spec.Replicas != 4 || w.set("v1").Spec.Replicas != 0 {
		t.Errorf("template and replicas changed together:\n%s", w.describe())
	}

	if err := w.client.Delete(t.Context(), w.deployment()); err != nil {
		t.Fatal(err)
	}
	w.until("the deployment is gone", func() bool { return w.deployment() == nil })
	if n := len(w.machines()) + len(w.sets()); n != 0 {
		t.Errorf("left behind:\n%s", w.describe())
	}
}

// TestRollKeepsBounds rolls with several bounds and checks at every step how
// many machines exist and are available.
func TestRollKeepsBounds(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reason                       string
		replicas, surge, unavailable int32
	}{
		"SurgeOnly":       {"Never fewer than wanted.", 5, 1, 0},
		"UnavailableOnly": {"Never more than wanted.", 5, 0, 2},
		"Both":            {"As MCM's suite.", 5, 2, 1},
		"BothZero":        {"One may be missing then.", 3, 0, 0},
		"Everything":      {"All at once.", 4, 4, 4},
		"Twenty":          {"As the benchmark, but smaller.", 10, 3, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, deployment(tc.replicas, func(d *machinev1.MachineDeployment) {
				d.Spec.Strategy = rollingUpdate(tc.surge, tc.unavailable)
			}))
			w.run()
			w.changeSpec(class("v2"))
			missing := tc.unavailable
			if tc.surge == 0 && missing == 0 {
				missing = 1
			}
			w.until("the roll is done", func() bool {
				serving := int32(0)
				for _, m := range w.live() {
					if serves(&m) {
						serving++
					}
				}
				if serving < tc.replicas-missing {
					t.Fatalf("%s\nonly %d available\n%s", tc.reason, serving, w.describe())
				}
				if total := len(w.machines()); total > int(tc.replicas+tc.surge) {
					t.Fatalf("%s\n%d machines, terminating ones included\n%s", tc.reason, total, w.describe())
				}
				d := w.deployment()
				return d.Status.UpdatedReplicas == tc.replicas && d.Status.Replicas == tc.replicas && d.Status.AvailableReplicas == tc.replicas
			})
			if !w.set("v1").DeletionTimestamp.IsZero() {
				t.Errorf("without a limit old sets are kept")
			}
		})
	}
}

// TestRollCosts bounds the requests of a roll: at most two patches a node, and a
// patch a set and step.
func TestRollCosts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, deployment(20, func(d *machinev1.MachineDeployment) { d.Spec.Strategy = rollingUpdate(4, 2) }))
	w.run()
	for range 3 {
		w.pass()
	}
	w.writes = map[string]int{}
	w.pass()
	if len(w.writes) != 0 {
		t.Errorf("a complete deployment is written: %v", w.writes)
	}
	w.changeSpec(class("v2"))
	w.run()
	t.Logf("%v", w.writes)
	if n := w.writes["patch *v1.Node"]; n > 20 {
		t.Errorf("%d patches of nodes: one for each old one is enough in a quick roll", n)
	}
	if n := w.writes["patch MachineSet"] + w.writes["status MachineDeployment"] + w.writes["patch MachineDeployment"]; n > 40 {
		t.Errorf("%d writes of sets and deployment are too many: %v", n, w.writes)
	}
}

// TestMarksDuringRoll follows taint and annotations.
func TestMarksDuringRoll(t *testing.T) {
	t.Parallel()
	w := newWorld(t, deployment(3, func(d *machinev1.MachineDeployment) { d.Spec.Strategy = rollingUpdate(1, 0) }))
	w.run()
	users := w.live()[2].Name
	change(w, w.node(users), func(n *corev1.Node) {
		n.Annotations = map[string]string{machinev1.ScaleDownDisabledAnnotation: "true"}
	})
	w.changeSpec(class("v2"))
	before := w.writes["patch *v1.Node"]
	w.pass()
	if n := w.writes["patch *v1.Node"] - before; n != 3 {
		t.Errorf("%d patches for three old nodes: taint and annotations go together", n)
	}
	for _, m := range w.live() {
		node := w.node(m.Name)
		_, byMCM := node.Annotations[machinev1.ScaleDownDisabledByMCMAnnotation]
		if !tainted(node) || node.Annotations[machinev1.ScaleDownDisabledAnnotation] != "true" || byMCM != (m.Name != users) {
			t.Errorf("old node %s has %v %v", node.Name, node.Spec.Taints, node.Annotations)
		}
	}
	if w.set("v1").Annotations[machinev1.PreferNoScheduleKey] != "True" {
		t.Errorf("MCM knows a tainted set by its annotation: %v", w.set("v1").Annotations)
	}
	seenOnNew := false
	w.until("the roll is done", func() bool {
		w.clock.SetTime(w.clock.Now().Add(lonely))
		for _, m := range w.live() {
			if node := w.node(m.Name); node != nil && m.Spec.Class.Name == "v2" {
				seenOnNew = seenOnNew || node.Annotations[machinev1.ScaleDownDisabledAnnotation] == "true"
				if tainted(node) {
					t.Fatalf("new node %s is tainted", node.Name)
				}
			}
		}
		d := w.deployment()
		return d.Status.UpdatedReplicas == 3 && d.Status.Replicas == 3 && d.Status.AvailableReplicas == 3
	})
	if !seenOnNew {
		t.Errorf("new nodes must be kept while the roll goes on")
	}
	for _, m := range w.live() {
		if node := w.node(m.Name); len(node.Annotations) != 0 || len(node.Spec.Taints) != 0 {
			t.Errorf("after the roll node %s has %v %v", node.Name, node.Spec.Taints, node.Annotations)
		}
	}
}

func tainted(node *corev1.Node) bool {
	for _, x := range node.Spec.Taints {
		if x.Key == machinev1.PreferNoScheduleKey && x.Effect == corev1.TaintEffectPreferNoSchedule {
			return true
		}
	}
	return false
}

// TestBack takes a change of the template back in the middle of its roll.
func TestBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, deployment(4))
	w.run()
	users := w.live()[3].Name
	change(w, w.node(users), func(n *corev1.Node) {
		n.Annotations = map[string]string{machinev1.ScaleDownDisabledAnnotation: "true"}
		n.Spec.Taints = []corev1.Taint{{Key: "mine", Effect: corev1.TaintEffectNoSchedule}}
	})
	w.changeSpec(class("v2"))
	w.pass()
	w.changeSpec(class("v1"))
	w.run()
	node := w.node(users)
	if diff := cmp.Diff([]corev1.Taint{{Key: "mine", Effect: corev1.TaintEffectNoSchedule}}, node.Spec.Taints); diff != "" {
		t.Errorf("the user's taint stays, ours goes\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{machinev1.ScaleDownDisabledAnnotation: "true"}, node.Annotations); diff != "" {
		t.Errorf("the user's annotation stays\n%s", diff)
	}
	set := w.set("v1")
	if _, marked := set.Annotations[machinev1.PreferNoScheduleKey]; marked {
		t.Errorf("the set is marked as tainted still: %v", set.Annotations)
	}
	if r, h := set.Annotations[machinev1.RevisionAnnotation], set.Annotations[machinev1.RevisionHistoryAnnotation]; r != "3" || h != "1" {
		t.Errorf("revision %s, history %q; want 3 and 1", r, h)
	}
	if w.deployment().Annotations[machinev1.RevisionAnnotation] != "3" {
		t.Errorf("the deployment's revision is %v", w.deployment().Annotations)
	}
}

func TestRecreate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, deployment(3, func(d *machinev1.MachineDeployment) {
		d.Spec.Strategy = machinev1.MachineDeploymentStrategy{Type: machinev1.RecreateStrategyType}
	}))
	w.run()
	for _, next := range []string{"v2", "v1"} { // to a new set, and back to an old one
		w.changeSpec(class(next))
		w.until("all are "+next, func() bool {
			seen := map[string]bool{}
			for _, m := range w.machines() {
				seen[m.Spec.Class.Name] = true
			}
			if len(seen) > 1 {
				t.Fatalf("old and new machines exist together\n%s", w.describe())
			}
			d := w.deployment()
			return seen[next] && d.Status.AvailableReplicas == 3 && d.Status.UpdatedReplicas == 3 && d.Status.Replicas == 3
		})
	}
}

// TestScaleInProgress changes the replicas in the middle of a roll.
func TestScaleInProgress(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reason string
		to     int32
	}{
		"Out":    {"The new set makes what is missing.", 9},
		"In":     {"Both sets give in proportion.", 3},
		"ToZero": {"Nothing is left.", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, deployment(6))
			w.run()
			w.changeSpec(class("v2"))
			steps := 0
			w.until("half of it", func() bool { steps++; return w.set("v2").Status.AvailableReplicas >= 2 })
			w.changeSpec(func(d *machinev1.MachineDeployment) { d.Spec.Replicas = tc.to })
			w.run()
			if n := w.set("v2").Spec.Replicas; n != tc.to || w.set("v1").Spec.Replicas != 0 {
				t.Errorf("%s\n%s", tc.reason, w.describe())
			}
		})
	}
}

// TestRollAtRandom lets everybody work in any order, so that sets report late
// and are scaled before they have done what they were asked before.
func TestRollAtRandom(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(fmt.Sprintf("Seed%d", seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, 0))
			const replicas, unavailable = 5, 1
			w := newWorld(t, deployment(replicas, func(d *machinev1.MachineDeployment) { d.Spec.Strategy = rollingUpdate(2, unavailable) }))
			w.run()
			w.changeSpec(class("v2"))
			for step := range 300 {
				switch r.IntN(4) {
				case 0:
					w.pass()
				case 1:
					sets := w.sets()
					w.scaleSet(&sets[r.IntN(len(sets))])
				case 2:
					sets := w.sets()
					w.reportSet(&sets[r.IntN(len(sets))])
				case 3:
					machines := w.machines()
					w.playMachine(&machines[r.IntN(len(machines))])
				}
				if step == 60 {
					w.changeSpec(class([]string{"v1", "v3"}[r.IntN(2)]))
				}
				serving := 0
				for _, m := range w.live() {
					if serves(&m) {
						serving++
					}
				}
				if serving < replicas-unavailable {
					t.Fatalf("step %d: only %d available\n%s", step, serving, w.describe())
				}
			}
			w.run()
		})
	}
}
