package mcmmachine

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/capi"
)

func TestMachineJoinsAndLeaves(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.create(w.newMachine("m")...)
	change(w, machine("m"), func(m *clusterv1.Machine) { m.Spec.FailureDomain = "sim-1b" })
	w.settle("m", w.isProvisioned("m"))

	m := w.get("m")
	if !strings.HasPrefix(m.Spec.ProviderID, "sim:///sim-1b/") {
		t.Errorf("providerID %q is not in the form that the Node carries", m.Spec.ProviderID)
	}
	if m.Annotations[machinev1.OwnerIDAnnotation] != "uid-m" || len(m.Finalizers) != 1 ||
		m.Status.FailureDomain != "sim-1b" || len(m.Status.Addresses) == 0 {
		t.Errorf("a provisioned machine has to be complete: %+v", m)
	}
	if _, blocked := m.Annotations[capi.BlockMoveAnnotation]; blocked || createStarted(m) {
		t.Errorf("nothing keeps a complete machine from being moved: %v", m.Annotations)
	}
	if got := w.condition("m", clusterv1.ReadyCondition); got != "True Ready: " {
		t.Errorf("Ready is %q", got)
	}
	if got := w.condition("m", clusterv1.PausedCondition); got != "False NotPaused: " {
		t.Errorf("Paused is %q", got)
	}
	for _, c := range m.Status.Conditions {
		if c.ObservedGeneration != m.Generation {
			t.Errorf("condition %s is of generation %d, want %d", c.Type, c.ObservedGeneration, m.Generation)
		}
	}
	var made sim.Resource
	for _, r := range w.cloud.Ledger() {
		if r.Kind == "vm" {
			made = r
		}
	}
	for tag, want := range map[string]string{
		machinev1.ClusterIDTag: "durable", machinev1.ClusterNameTag: "c1", machinev1.ClusterNamespaceTag: namespace,
		machinev1.OwnerIDAnnotation: "uid-m",
	} {
		if made.Tags[tag] != want {
			t.Errorf("tag %s is %q, want %q", tag, made.Tags[tag], want)
		}
	}
	w.delete(m)
	w.settle("m", w.gone())
	if _, live := w.vms(); live != 0 {
		t.Errorf("%d VMs left behind", live)
	}
}

func TestSteadyStateCostsNothing(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	names := []string{"a", "b", "c", "d"}
	for _, name := range names {
		w.running(name)
	}
	w.pass(10 * time.Minute)
	for _, name := range names {
		w.run(name)
	}
	w.writes, w.nodeWrites = 0, 0
	lists, gets := w.cloud.Calls(sim.OpList), w.cloud.Calls("*")
	for range 6 {
		w.pass(10 * time.Minute)
		for _, name := range names {
			if wait := w.run(name); wait > 10*time.Minute || wait < 9*time.Minute {
				t.Errorf("machine %s comes back after %s", name, wait)
			}
		}
	}
	if w.writes+w.nodeWrites != 0 {
		t.Errorf("%d and %d writes although nothing has changed", w.writes, w.nodeWrites)
	}
	if got, all := w.cloud.Calls(sim.OpList)-lists, w.cloud.Calls("*")-gets; got != 6 || all != 6 {
		t.Errorf("%d listings, %d calls for 4 machines in 6 periods, want one listing a period", got, all)
	}
}

func TestPausedComesBeforeAll(t *testing.T) {
	t.Parallel()
	paused := map[string]func(w *env){
		"Cluster": func(w *env) { change(w, cluster(), func(c *clusterv1.Cluster) { c.Spec.Paused = new(true) }) },
		"Object": func(w *env) {
			change(w, w.object("m"), func(o *infrav1.MCMMachine) {
				o.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
			})
		},
	}
	for name, pause := range paused {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t)
			w.create(w.newMachine("m")...)
			pause(w)
			w.run("m")
			m := w.get("m")
			if len(m.Finalizers) != 0 || len(m.Status.Conditions) != 1 || m.Status.Conditions[0].Status != metav1.ConditionTrue {
				t.Errorf("a paused machine is only told that it is: %+v", m)
			}
		})
	}
	t.Run("Deletion", func(t *testing.T) {
		t.Parallel()
		w := newEnv(t)
		w.running("m")
		change(w, cluster(), func(c *clusterv1.Cluster) { c.Spec.Paused = new(true) })
		w.delete(w.get("m"))
		for range 3 {
			w.run("m")
			w.pass(time.Minute)
		}
		if _, live := w.vms(); live != 1 || w.get("m") == nil {
			t.Error("a paused machine was deleted")
		}
	})
	t.Run("Move", func(t *testing.T) {
		t.Parallel()
		w := newEnv(t)
		w.running("m")
		change(w, w.get("m"), func(o *infrav1.MCMMachine) { o.Annotations[capi.DeleteForMoveAnnotation] = "" })
		w.delete(w.get("m"))
		w.run("m")
		if _, live := w.vms(); live != 1 || w.get("m") == nil {
			t.Error("what lives on elsewhere was deleted")
		}
	})
}

func TestLostAnswersMakeOneVM(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{sim.FaultBefore, sim.FaultAfter, sim.FaultDrop, sim.FaultLost, sim.FaultThrottle} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t)
			w.cloud.AddFault(sim.Fault{Op: sim.OpCreateVM, Mode: mode, Count: 2})
			w.create(w.newMachine("m")...)
			w.settle("m", w.isProvisioned("m"))
			if made, live := w.vms(); made != 1 || live != 1 {
				t.Errorf("%d VMs made, %d live, want one of each", made, live)
			}
		})
	}
}

func TestCrashBetweenCreateAndRecordKeepsTheVM(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.fail = func(o client.Object) error {
		if m, ok := o.(*infrav1.MCMMachine); ok && m.Spec.ProviderID != "" {
			return errors.New("the API server is gone")
		}
		return nil
	}
	w.create(w.newMachine("m")...)
	for range 3 {
		_, _ = w.reconcile("m")
		w.restart()
	}
	if m := w.get("m"); !createStarted(m) || m.Annotations[capi.BlockMoveAnnotation] == "" ||
		m.Annotations[infrav1.MadeFromAnnotation] != "small" {
		t.Errorf("the intent has to stand before the call: %v", m.Annotations)
	}
	w.fail = nil
	w.settle("m", w.isProvisioned("m"))
	if made, _ := w.vms(); made != 1 {
		t.Errorf("%d VMs made, want 1: the token has to be the same after each restart", made)
	}
}

func TestDeletionFindsAVMThatWasNeverRecorded(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.fail = func(o client.Object) error {
		if m, ok := o.(*infrav1.MCMMachine); ok && m.Spec.ProviderID != "" {
			return errors.New("the API server is gone")
		}
		return nil
	}
	w.create(w.newMachine("m")...)
	_, _ = w.reconcile("m")
	w.fail = nil
	w.restart()
	w.delete(w.get("m"))
	w.settle("m", w.gone())
	if made, live := w.vms(); made != 1 || live != 0 {
		t.Errorf("%d VMs made, %d left", made, live)
	}
}

func TestExhaustedCapacityIsSaidAtOnce(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.cloud.SetCapacity("sim-1a", "small", 0)
	w.create(w.newMachine("m")...)
	w.run("m")
	if got := w.condition("m", clusterv1.ReadyCondition); !strings.HasPrefix(got,
		"False CapacityExhausted: small in sim-1a is exhausted") {
		t.Errorf("Ready is %q, want reason, type and zone", got)
	}
}

func TestOutagesDoNotMakeMachinesUnready(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		begin, end func(w *env)
		condition  string
		want       string
	}{
		"Throttled": {
			func(w *env) { w.cloud.AddFault(sim.Fault{Op: "*", Mode: sim.FaultThrottle}) },
			func(w *env) { w.cloud.RemoveFault(0) }, infrav1.CloudReachableCondition, "False CloudThrottled",
		},
		"Failing": {
			func(w *env) { w.cloud.AddFault(sim.Fault{Op: "*", Mode: sim.FaultDrop}) },
			func(w *env) { w.cloud.RemoveFault(0) }, infrav1.CloudReachableCondition, "False CloudUnavailable",
		},
		"Refused": {
			func(w *env) { w.cloud.Change(func(s *sim.Settings) { s.Accounts[0].SecretKeys = nil }) },
			func(w *env) {
				w.cloud.Change(func(s *sim.Settings) { s.Accounts[0].SecretKeys = []string{"demo-secret"} })
			},
			infrav1.CredentialsAvailableCondition, "False CredentialsRefused",
		},
		"NoSecret": {
			func(w *env) { w.delete(smallSecret()) }, func(w *env) { w.create(smallSecret()) },
			infrav1.CredentialsAvailableCondition, "False SecretNotFound",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t)
			w.running("m")
			tc.begin(w)
			for range 8 {
				w.pass(10 * time.Minute)
				w.run("m")
				if got := w.condition("m", clusterv1.ReadyCondition); got != "True Ready: " {
					t.Fatalf("Ready is %q in an outage of the API", got)
				}
			}
			if got := w.condition("m", tc.condition); !strings.HasPrefix(got, tc.want) {
				t.Errorf("%s is %q, want %q", tc.condition, got, tc.want)
			}
			writes := w.writes
			w.pass(10 * time.Minute)
			w.run("m")
			if w.writes != writes {
				t.Error("an outage that lasts is written once")
			}
			tc.end(w)
			w.settle("m", func() bool { return strings.HasPrefix(w.condition("m", tc.condition), "True") })
		})
	}
}

func TestInPlaceChangesOfTheSpecAreIgnored(t *testing.T) {
	t.Parallel()
	w := newEnv(t, classNamed("large", ""))
	before := w.running("m")
	change(w, w.get("m"), func(o *infrav1.MCMMachine) { o.Spec.MachineClassRef.Name = "large" })
	for range 3 {
		w.run("m")
		w.pass(10 * time.Minute)
	}
	after := w.get("m")
	if diff := cmp.Diff(before.Spec.ProviderID, after.Spec.ProviderID); diff != "" || className(after) != "small" {
		t.Errorf("class %s, providerID (-was +is):\n%s", className(after), diff)
	}
	if made, live := w.vms(); made != 1 || live != 1 {
		t.Errorf("%d VMs made, %d live", made, live)
	}
}

func TestClassChangedBeforeThereIsAVM(t *testing.T) {
	t.Parallel()
	w := newEnv(t, classNamed("large", ""))
	w.cloud.AddFault(sim.Fault{Op: sim.OpCreateVM, Mode: sim.FaultLost, Count: 1})
	w.create(w.newMachine("m")...)
	_, _ = w.reconcile("m")
	change(w, w.get("m"), func(o *infrav1.MCMMachine) { o.Spec.MachineClassRef.Name = "large" })
	w.settle("m", w.isProvisioned("m"))
	if _, live := w.vms(); live != 1 || className(w.get("m")) != "large" {
		t.Errorf("%d VMs live of class %s, want one of the new class", live, className(w.get("m")))
	}
}

func TestInterruptible(t *testing.T) {
	t.Parallel()
	w := newEnv(t, classNamed("small", `"spot":true,`))
	w.create(w.newMachine("m")...)
	w.settle("m", w.isProvisioned("m"))
	if got := w.get("m").Status.Interruptible; got == nil || !*got {
		t.Error("a spot VM is interruptible")
	}
}

func TestUnownedAndFilteredObjects(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	o := w.object("m")
	o.OwnerReferences[0].Kind = "MachineSet"
	w.create(o)
	w.run("m")
	if got := w.condition("m", clusterv1.ReadyCondition); !strings.HasPrefix(got, "False WaitingForMachine") ||
		len(w.get("m").Finalizers) != 0 {
		t.Errorf("Ready is %q", got)
	}
	w.controller.Options.WatchFilter = "mine"
	w.create(w.newMachine("other")...)
	w.run("other")
	if len(w.get("other").Status.Conditions) != 0 {
		t.Error("another manager's object was touched")
	}
}

func TestLostOwnerReferenceChangesNothing(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	owner := w.running("m").OwnerReferences
	change(w, w.get("m"), func(o *infrav1.MCMMachine) { o.OwnerReferences = nil })
	w.run("m")
	if got := w.condition("m", clusterv1.ReadyCondition); got != "True Ready: " {
		t.Errorf("Ready is %q", got)
	}
	change(w, w.get("m"), func(o *infrav1.MCMMachine) { o.OwnerReferences = owner })
	writes := w.writes
	w.run("m")
	if w.writes != writes {
		t.Error("written although nothing has changed")
	}
	change(w, w.get("m"), func(o *infrav1.MCMMachine) { o.OwnerReferences = nil })
	w.delete(w.get("m"))
	w.settle("m", w.gone())
	if _, live := w.vms(); live != 0 {
		t.Error("the VM of a machine without owner was left behind")
	}
}

func TestFinalizerIsPutBack(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.running("m")
	change(w, w.get("m"), func(o *infrav1.MCMMachine) { o.Finalizers = nil })
	w.run("m")
	if len(w.get("m").Finalizers) != 1 {
		t.Error("the finalizer has to come back")
	}
}
