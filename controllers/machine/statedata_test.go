package machine

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

func TestWhatAnOutageDidToAJoiningMachineIsData(t *testing.T) {
	t.Parallel()
	w := newEnv(t, interceptor.Funcs{})
	w.runningIn("a", "p", "sim-1a")
	w.runningIn("b", "p", "sim-1a")
	w.create(newMachine("new", w.clock.Now()))
	w.settle("new", func() bool { return w.phase("new") == machinev1.MachinePending })
	w.silence("a", "b")
	w.wait(40*time.Minute, "a", "b", "new")
	if outageObserved(w.machine("new")).IsZero() {
		t.Fatal("nothing records that an outage protected the machine")
	}
	m := w.machine("new")
	m.Status.LastOperation.LastUpdateTime = metav1.NewTime(w.clock.Now())
	m.Status.CurrentStatus.LastUpdateTime = m.CreationTimestamp
	if err := w.client.Status().Update(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	w.restart()
	w.shows("a", corev1.NodeReady, corev1.ConditionTrue)
	w.shows("b", corev1.NodeReady, corev1.ConditionTrue)
	w.wait(6*time.Minute, "a", "b", "new")
	if got := w.phase("new"); got != machinev1.MachinePending {
		t.Fatalf("phase %q: the order of the status's times must not decide", got)
	}
	w.join("new", corev1.ConditionTrue)
	w.wait(time.Minute, "new")
	if m := w.machine("new"); m.Status.CurrentStatus.Phase != machinev1.MachineRunning ||
		m.Annotations[machinev1.OutageObservedAnnotation] != "" {
		t.Errorf("phase %q, annotations %v: a machine that has joined needs no record", m.Status.CurrentStatus.Phase,
			m.Annotations)
	}
}
