package node

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

func TestUnmanagedNode(t *testing.T) {
	t.Parallel()
	w := newEnv(t, node(func(n *corev1.Node) { n.Finalizers = []string{"x/y", machinev1.NodeFinalizer} }))
	w.Clock.SetTime(epoch.Add(time.Minute))
	if r := w.reconcile(); len(w.writes()) > 0 || r.RequeueAfter != 19*time.Minute+time.Second {
		t.Errorf("%+v, writes %q; a young node may still get its machine", r, w.writes())
	}
	w.Clock.SetTime(epoch.Add(20*time.Minute + time.Second))
	w.reconcile()
	n := w.node()
	if n.Annotations[machinev1.NotManagedAnnotation] != "1" || !slices.Equal(n.Finalizers, []string{"x/y"}) ||
		len(w.writes()) != 1 {
		t.Errorf("node %+v after %q; want it marked and its finalizer removed", n.ObjectMeta, w.writes())
	}
	if r := w.reconcile(); len(w.writes()) > 0 || r.RequeueAfter != 0 {
		t.Errorf("%+v, writes %q; want a foreign node left alone", r, w.writes())
	}
	w.Create(machine(func(m *machinev1.Machine) { m.ResourceVersion = "" }))
	w.reconcile()
	if _, marked := w.node().Annotations[machinev1.NotManagedAnnotation]; marked {
		t.Error("a node that has got a machine is still marked")
	}
}

func TestMissingNodeTellsWhatFollows(t *testing.T) {
	t.Parallel()
	phase := func(p machinev1.MachinePhase) func(*machinev1.Machine) {
		return func(m *machinev1.Machine) { m.Status.CurrentStatus.Phase = p }
	}
	cases := map[string]struct {
		change func(*machinev1.Machine)
		want   string
	}{
		"Unknown": {phase(machinev1.MachineUnknown), "within the health timeout, or later while several nodes"},
		"Failed":  {phase(machinev1.MachineFailed), "has failed already and is replaced by its MachineSet"},
		"Preserved": {func(m *machinev1.Machine) {
			m.Status.CurrentStatus = machinev1.CurrentStatus{
				Phase: machinev1.MachineFailed, PreserveExpiryTime: new(metav1.NewTime(epoch)),
			}
		}, "when its preservation ends"},
		"Never": {func(m *machinev1.Machine) {
			m.Spec.MachineConfiguration = &machinev1.MachineConfiguration{DisableHealthTimeout: new(true)}
		}, "not replaced until somebody deletes it"},
	}
	for name, tc := range cases {
		m := &machinev1.Machine{}
		tc.change(m)
		if got := missingConsequence(m); !strings.Contains(got, tc.want) {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

// A deletion counts only if it is that of the Node that was seen as the Machine's.
func TestDeletionOfAnotherNodeOfThatName(t *testing.T) {
	t.Parallel()
	c, m := New(Deps{}), machine()
	o := &observation{name: "n", node: node(), machines: []machinev1.Machine{*m}}
	o.node.UID = "first"
	c.remember(o)
	other := node()
	other.UID = "second"
	c.rememberDeletion(other)
	if _, observed := c.observedDeletion("n", m); observed {
		t.Error("the deletion of another Node counts as that of the Machine's")
	}
	c.rememberDeletion(o.node)
	if _, observed := c.observedDeletion("n", m); !observed {
		t.Error("the deletion of the Machine's Node does not count")
	}
}

func TestNoNode(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	if r := w.reconcile(); r.RequeueAfter != 0 || len(w.writes()) > 0 {
		t.Errorf("%+v: want nothing to do for a name that nobody knows", r)
	}
	if err := New(Deps{}).SetupWithManager(nil, 1); err != nil {
		t.Errorf("SetupWithManager() without target = %v", err)
	}
}
