package machine

import (
	"maps"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/hold"
)

func (w *env) edit(name string, change func(*machinev1.Machine)) {
	w.Helper()
	m := w.machine(name)
	change(m)
	if err := w.client.Update(w.Context(), m); err != nil {
		w.Fatal(err)
	}
}

// hold holds a machine and waits for the answer.
func (w *env) hold(name, value string) {
	w.Helper()
	w.edit(name, func(m *machinev1.Machine) { machinev1.SetAnnotation(m, machinev1.MigrationHoldAnnotation, value) })
	w.settle(name, func() bool { return machinev1.HoldAnswered(w.machine(name)) })
}

func (w *env) release(name string) {
	w.Helper()
	w.edit(name, func(m *machinev1.Machine) { machinev1.DropHold(m) })
}

// TestHeld does to held machines what else has consequences, and looks that
// there are none until they are released.
func TestHeld(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		before func(*env) // brings the machine "m" to where it is held; nil for Running
		during func(*env)
		after  func(*env) bool // what comes of it once it is released
	}{
		"Deleted": {
			"A deletion waits, with the finalizer in place.", nil,
			func(w *env) { w.delete(w.machine("m")) },
			func(w *env) bool { _, live := w.vms(); return w.machine("m") == nil && live == 0 },
		},
		"Unready": {
			"An unhealthy node is not held against it, however long.", nil,
			func(w *env) { w.setUnready("m"); w.pass(24 * time.Hour) },
			func(w *env) bool { return w.phase("m") == machinev1.MachineFailed },
		},
		"NoNode": {
			"Neither is a node that is gone.", nil,
			func(w *env) { w.delete(w.nodeNamed("m")); w.pass(24 * time.Hour) },
			func(w *env) bool { return w.phase("m") == machinev1.MachineFailed },
		},
		"Draining": {
			"A drain that has begun stops, and goes on afterwards.",
			func(w *env) {
				w.running("m")
				w.create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{
					Namespace: namespace, Name: "p",
					Finalizers: []string{"stays/here"},
				}, Spec: corev1.PodSpec{NodeName: "m"}})
				w.delete(w.machine("m"))
				w.settle("m", func() bool { return w.nodeNamed("m").Spec.Unschedulable })
			},
			func(w *env) {
				p := &corev1.Pod{}
				if err := w.client.Get(w.Context(), client.ObjectKey{Namespace: namespace, Name: "p"}, p); err != nil {
					w.Fatal(err)
				}
				p.Finalizers = nil
				if err := w.client.Update(w.Context(), p); err != nil {
					w.Fatal(err)
				}
			},
			func(w *env) bool { _, live := w.vms(); return w.machine("m") == nil && live == 0 },
		},
		"NoVM": {
			"A machine without VM gets none.",
			func(w *env) { w.create(newMachine("m", w.clock.Now())) },
			func(w *env) { w.pass(time.Hour) },
			func(w *env) bool { _, live := w.vms(); return live == 1 },
		},
		"Template": {
			"An update in place that is asked for does not begin.", nil,
			func(w *env) {
				n := w.nodeNamed("m")
				n.Labels = map[string]string{machinev1.CandidateForUpdateLabel: "true"}
				if err := w.client.Update(w.Context(), n); err != nil {
					w.Fatal(err)
				}
			},
			func(w *env) bool { return nodeConditionOf(w.nodeNamed("m"), machinev1.NodeInPlaceUpdate) != nil },
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, interceptor.Funcs{})
			if tc.before == nil {
				w.running("m")
			} else {
				tc.before(w)
			}
			w.hold("m", "move-1")
			made, _ := w.vms()
			tc.during(w)
			before, calls := w.machine("m"), len(w.cloud.Ledger())
			nodeBefore := &corev1.Node{}
			_ = w.client.Get(t.Context(), client.ObjectKey{Name: "m"}, nodeBefore)
			for _, restarts := range []bool{false, true} {
				if restarts {
					w.restart()
				}
				for range 5 {
					if result, err := w.reconcile("m"); err != nil || result.RequeueAfter != 0 {
						t.Fatalf("%s pass: %+v, %v; want one that waits for nothing but a change", tc.reason, result, err)
					}
					w.pass(time.Hour)
				}
			}
			nodeAfter := &corev1.Node{}
			_ = w.client.Get(t.Context(), client.ObjectKey{Name: "m"}, nodeAfter)
			if after := w.machine("m"); !equality.Semantic.DeepEqual(before, after) ||
				!equality.Semantic.DeepEqual(nodeBefore, nodeAfter) {
				t.Errorf("%s the machine is %+v, was %+v; its node %+v, was %+v", tc.reason, after, before, nodeAfter, nodeBefore)
			}
			if now, _ := w.vms(); now != made || len(w.cloud.Ledger()) != calls {
				t.Errorf("%s %d VMs made, was %d", tc.reason, now, made)
			}
			w.release("m")
			w.settle("m", func() bool { return tc.after(w) })
		})
	}
}

// TestHoldWaitsForNode: the node controller may be at work on the machine's node
// when the hold comes; it is not answered before that is over.
func TestHoldWaitsForNode(t *testing.T) {
	t.Parallel()
	w := newEnv(t, interceptor.Funcs{})
	w.running("m")
	w.controller.Visits = &hold.Visits{}
	end := w.controller.Visits.Begin("m")
	w.edit("m", func(m *machinev1.Machine) { machinev1.SetAnnotation(m, machinev1.MigrationHoldAnnotation, "x") })
	for range 3 {
		result, err := w.reconcile("m")
		if err != nil || result.RequeueAfter == 0 || machinev1.HoldAnswered(w.machine("m")) {
			t.Fatalf("%+v, %v, annotations %v; want a wait", result, err, w.machine("m").Annotations)
		}
	}
	end()
	if _, err := w.reconcile("m"); err != nil || !machinev1.HoldAnswered(w.machine("m")) {
		t.Errorf("%v, annotations %v; want an answer", err, w.machine("m").Annotations)
	}
}

// TestReleasedWithoutAnswer: somebody takes off the hold and leaves the answer. It
// goes, so that a later hold of the same value is not taken for answered.
func TestReleasedWithoutAnswer(t *testing.T) {
	t.Parallel()
	w := newEnv(t, interceptor.Funcs{})
	w.running("m")
	before := maps.Clone(w.machine("m").Annotations)
	w.hold("m", "x")
	w.edit("m", func(m *machinev1.Machine) { delete(m.Annotations, machinev1.MigrationHoldAnnotation) })
	w.settle("m", func() bool { return maps.Equal(w.machine("m").Annotations, before) })
}
