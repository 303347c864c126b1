package machine

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

func TestUnhealthyNodeIsNoticedWhileItIsDrainedInPlace(t *testing.T) {
	t.Parallel()
	w := newEnv(t, refusing())
	w.running("m")
	w.create(podOn("m"))
	for _, label := range []string{machinev1.CandidateForUpdateLabel, machinev1.SelectedForUpdateLabel} {
		n := &corev1.Node{}
		if err := w.client.Get(t.Context(), client.ObjectKey{Name: "m"}, n); err != nil {
			t.Fatal(err)
		}
		machinev1.SetLabel(n, label, "true")
		if err := w.client.Update(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		_, _ = w.reconcile("m")
	}
	if _, err := w.reconcile("m"); err != nil {
		t.Fatal(err)
	}
	if said := w.condition("m", machinev1.ConditionDrained); !strings.Contains(said, "app") {
		t.Errorf("condition %q has to name the pod that holds up the update", said)
	}
	n := &corev1.Node{}
	if err := w.client.Get(t.Context(), client.ObjectKey{Name: "m"}, n); err != nil {
		t.Fatal(err)
	}
	nodeConditionOf(n, corev1.NodeReady).Status = corev1.ConditionFalse
	if err := w.client.Status().Update(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	_, _ = w.reconcile("m")
	if w.phase("m") != machinev1.MachineUnknown {
		t.Errorf("phase %q, want Unknown: the drain does not hide that the node is unhealthy", w.phase("m"))
	}
}
