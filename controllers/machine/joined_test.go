package machine

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/joining"
)

// TestJoinIsRecorded: beside the conditions of the node, which come and go, and once.
func TestJoinIsRecorded(t *testing.T) {
	t.Parallel()
	w := newEnv(t, interceptor.Funcs{})
	w.running("a")
	joined := joining.Recorded(w.machine("a"))
	if joined == nil || joined.Status != corev1.ConditionTrue || !joined.LastTransitionTime.Time.Equal(w.clock.Now()) {
		t.Fatalf("condition %+v, want True since now", joined)
	}
	at := joined.LastTransitionTime
	w.pass(time.Minute)
	w.setUnready("a")
	_, _ = w.reconcile("a")
	m := w.machine("a")
	if m.Status.CurrentStatus.Phase != machinev1.MachineUnknown || len(m.Status.Conditions) != 2 {
		t.Errorf("phase %q, conditions %+v, want those of the node, too", m.Status.CurrentStatus.Phase, m.Status.Conditions)
	}
	if joined = joining.Recorded(m); joined == nil || !joined.LastTransitionTime.Equal(&at) {
		t.Errorf("condition %+v, want it to stay as it was", joined)
	}
	version := m.ResourceVersion
	_, _ = w.reconcile("a")
	if m = w.machine("a"); m.ResourceVersion != version {
		t.Error("a pass in which nothing happened wrote the Machine")
	}
}

// TestJoinHasNoEvent: the status says it, and an Event would be one more request for each machine.
func TestJoinHasNoEvent(t *testing.T) {
	t.Parallel()
	w := newEnv(t, interceptor.Funcs{})
	w.running("a")
	if events := len(w.events.Events); events > 0 {
		t.Errorf("%d Events of a machine that joins: %q", events, <-w.events.Events)
	}
	w.setUnready("a")
	_, _ = w.reconcile("a")
	if w.count(eventUnhealthy) != 1 {
		t.Error("no Event says that the node is unhealthy")
	}
}

// TestFailedJoinIsRecorded: not before the Machine has failed.
func TestFailedJoinIsRecorded(t *testing.T) {
	t.Parallel()
	w := newEnv(t, interceptor.Funcs{})
	w.create(newMachine("a", w.clock.Now()))
	w.settle("a", func() bool { return w.phase("a") == machinev1.MachinePending })
	if c := joining.Recorded(w.machine("a")); c != nil {
		t.Errorf("condition %+v of a machine that has time left, want none", c)
	}
	w.pass(21 * time.Minute)
	_, _ = w.reconcile("a")
	c := joining.Recorded(w.machine("a"))
	if c == nil || c.Status != corev1.ConditionFalse || c.Reason != machinev1.ReasonFailedJoin {
		t.Errorf("condition %+v, want False because it failed to join", c)
	}
}

// TestARefusedVMIsNoFailedJoin: more time would not help a machine that the cloud refuses.
func TestARefusedVMIsNoFailedJoin(t *testing.T) {
	t.Parallel()
	w := newEnv(t, interceptor.Funcs{})
	class := &machinev1.MachineClass{}
	if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(smallClass()), class); err != nil {
		t.Fatal(err)
	}
	class.ProviderSpec.Raw = []byte(`{}`)
	if err := w.client.Update(t.Context(), class); err != nil {
		t.Fatal(err)
	}
	w.create(newMachine("a", w.clock.Now()))
	_, _ = w.reconcile("a")
	w.pass(21 * time.Minute)
	_, _ = w.reconcile("a")
	if phase, c := w.phase("a"), joining.Recorded(w.machine("a")); phase != machinev1.MachineFailed || c != nil {
		t.Errorf("phase %q, condition %+v, want Failed and none", phase, c)
	}
}

// TestNoJoinIsRecordedUnlessAsked: then the conditions are those of the node, as in MCM, from
// the next change on.
func TestNoJoinIsRecordedUnlessAsked(t *testing.T) {
	t.Parallel()
	p := &pass{machine: &machinev1.Machine{}, did: outcomes{transition: &transition{
		phase: machinev1.MachineRunning, joined: corev1.ConditionTrue,
	}}}
	p.machine.Status.Conditions = joining.Record(nil, corev1.NodeCondition{Status: corev1.ConditionFalse})
	if status := report(p, nil); len(status.Conditions) != 0 {
		t.Errorf("conditions %+v, want none", status.Conditions)
	}
	p.seen.settings.recordsJoin = true
	if status := report(p, nil); len(status.Conditions) != 1 || status.Conditions[0].Status != corev1.ConditionTrue {
		t.Errorf("conditions %+v, want that it has joined", status.Conditions)
	}
}
