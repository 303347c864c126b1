package machine

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// runningIn brings up a machine of a pool whose node is in a zone.
func (w *env) runningIn(name, pool, zone string) {
	w.Helper()
	w.running(name)
	m := w.machine(name)
	m.Labels[machinev1.NameLabel] = pool
	w.update(m)
	n := w.nodeNamed(name)
	n.Labels = map[string]string{corev1.LabelTopologyZone: zone}
	if err := w.client.Update(w.Context(), n); err != nil {
		w.Fatal(err)
	}
}

func (w *env) nodeNamed(name string) *corev1.Node {
	w.Helper()
	n := &corev1.Node{}
	if err := w.client.Get(w.Context(), client.ObjectKey{Name: name}, n); err != nil {
		w.Fatal(err)
	}
	return n
}

// shows has a node show a condition, all else being well.
func (w *env) shows(name string, kind corev1.NodeConditionType, status corev1.ConditionStatus) {
	w.Helper()
	n := w.nodeNamed(name)
	at := metav1.NewTime(w.clock.Now())
	n.Status.Conditions = []corev1.NodeCondition{{Type: kind, Status: status, LastTransitionTime: at}}
	if kind != corev1.NodeReady {
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{
			Type:   corev1.NodeReady,
			Status: corev1.ConditionTrue, LastTransitionTime: at,
		})
	}
	if err := w.client.Status().Update(w.Context(), n); err != nil {
		w.Fatal(err)
	}
}

// silence has nothing be heard of nodes any more.
func (w *env) silence(names ...string) {
	w.Helper()
	for _, name := range names {
		w.shows(name, corev1.NodeReady, corev1.ConditionUnknown)
	}
}

// wait lets that much time pass, with a pass over each machine every half minute.
func (w *env) wait(d time.Duration, names ...string) {
	w.Helper()
	for end := w.clock.Now().Add(d); w.clock.Now().Before(end); w.pass(30 * time.Second) {
		for _, name := range names {
			if _, err := w.reconcile(name); err != nil {
				w.Fatal(err)
			}
		}
	}
}

func (w *env) phases(names ...string) string {
	w.Helper()
	var all []string
	for _, name := range names {
		all = append(all, string(w.phase(name)))
	}
	return strings.Join(all, " ")
}

func TestOutageIsWithstood(t *testing.T) {
	t.Parallel()
	lose := func(w *env) { w.silence("a", "b") }
	cases := map[string]struct {
		reason string
		pools  [2]string
		zones  [2]string
		lose   func(*env)
		ignore bool
		limit  time.Duration
		wait   time.Duration
		want   string
	}{
		"Zone": {
			reason: "Two of a zone are an outage, whatever their pools.", pools: [2]string{"p", "q"},
			zones: [2]string{"z", "z"}, lose: lose, wait: 90 * time.Minute, want: "Unknown Unknown",
		},
		"Pool": {
			reason: "Two of a pool are one, whatever their zones.", pools: [2]string{"p", "p"},
			zones: [2]string{"y", "z"}, lose: lose, wait: 90 * time.Minute, want: "Unknown Unknown",
		},
		"ZoneOfClass": {
			reason: "Without a label on the node the class says the zone.", pools: [2]string{"p", "q"},
			lose: lose, wait: 90 * time.Minute, want: "Unknown Unknown",
		},
		"NotReady": {
			reason: "Nodes that say themselves that they are not well are lost too.", pools: [2]string{"p", "p"},
			zones: [2]string{"y", "z"}, lose: func(w *env) {
				w.setUnready("a")
				w.setUnready("b")
			}, wait: 90 * time.Minute, want: "Unknown Unknown",
		},
		"Off": {
			reason: "It can be turned off.", pools: [2]string{"p", "q"}, zones: [2]string{"z", "z"}, lose: lose,
			ignore: true, wait: 11 * time.Minute, want: "Failed Failed",
		},
		"Apart": {
			reason: "Elsewhere is no outage here: two lone losses.", pools: [2]string{"p", "q"},
			zones: [2]string{"y", "z"}, lose: lose, wait: 11 * time.Minute, want: "Failed Failed",
		},
		"OtherSign": {
			reason: "Different faults have different causes; one at a time.", pools: [2]string{"p", "p"},
			zones: [2]string{"z", "z"}, lose: func(w *env) {
				w.silence("a")
				w.shows("b", "KernelDeadlock", corev1.ConditionTrue)
			}, wait: 11 * time.Minute, want: "Failed Unknown",
		},
		"Lone": {
			reason: "One alone is replaced as MCM does.", pools: [2]string{"p", "p"}, zones: [2]string{"z", "z"},
			lose: func(w *env) { w.silence("a") }, wait: 11 * time.Minute, want: "Failed Running",
		},
		"LimitReached": {
			reason: "No outage lasts for ever: one at a time then.", pools: [2]string{"p", "p"},
			zones: [2]string{"z", "z"}, lose: lose, limit: 30 * time.Minute, wait: 42 * time.Minute, want: "Failed Unknown",
		},
		"LimitAhead": {
			reason: "Not before.", pools: [2]string{"p", "p"}, zones: [2]string{"z", "z"}, lose: lose,
			limit: 30 * time.Minute, wait: 29 * time.Minute, want: "Unknown Unknown",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, interceptor.Funcs{})
			w.options.IgnoreOutages, w.options.OutageLimit = tc.ignore, tc.limit
			w.restart()
			for i, name := range []string{"a", "b"} {
				w.runningIn(name, tc.pools[i], tc.zones[i])
			}
			tc.lose(w)
			w.wait(tc.wait/2, "a", "b")
			w.restart() // nothing is decided from memory
			w.wait(tc.wait/2, "a", "b")
			if got := w.phases("a", "b"); got != tc.want {
				t.Errorf("phases %q, want %q: %s", got, tc.want, tc.reason)
			}
		})
	}
}

func TestOutageIsTold(t *testing.T) {
	t.Parallel()
	w := newEnv(t, interceptor.Funcs{})
	for _, name := range []string{"a", "b", "c"} {
		w.runningIn(name, "p", "z")
	}
	w.drainEvents()
	w.silence("a", "b", "c")
	w.wait(15*time.Minute, "a", "b", "c")
	if said := w.condition("b", machinev1.ConditionNodeReady); !strings.HasPrefix(said, machinev1.ReasonOutage) ||
		!strings.Contains(said, "zone z") {
		t.Errorf("condition %q has to tell of the outage", said)
	}
	if got := w.count(eventOutage + " "); got != 1 {
		t.Errorf("%d Events about the outage, want one for the pool", got)
	}
	if got := w.kept(); got != 3 {
		t.Errorf("the metric counts %v machines, want 3", got)
	}
	for _, name := range []string{"a", "b", "c"} {
		w.shows(name, corev1.NodeReady, corev1.ConditionTrue)
	}
	w.wait(time.Minute, "a", "b", "c")
	if got := w.phases("a", "b", "c"); got != "Running Running Running" {
		t.Errorf("phases %q once the nodes are back", got)
	}
	if over, kept := w.count(eventOutageOver+" "), w.kept(); over != 1 || kept != 0 {
		t.Errorf("%d Events that it is over, %v machines kept, want 1 and 0", over, kept)
	}
}

func TestRepairResumesAfterAnOutage(t *testing.T) {
	t.Parallel()
	w := newEnv(t, interceptor.Funcs{})
	w.runningIn("a", "p", "z")
	w.runningIn("b", "p", "z")
	w.silence("a", "b")
	w.wait(30*time.Minute, "a", "b")
	w.restart()
	w.shows("b", corev1.NodeReady, corev1.ConditionTrue)
	w.wait(6*time.Minute, "a", "b")
	if got := w.phases("a", "b"); got != "Unknown Running" {
		t.Fatalf("phases %q: the one that is still lost has to get most of a health timeout to come back", got)
	}
	w.wait(5*time.Minute, "a", "b")
	if got := w.phases("a", "b"); got != "Failed Running" {
		t.Errorf("phases %q: a loss that is alone now is replaced", got)
	}
}

func TestCloudKnowsOfCertainLosses(t *testing.T) {
	t.Parallel()
	w := newEnv(t, interceptor.Funcs{})
	for _, name := range []string{"a", "b", "c"} {
		w.runningIn(name, "p", "z")
	}
	w.silence("a", "b", "c")
	w.endVM("a")
	w.endVM("b")
	w.wait(9*time.Minute, "a", "b", "c")
	if got := w.phases("a", "b", "c"); got != "Unknown Unknown Unknown" {
		t.Fatalf("phases %q: a VM that is gone waits for the health timeout too, as in MCM", got)
	}
	w.wait(2*time.Minute, "a", "b", "c")
	if got := w.phases("a", "b", "c"); got != "Failed Unknown Unknown" {
		t.Fatalf("phases %q: VMs that are gone are replaced, one at a time", got)
	}
	w.wait(time.Hour, "c")
	if got := w.phase("c"); got != machinev1.MachineUnknown {
		t.Errorf("phase %q: b and c wait for their turn", got)
	}
}

func TestCertainLossesAreNoOutageForOthers(t *testing.T) {
	t.Parallel()
	w := newEnv(t, interceptor.Funcs{})
	w.runningIn("a", "p", "z")
	w.runningIn("b", "p", "z")
	w.runningIn("c", "q", "z")
	w.silence("a", "b", "c")
	w.endVM("a")
	w.endVM("b")
	w.wait(25*time.Minute, "a", "b", "c")
	if got := w.phases("a", "b", "c"); got != "Failed Unknown Failed" {
		t.Errorf("phases %q: a goes, b waits for its turn, and c is alone once the cloud has told of them", got)
	}
}

func TestNothingIsReplacedWhileItIsMadeInAnOutage(t *testing.T) {
	t.Parallel()
	w := newEnv(t, interceptor.Funcs{})
	w.runningIn("a", "p", "sim-1a")
	w.runningIn("b", "p", "sim-1a")
	w.create(newMachine("new", w.clock.Now()))
	w.settle("new", func() bool { return w.phase("new") == machinev1.MachinePending })
	w.silence("a", "b")
	w.wait(40*time.Minute, "a", "b", "new")
	if got := w.phase("new"); got != machinev1.MachinePending {
		t.Fatalf("phase %q: a node that cannot join during an outage is no fault of its machine", got)
	}
	w.shows("a", corev1.NodeReady, corev1.ConditionTrue)
	w.shows("b", corev1.NodeReady, corev1.ConditionTrue)
	w.wait(6*time.Minute, "a", "b", "new")
	if got := w.phase("new"); got != machinev1.MachinePending {
		t.Fatalf("phase %q: it may join now", got)
	}
	w.wait(5*time.Minute, "a", "b", "new")
	if got := w.phase("new"); got != machinev1.MachineFailed {
		t.Errorf("phase %q: it did not", got)
	}
}

func TestSilentNodesAreNotDrainedInAnOutage(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reason string
		edit   func(*machinev1.Machine)
		wait   time.Duration
		gone   bool
	}{
		"Waits": {"Nobody hears of evictions.", func(*machinev1.Machine) {}, time.Hour, false},
		"Forced": {"The user can force it.", func(m *machinev1.Machine) {
			m.Labels[machinev1.ForceDeletionLabel] = "True"
		}, 5 * time.Minute, true},
		"TimedOut": {"The drain timeout ends the wait.", func(*machinev1.Machine) {}, 2*time.Hour + 5*time.Minute, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, interceptor.Funcs{})
			w.options.OutageLimit = 10 * time.Hour
			w.restart()
			w.runningIn("a", "p", "z")
			w.runningIn("b", "p", "z")
			w.silence("a", "b")
			w.wait(time.Minute, "a", "b")
			m := w.machine("a")
			tc.edit(m)
			w.update(m)
			w.delete(m)
			w.wait(tc.wait, "a", "b")
			if gone := w.machine("a") == nil; gone != tc.gone {
				t.Fatalf("gone: %v, want %v: %s", gone, tc.gone, tc.reason)
			}
			if tc.gone {
				return
			}
			if n := w.nodeNamed("a"); n.Spec.Unschedulable {
				t.Error("the node was cordoned")
			}
			if said := w.condition("a", machinev1.ConditionDeleted); !strings.HasPrefix(said, machinev1.ReasonOutage) {
				t.Errorf("condition %q has to say what the deletion waits for", said)
			}
			if got := w.count(eventDeleteFailed + " "); got != 0 {
				t.Errorf("%d Events that the deletion failed", got)
			}
			w.shows("a", corev1.NodeReady, corev1.ConditionTrue)
			w.wait(5*time.Minute, "a", "b")
			if w.machine("a") != nil {
				t.Error("the deletion has to go on by itself")
			}
		})
	}
}
