package node

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

func TestUnmanagedNode(t *testing.T) {
	t.Parallel()
	w := newEnv(t, node(func(n *corev1.Node) { n.Finalizers = []string{"x/y", machinev1.NodeFinalizer} }))
	w.clock.SetTime(epoch.Add(time.Minute))
	if r := w.reconcile(); len(w.writes) > 0 || r.RequeueAfter != 19*time.Minute+time.Second {
		t.Errorf("%+v, writes %q; a young node may still get its machine", r, w.writes)
	}
	w.clock.SetTime(epoch.Add(20*time.Minute + time.Second))
	w.reconcile()
	n := w.node()
	if n.Annotations[machinev1.NotManagedAnnotation] != "1" || !slices.Equal(n.Finalizers, []string{"x/y"}) ||
		len(w.writes) != 1 {
		t.Errorf("node %+v after %q; want it marked and let go", n.ObjectMeta, w.writes)
	}
	if r := w.reconcile(); len(w.writes) > 0 || r.RequeueAfter != 0 {
		t.Errorf("%+v, writes %q; want a foreign node left alone", r, w.writes)
	}
	if err := w.control.Create(t.Context(), machine(func(m *machinev1.Machine) { m.ResourceVersion = "" })); err != nil {
		t.Fatal(err)
	}
	w.reconcile()
	if _, marked := w.node().Annotations[machinev1.NotManagedAnnotation]; marked {
		t.Error("a node that has got a machine is still marked")
	}
}

func TestNoNode(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	if r := w.reconcile(); r.RequeueAfter != 0 || len(w.writes) > 0 {
		t.Errorf("%+v: want nothing to do for a name that nobody knows", r)
	}
	if err := New(Deps{}).SetupWithManager(nil, 1); err != nil {
		t.Errorf("SetupWithManager() without target = %v", err)
	}
}
