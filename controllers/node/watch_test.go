package node

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

func TestNodeChanges(t *testing.T) {
	t.Parallel()
	heartbeat := func(n *corev1.Node) {
		n.ResourceVersion = "9"
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, LastHeartbeatTime: metav1.NewTime(epoch)}}
		n.Status.Images = []corev1.ContainerImage{{Names: []string{"x"}}}
	}
	cases := map[string]struct {
		reason string
		change func(*corev1.Node)
		want   bool
	}{
		"Heartbeat":  {"A kubelet reports all the time.", heartbeat, false},
		"Cordon":     {"Nothing here depends on it.", func(n *corev1.Node) { n.Spec.Unschedulable = true }, false},
		"Label":      {"The template wins.", label("a", "b"), true},
		"Annotation": {"The template wins.", note("a", "b"), true},
		"Finalizer":  {"Ours may be gone.", func(n *corev1.Node) { n.Finalizers = nil }, true},
		"Taint":      {"The template wins.", tainted(corev1.Taint{Key: "x"}), true},
		"Capacity":   {"A kubelet that restarts resets it.", holding("x.com/y", "1"), true},
		"Deletion":   {"The machine goes along.", deletedAt(epoch), true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := node(owned), node(owned)
			tc.change(b)
			if got := nodeChanges().Update(event.TypedUpdateEvent[*corev1.Node]{ObjectOld: a, ObjectNew: b}); got != tc.want {
				t.Errorf("reconciled: %v, want %v: %s", got, tc.want, tc.reason)
			}
		})
	}
}

// recorder is a queue that only remembers.
type recorder struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	added []string
}

func (r *recorder) Add(q reconcile.Request) { r.added = append(r.added, q.Name) }

func TestMachineHandler(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		change func(*machinev1.Machine)
		want   []string
	}{
		"Status":   {"The node does not depend on it.", joined, nil},
		"Provider": {"The node does not depend on it.", func(m *machinev1.Machine) { m.Spec.ProviderID = "x" }, nil},
		"Moved": {"Both nodes change hands.", func(m *machinev1.Machine) {
			m.Labels[machinev1.NodeLabel] = "n2"
		}, []string{"n", "n2"}},
		"Left":     {"The former node is nobody's.", func(m *machinev1.Machine) { m.Labels = nil }, []string{"n"}},
		"Template": {"The node gets what is new.", template(labels("a", "b")), []string{"n"}},
		"Class":    {"The capacity may differ.", func(m *machinev1.Machine) { m.Spec.Class.Name = "d" }, []string{"n"}},
		"Deletion": {"The node is left to the machine's deletion.", dying, []string{"n"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := machine(), machine()
			tc.change(b)
			q := &recorder{}
			machineHandler().Update(t.Context(), event.UpdateEvent{ObjectOld: a, ObjectNew: b}, q)
			if !slices.Equal(q.added, tc.want) {
				t.Errorf("reconciled %v, want %v: %s", q.added, tc.want, tc.reason)
			}
		})
	}
	q := &recorder{}
	machineHandler().Create(t.Context(), event.CreateEvent{Object: machine()}, q)
	machineHandler().Delete(t.Context(), event.DeleteEvent{Object: machine()}, q)
	machineHandler().Create(t.Context(), event.CreateEvent{Object: machine(func(m *machinev1.Machine) {
		m.Labels = nil
	})}, q)
	if !slices.Equal(q.added, []string{"n", "n"}) {
		t.Errorf("reconciled %v, want the node of a Machine that comes or goes", q.added)
	}
}

func TestClassChanges(t *testing.T) {
	t.Parallel()
	p := classChanges()
	same, other := virtual("x.com/a", "1"), virtual("x.com/a", "2")
	relabelled := virtual("x.com/a", "1")
	relabelled.Labels, relabelled.NodeTemplate.Region = map[string]string{"a": "b"}, "r"
	if p.Update(event.UpdateEvent{ObjectOld: same, ObjectNew: relabelled}) ||
		!p.Update(event.UpdateEvent{ObjectOld: same, ObjectNew: other}) {
		t.Error("only a change of the virtual capacity counts")
	}
	if p.Delete(event.DeleteEvent{Object: same}) {
		t.Error("a class that is gone takes no capacity away")
	}
	w := newEnv(t, same, machine(), machine(named("m2"), func(m *machinev1.Machine) { m.Labels = nil }))
	if got := w.controller.nodesOfClass(t.Context(), same); len(got) != 1 || got[0].Name != "n" {
		t.Errorf("nodesOfClass() = %v, want n", got)
	}
}
