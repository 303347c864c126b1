package machine

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
)

// neverComplete makes the class ask for what its VMs never get.
func (w *env) neverComplete() {
	w.Helper()
	w.cloud.Change(func(s *sim.Settings) { s.BootTime = sim.Duration(1000 * time.Hour) })
	w.editClass(func(c *machinev1.MachineClass) {
		c.ProviderSpec.Raw = []byte(strings.Replace(string(c.ProviderSpec.Raw), `{`, `{"forwarding":true,`, 1))
	})
}

func TestVMThatIsNeverCompleteFailsItsMachine(t *testing.T) {
	t.Parallel()
	w := newEnv(t, interceptor.Funcs{})
	w.neverComplete()
	m := newMachine("m", w.clock.Now())
	yes := true
	m.OwnerReferences = []metav1.OwnerReference{{
		Kind: machinev1.MachineSetKind, Name: "s", UID: "uid-s",
		Controller: &yes,
	}}
	w.create(m)
	for range 3 {
		if result, err := w.reconcile("m"); err != nil || result.RequeueAfter == 0 {
			t.Fatalf("%+v, %v: nothing else wakes the machine", result, err)
		}
		w.pass(7 * time.Minute)
	}
	_, _ = w.reconcile("m")
	if w.phase("m") != machinev1.MachineFailed {
		t.Errorf("phase %q after the creation timeout, want Failed, so that the set replaces it", w.phase("m"))
	}
}

func TestHealthyNodeCountsMoreThanAFailingCloud(t *testing.T) {
	t.Parallel()
	w := newEnv(t, interceptor.Funcs{})
	w.neverComplete()
	w.create(newMachine("m", w.clock.Now()))
	_, _ = w.reconcile("m") // the VM is made and recorded, not complete
	w.join("m", corev1.ConditionTrue)
	w.editSecret(func(s *corev1.Secret) { s.Data["secretKey"] = []byte("expired-secret") })
	for range 3 { // each write wakes the machine again
		w.pass(10 * time.Minute)
		_, _ = w.reconcile("m")
	}
	m := w.machine("m")
	if op := m.Status.LastOperation; w.phase("m") != machinev1.MachineRunning ||
		op.Type != machinev1.MachineOperationCreate || op.State != machinev1.MachineStateSuccessful {
		t.Errorf("phase %q, operation %+v; want Running by a creation that ended well", w.phase("m"), op)
	}
	if said := w.condition("m", machinev1.ConditionVMReady); !strings.HasPrefix(said, machinev1.ReasonVMRunning) {
		t.Errorf("condition %q tells of a fault that is over", said)
	}
	if tokens := w.bootstrapTokens(); tokens != 0 {
		t.Errorf("%d bootstrap tokens after the node has joined, want 0", tokens)
	}
}

func TestWaitingForTheClassToBeProtectedIsSaid(t *testing.T) {
	t.Parallel()
	w := newEnv(t, interceptor.Funcs{})
	w.editClass(func(c *machinev1.MachineClass) { c.Finalizers = nil })
	w.create(newMachine("m", w.clock.Now()))
	_, _ = w.reconcile("m")
	if said := w.condition("m", machinev1.ConditionVMReady); said != "" {
		t.Errorf("condition %q: the class gets its finalizer at any moment, a word would be a write", said)
	}
	w.pass(time.Minute)
	_, _ = w.reconcile("m")
	if said := w.condition("m", machinev1.ConditionVMReady); !strings.Contains(said, `"small" has no finalizer`) {
		t.Errorf("condition %q has to say what the machine waits for", said)
	}
	w.editClass(func(c *machinev1.MachineClass) { c.Finalizers = []string{machinev1.Finalizer} })
	w.settle("m", func() bool { return w.phase("m") == machinev1.MachinePending })
}

// TestVMThatEndsBeforeItRanFailsItsMachine: the cloud accepted the VM and ended it, e.g. because of a key that it may
// not use. It never comes back, so the cause is shown at once and the set replaces the machine soon, and not only
// after the creation timeout. A fault that meets each VM makes one a minute at most.
func TestVMThatEndsBeforeItRanFailsItsMachine(t *testing.T) {
	t.Parallel()
	w := newEnv(t, interceptor.Funcs{})
	w.neverComplete()
	w.cloud.Change(func(s *sim.Settings) { s.DeleteTime = sim.Duration(time.Hour) })
	w.create(newMachine("m", w.clock.Now()))
	_, _ = w.reconcile("m")
	for _, r := range w.cloud.Ledger() {
		w.cloud.Terminate(r.ID, "KeyDisabled")
	}
	result, err := w.reconcile("m")
	op := w.machine("m").Status.LastOperation
	if err != nil || w.phase("m") != machinev1.MachineCrashLoopBackOff || op.State != machinev1.MachineStateFailed ||
		!strings.Contains(op.Description, "KeyDisabled") || result.RequeueAfter > time.Minute || result.RequeueAfter <= 0 {
		t.Errorf("at once: phase %q, operation %+v, %+v, %v; want the cause and another look", w.phase("m"), op, result, err)
	}
	w.pass(time.Minute)
	_, _ = w.reconcile("m")
	op = w.machine("m").Status.LastOperation
	if w.phase("m") != machinev1.MachineFailed || op.Type != machinev1.MachineOperationCreate ||
		!strings.Contains(op.Description, "KeyDisabled") {
		t.Errorf("after a minute: phase %q, operation %+v; want Failed, so that the set replaces it", w.phase("m"), op)
	}
}
