package node

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/harness"
)

// pool returns Nodes n0, n1 … with their Machines m0, m1 …, each of a pool of its own. The
// first of them are being deleted.
func pool(size, deleting int) []client.Object {
	var all []client.Object
	for i := range size {
		name := fmt.Sprintf("n%d", i)
		all = append(all, node(owned, func(n *corev1.Node) {
			n.Name, n.UID = name, types.UID(name)
			if i < deleting {
				deletedAt(epoch.Add(time.Minute))(n)
			}
		}), machine(joined, func(m *machinev1.Machine) {
			m.Name, m.UID = fmt.Sprintf("m%d", i), types.UID(fmt.Sprintf("m%d", i))
			m.Labels[machinev1.NodeLabel] = name
		}))
	}
	return all
}

// follow reconciles n0, n1 …, and returns the Machines that are being deleted then.
func (w *env) follow(nodes int) string {
	w.Helper()
	var deleted []string
	for i := range nodes {
		if _, err := w.controller.Reconcile(w.Context(), request(fmt.Sprintf("n%d", i))); err != nil {
			w.Fatal(err)
		}
	}
	for i := range nodes {
		if name := fmt.Sprintf("m%d", i); w.deleted(name) {
			deleted = append(deleted, name)
		}
	}
	return strings.Join(deleted, " ")
}

func TestNodesDeletedTogether(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason         string
		size, deleting int
		change         func(*env)
		want           string
	}{
		"Few":  {"Three Nodes may be deleted in a small cluster.", 4, 3, nil, "m0 m1 m2"},
		"Many": {"Four of ten are more than three and a tenth.", 10, 4, nil, ""},
		"Large": {
			"A tenth of a large cluster may be deleted.", 50, 5, nil, "m0 m1 m2 m3 m4",
		},
		"Off": {
			"Without the protection each deletion is followed.", 10, 4,
			func(w *env) { w.controller.Brake.IgnoreOutages = true },
			"m0 m1 m2 m3",
		},
		"HeldForMigration": {
			"A Machine that is being migrated waits for that, and is not counted.", 10, 4,
			func(w *env) { w.annotateMachine("m3", machinev1.MigrationHoldAnnotation) },
			"m0 m1 m2",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, append(pool(tc.size, tc.deleting), virtual())...)
			if tc.change != nil {
				tc.change(w)
			}
			w.Clock.SetTime(epoch.Add(2 * time.Minute))
			if got := w.follow(tc.deleting); got != tc.want {
				t.Errorf("deleted %q, want %q: %s", got, tc.want, tc.reason)
			}
		})
	}
}

func (w *env) annotateMachine(name, key string) {
	w.Helper()
	m := &machinev1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
	harness.Edit(w.Cluster, m, func(m *machinev1.Machine) { machinev1.SetAnnotation(m, key, "x") })
}

// Deletions that come one after the other within minutes count together, those of a day do not.
func TestNodesDeletedInARow(t *testing.T) {
	t.Parallel()
	for pause, want := range map[time.Duration]int{time.Second: 3, 10 * time.Minute: 6} {
		w := newEnv(t, append(pool(10, 0), virtual())...)
		w.follow(10)
		for i := range 6 {
			w.Clock.SetTime(w.Clock.Now().Add(pause))
			var n corev1.Node
			if err := w.rest.Raw.Get(t.Context(), client.ObjectKey{Name: fmt.Sprintf("n%d", i)}, &n); err != nil {
				t.Fatal(err)
			}
			w.rest.Delete(&n)
			w.follow(i + 1)
		}
		if got := len(strings.Fields(w.follow(10))); got != want {
			t.Errorf("%d of 6 Machines deleted where Nodes go every %s, want %d", got, pause, want)
		}
	}
}

// A held deletion stays held, also for a new process, until a person approves it, or the
// limit has passed and it is the turn of the Machine.
func TestHeldDeletion(t *testing.T) {
	t.Parallel()
	w := newEnv(t, append(pool(10, 4), virtual())...)
	w.Clock.SetTime(epoch.Add(2 * time.Minute))
	w.follow(4)
	w.hear("the Machines are kept", "Warning NodeDeletionHeld")
	if got := w.controller.Brake.HeldNodes(); got != 4 {
		t.Errorf("the metric has %d, want 4", got)
	}
	for i := range 3 { // what is left would be few
		w.deleteMachine(fmt.Sprintf("m%d", i))
	}
	deps := w.controller.Deps
	deps.Brake = nil
	w.controller = New(deps)
	if got := w.follow(4); got != "m0 m1 m2" {
		t.Errorf("deleted %q, want those of the person alone", got)
	}
	r, err := w.controller.Reconcile(t.Context(), request("n3"))
	if want := epoch.Add(time.Minute + 2*time.Hour).Sub(w.Clock.Now()); err != nil || r.RequeueAfter != want {
		t.Errorf("%v, %v, want to look again after %s", r, err, want)
	}
	w.annotateNode("n3", machinev1.NodeDeletionApproved)
	if got := w.follow(4); got != "m0 m1 m2 m3" || w.controller.Brake.HeldNodes() != 0 {
		t.Errorf("deleted %q, metric %d, want the approved one deleted", got, w.controller.Brake.HeldNodes())
	}
}

func (w *env) deleteMachine(name string) {
	w.Helper()
	w.Delete(&machinev1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}})
}

func (w *env) annotateNode(name, value string) {
	w.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	harness.Edit(w.rest, n, func(n *corev1.Node) { machinev1.SetAnnotation(n, machinev1.NodeDeletionAnnotation, value) })
}

// After the limit the Machines of a pool are deleted one at a time.
func TestHeldDeletionEnds(t *testing.T) {
	t.Parallel()
	objects := pool(10, 4)
	for _, o := range objects {
		if m, ok := o.(*machinev1.Machine); ok {
			m.Labels[machinev1.NameLabel] = "pool"
			m.Status.CurrentStatus.Phase = machinev1.MachineRunning
		}
	}
	w := newEnv(t, append(objects, virtual())...)
	w.Clock.SetTime(epoch.Add(2 * time.Minute))
	w.follow(4)
	w.Clock.SetTime(epoch.Add(2*time.Hour + 2*time.Minute))
	if got := w.follow(4); got != "m0" {
		t.Errorf("deleted %q, want one", got)
	}
}

// Nodes without a finalizer are gone at once: their Machines are judged by health.
func TestNodesGoneTogether(t *testing.T) {
	t.Parallel()
	w := newEnv(t, append(pool(10, 4), node(), machine(joined), virtual())...)
	w.Clock.SetTime(epoch.Add(2 * time.Minute))
	w.reconcile()
	w.lose(observed, true)
	w.reconcile()
	if w.deleted("m") {
		t.Error("the Machine of a Node that went with many others is deleted")
	}
	w.hear("the Machine is kept", "Warning NodeMissing")
}

// Whoever removes the finalizers of held Nodes keeps their VMs, down to the last one.
func TestHeldNodesThatAreReleased(t *testing.T) {
	t.Parallel()
	w := newEnv(t, append(pool(10, 0), virtual())...)
	w.follow(10)
	for i := range 4 {
		w.deleteNode(fmt.Sprintf("n%d", i))
	}
	w.Clock.SetTime(epoch.Add(2 * time.Minute))
	w.follow(10)
	w.Clock.SetTime(epoch.Add(20 * time.Minute))
	for i := range 4 {
		w.dropFinalizers(fmt.Sprintf("n%d", i))
		if got := w.follow(4); got != "" {
			t.Fatalf("deleted %q after %d Nodes were released", got, i+1)
		}
		if got := w.controller.Brake.HeldNodes(); got != 3-i {
			t.Errorf("the metric has %d after %d of 4 Nodes were released", got, i+1)
		}
	}
}

func (w *env) deleteNode(name string) {
	w.Helper()
	w.rest.Delete(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
}

// dropFinalizers removes the finalizers of a Node that is being deleted.
func (w *env) dropFinalizers(name string) {
	w.Helper()
	for _, c := range []*harness.Cluster{w.rest, w.live} {
		n := harness.Get[corev1.Node](c, client.ObjectKey{Name: name})
		if c == w.rest {
			e := event.TypedDeleteEvent[*corev1.Node]{Object: n.DeepCopy()}
			w.controller.nodeHandler().Delete(w.Context(), e, &recorder{})
		}
		c.RemoveFinalizers(n)
		w.Must(client.IgnoreNotFound(c.Raw.Delete(w.Context(), n)))
	}
}
