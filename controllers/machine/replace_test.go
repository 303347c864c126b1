package machine

import (
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

func TestMachinesThatWaitForTheirTurnDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t, interceptor.Funcs{})
	for _, name := range []string{"a", "b"} {
		w.running(name)
		m := w.machine(name)
		m.Labels[machinev1.NameLabel] = "pool"
		w.update(m)
		m.Status.CurrentStatus.Phase = machinev1.MachineInPlaceUpdateFailed
		if err := w.client.Status().Update(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		w.setUnready(name)
	}
	w.pass(11 * time.Minute)
	for _, name := range []string{"a", "b"} {
		_, _ = w.reconcile(name)
	}
	if a, b := w.phase("a"), w.phase("b"); a != machinev1.MachineFailed || b != machinev1.MachineInPlaceUpdateFailed {
		t.Errorf("phases %q and %q, want one of two failed updates to be replaced, and then the other", a, b)
	}
}
