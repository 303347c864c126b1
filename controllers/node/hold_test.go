package node

import (
	"context"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/hold"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/harness"
)

func heldMachine(m *machinev1.Machine) {
	m.Annotations = map[string]string{machinev1.MigrationHoldAnnotation: "x"}
}

// release takes the hold off the machine.
func (w *env) release() {
	w.Helper()
	m := &machinev1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m"}}
	harness.Edit(w.Cluster, m, func(m *machinev1.Machine) { machinev1.DropHold(m) })
}

// TestHeldMachinesNode: whatever happens to the node of a held machine, nothing follows
// until the machine is released.
func TestHeldMachinesNode(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		node   *corev1.Node // nil: it is gone
		more   []client.Object
		after  func(*env) bool
	}{
		"Fresh": {
			"It gets neither template nor finalizer.", node(), nil,
			func(w *env) bool {
				return w.node().Labels["a"] == "x" && slices.Contains(w.node().Finalizers, machinev1.NodeFinalizer)
			},
		},
		"Disowned": {
			"What somebody else's manager took away comes back: the finalizer, the notes; and the mark of strangers goes.",
			node(label("a", "old"), note(machinev1.NotManagedAnnotation, "1"), note(machinev1.NodeMachineAnnotation, "other")),
			nil,
			func(w *env) bool {
				n := w.node()
				_, foreign := n.Annotations[machinev1.NotManagedAnnotation]
				return !foreign && n.Labels["a"] == "x" && slices.Contains(n.Finalizers, machinev1.NodeFinalizer) &&
					n.Annotations[machinev1.NodeMachineAnnotation] == "m" &&
					n.Annotations[machinev1.NodeNamespaceAnnotation] == "ns" &&
					n.Labels[machinev1.MachineNameLabel] == "m" && n.Annotations[templateNote] != ""
			},
		},
		"Deleted": {
			"Its deletion is not the machine's.", node(owned, deletedAt(epoch.Add(time.Hour))), nil,
			func(w *env) bool { return w.deleted("m") },
		},
		"Missing": {
			"Its absence is not the machine's end; released, the machine is judged by its health timeout.", nil, neighbour(),
			func(w *env) bool { return len(w.Heard()) == 1 && !w.deleted("m") },
		},
		"Shared": {
			"Two machines that name it are told nothing.", node(),
			[]client.Object{machine(named("m2"))},
			func(w *env) bool { return len(w.Heard()) == 2 },
		},
		"Old": {
			"However old it is, it is not disowned.", node(owned, func(n *corev1.Node) {
				n.CreationTimestamp.Time = epoch.Add(-24 * time.Hour)
			}), nil,
			func(w *env) bool { return w.node().Labels["a"] == "x" },
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects := append([]client.Object{machine(template(labels("a", "x")), joined, heldMachine)}, tc.more...)
			if tc.node != nil {
				objects = append(objects, tc.node)
			}
			w := newEnv(t, objects...)
			for range 2 {
				if r := w.reconcile(); r.RequeueAfter != 0 || len(w.writes()) > 0 {
					t.Errorf("%s %+v, writes %q", tc.reason, r, w.writes())
				}
			}
			if told := w.Heard(); w.deleted("m") || len(told) > 0 {
				t.Errorf("%s machine deleted: %t, events %q", tc.reason, w.deleted("m"), told)
			}
			w.release()
			w.reconcile()
			if !tc.after(w) {
				t.Errorf("%s Released, node and machine do not follow: %+v", tc.reason, w.writes())
			}
		})
	}
}

// TestHoldBesideDeletion: a machine that is held between the look at it and its
// deletion is not deleted.
func TestHoldBesideDeletion(t *testing.T) {
	t.Parallel()
	w := newEnv(t, machine(joined), node(owned, deletedAt(epoch.Add(time.Hour))))
	o, err := w.controller.observe(t.Context(), "n")
	if err != nil {
		t.Fatal(err)
	}
	m := o.machine().DeepCopy()
	heldMachine(m)
	w.Must(w.Raw.Update(t.Context(), m))
	if _, err := w.controller.act(t.Context(), o); err == nil || w.deleted("m") {
		t.Errorf("got %v, deleted %t; want a conflict", err, w.deleted("m"))
	}
}

// TestVisits: a pass is known while it goes on, from before it looks.
func TestVisits(t *testing.T) {
	t.Parallel()
	w := newEnv(t, machine(), node())
	visits := &hold.Visits{}
	w.controller.Visits = visits
	during := false
	w.controller.Target.Client = looking{w.controller.Target.Client, func() { during = visits.Busy("n") }}
	w.reconcile()
	if !during || visits.Busy("n") {
		t.Errorf("known during the pass %t, afterwards %t", during, visits.Busy("n"))
	}
}

// looking calls look when something is read.
type looking struct {
	client.Client
	look func()
}

func (l looking) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	l.look()
	return l.Client.Get(ctx, key, o, opts...)
}

// TestHoldMatters: that a machine is held, and that it is released, wakes its node.
func TestHoldMatters(t *testing.T) {
	t.Parallel()
	if !affectsNode(machine(), machine(heldMachine)) || !affectsNode(machine(heldMachine), machine()) {
		t.Error("the node must be looked at again")
	}
	if other := machine(heldMachine); affectsNode(other, other.DeepCopy()) || equality.Semantic.DeepEqual(other,
		machine()) {
		t.Error("nothing has changed")
	}
}
