package machine

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

func TestMachinesThatWaitForTheirTurnDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	w := newEnv(t, interceptor.Funcs{})
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

func TestAMachineThatNobodyReplacesHoldsNoneUp(t *testing.T) {
	t.Parallel()
	set := &machinev1.MachineSet{ObjectMeta: metav1.ObjectMeta{Name: "set", UID: "set-uid"}}
	owners := []metav1.OwnerReference{*metav1.NewControllerRef(set,
		machinev1.GroupVersion.WithKind(machinev1.MachineSetKind))}
	cases := map[string]struct {
		reason string
		owners []metav1.OwnerReference // of the machine that has failed
		want   machinev1.MachinePhase  // of the one that was lost
	}{
		"OfASet": {"The set is about to replace the failed machine: one at a time.", owners, machinev1.MachineUnknown},
		"Nobody": {
			"A failed machine that left its set stays failed, and must not keep its pool from being repaired.", nil,
			machinev1.MachineFailed,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, interceptor.Funcs{})
			for machine, of := range map[string][]metav1.OwnerReference{"failed": tc.owners, "lost": owners} {
				w.running(machine)
				m := w.machine(machine)
				m.Labels[machinev1.NameLabel], m.OwnerReferences = "pool", of
				w.update(m)
			}
			failed := w.machine("failed")
			failed.Status.CurrentStatus.Phase = machinev1.MachineFailed
			if err := w.client.Status().Update(t.Context(), failed); err != nil {
				t.Fatal(err)
			}
			w.setUnready("lost")
			_, _ = w.reconcile("lost") // is Unknown now
			w.pass(11 * time.Minute)
			_, _ = w.reconcile("lost")
			if got := w.phase("lost"); got != tc.want {
				t.Errorf("phase %q, want %q: %s", got, tc.want, tc.reason)
			}
		})
	}
}

// TestSeveralReplacementsAtATime: a set without a deployment raises the limit for its
// machines, and the one that has to wait shows how many are in its way.
func TestSeveralReplacementsAtATime(t *testing.T) {
	t.Parallel()
	w := newEnv(t, interceptor.Funcs{})
	set := &machinev1.MachineSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: "set", UID: "set-uid",
		Annotations: map[string]string{machinev1.MaxReplacementsAnnotation: "2"},
	}}
	w.create(set)
	names := []string{"a", "b", "c"}
	for _, name := range names {
		w.running(name)
		m := w.machine(name)
		m.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set,
			machinev1.GroupVersion.WithKind(machinev1.MachineSetKind))}
		w.update(m)
	}
	w.options.IgnoreOutages = true
	w.restart()
	for _, name := range names {
		w.setUnready(name)
		_, _ = w.reconcile(name)
	}
	w.pass(11 * time.Minute)
	for _, name := range names {
		_, _ = w.reconcile(name)
	}
	if a, b, c := w.phase("a"), w.phase("b"), w.phase("c"); a != machinev1.MachineFailed ||
		b != machinev1.MachineFailed || c != machinev1.MachineUnknown {
		t.Errorf("phases %q, %q and %q, want two Failed and one that waits", a, b, c)
	}
	const want = "WaitingForTurn: Machine a of the same pool is being replaced"
	if got := w.condition("c", machinev1.ConditionNodeReady); got != want {
		t.Errorf("condition %q, want %q", got, want)
	}
}
