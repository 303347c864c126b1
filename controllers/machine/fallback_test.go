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
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture"
)

// fallbackWorld has a set of class small that falls back to class large, and whose cloud has no
// room for class small.
func fallbackWorld(t *testing.T) *env {
	t.Helper()
	w := newEnv(t, interceptor.Funcs{})
	w.create(fixture.MachineClass("large", fixture.In[*machinev1.MachineClass](namespace),
		fixture.ProviderSpec(map[string]any{"instanceType": "large"}), func(c *machinev1.MachineClass) {
			c.Finalizers = []string{machinev1.Finalizer}
			c.SecretRef = &corev1.SecretReference{Namespace: namespace, Name: "small"}
		}))
	w.create(fixture.MachineSet("set", "small", 1, fixture.In[*machinev1.MachineSet](namespace),
		func(s *machinev1.MachineSet) {
			s.UID = "set"
			s.Annotations = map[string]string{machinev1.FallbackClassesAnnotation: "small, large"}
		}))
	w.cloud.SetCapacity("sim-1a", "small", 0)
	return w
}

// createOfSet creates Machine m of the set.
func (w *env) createOfSet() {
	w.Helper()
	m := newMachine("m", w.clock.Now())
	m.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: machinev1.GroupVersion.String(), Kind: machinev1.MachineSetKind, Name: "set", UID: "set",
		Controller: new(true),
	}}
	w.create(m)
}

func TestExhaustedMachineChangesItsClass(t *testing.T) {
	t.Parallel()
	for _, crash := range []bool{false, true} {
		w := fallbackWorld(t)
		w.createOfSet()
		_, _ = w.reconcile("m")
		m := w.machine("m")
		if m.Spec.Class.Name != "small" || m.Annotations[machinev1.NextClassAnnotation] != "large" {
			t.Fatalf("class %s, annotations %v: the next class is recorded, and nothing more", m.Spec.Class.Name, m.Annotations)
		}
		if m.Status.LastOperation.ErrorCode != "" || m.Status.Phase != "" {
			t.Errorf("an autoscaler would give the machine up: %+v", m.Status)
		}
		if crash {
			w.restart()
			w.cloud.SetCapacity("sim-1a", "small", -1)
		}
		w.settle("m", func() bool { return w.machine("m").Spec.ProviderID != "" })
		if m = w.machine("m"); m.Spec.Class.Name != "large" || m.Annotations[machinev1.NextClassAnnotation] != "" ||
			attemptOf(m) != 2 {
			t.Errorf("class %s, annotations %v", m.Spec.Class.Name, m.Annotations)
		}
		if made, live := w.vms(); made != 1 || live != 1 {
			t.Errorf("%d VMs made, %d live", made, live)
		}
		if told := strings.Join(w.Heard(), "\n"); !strings.Contains(told, machinev1.EventClassFallback) {
			t.Errorf("told %q", told)
		}
	}
}

// A VM that was made although the cloud has said that it is out of capacity goes before the Machine
// gets another class. One that has run for long is no remainder of that, as after a restore.
func TestClassChangesOnlyWithoutVM(t *testing.T) {
	t.Parallel()
	for _, old := range []bool{false, true} {
		w := fallbackWorld(t)
		w.createOfSet()
		_, _ = w.reconcile("m")
		w.edit("m", func(m *machinev1.Machine) { delete(m.Annotations, machinev1.NextClassAnnotation) })
		w.restart()
		w.cloud.SetCapacity("sim-1a", "small", -1)
		w.cloud.AddFault(sim.Fault{Op: sim.OpCreateVM, Mode: sim.FaultLost, Count: 1})
		_, _ = w.reconcile("m")
		if made, live := w.vms(); made != 1 || live != 1 {
			t.Fatalf("%d VMs made, %d live", made, live)
		}
		want := "large"
		if old {
			want = "small"
			w.pass(6 * time.Minute)
		}
		w.edit("m", func(m *machinev1.Machine) { machinev1.SetAnnotation(m, machinev1.NextClassAnnotation, "large") })
		w.settle("m", func() bool {
			if _, live := w.vms(); live > 0 && w.machine("m").Spec.Class.Name == "large" &&
				w.machine("m").Spec.ProviderID == "" {
				t.Fatal("the class changes while there is a VM of the one before")
			}
			m := w.machine("m")
			return m.Spec.ProviderID != "" && m.Annotations[machinev1.NextClassAnnotation] == ""
		})
		if _, live := w.vms(); live != 1 || w.machine("m").Spec.Class.Name != want {
			t.Errorf("%d VMs live, class %s, want %s", live, w.machine("m").Spec.Class.Name, want)
		}
		if w.controller.engine.Deleting(machinev1.OwnerID(w.machine("m"))) {
			t.Error("the removal of the first VM counts for the second one: its node would not be drained")
		}
	}
}

// A restore of the control cluster loses that a Machine has changed its class and got a VM. The
// token of its first attempt has made nothing and would make a second VM.
func TestVMOfAClassThatNoRecordNames(t *testing.T) {
	t.Parallel()
	for name, region := range map[string]string{"SamePlace": "sim-1", "AnotherPlace": "sim-2"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := fallbackWorld(t)
			w.cloud.Change(func(s *sim.Settings) {
				s.Zones = append(s.Zones, sim.Zone{Name: "sim-2a", Region: "sim-2"})
				s.Networks = append(s.Networks, sim.Network{ID: "default", Region: "sim-2", CIDR: "10.0.0.0/8"})
			})
			large := &machinev1.MachineClass{}
			w.Must(w.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "large"}, large))
			fixture.ProviderSpec(map[string]any{"instanceType": "large", "region": region, "zone": region + "a"})(large)
			w.Must(w.Client.Update(t.Context(), large))
			w.createOfSet()
			backup := w.machine("m")
			w.settle("m", func() bool { return w.machine("m").Spec.ProviderID != "" })
			providerID := w.machine("m").Spec.ProviderID
			w.edit("m", func(m *machinev1.Machine) {
				m.Spec, m.Labels = backup.Spec, backup.Labels
				delete(m.Annotations, machinev1.CreateAttemptAnnotation)
			})
			restored := w.machine("m")
			restored.Status = backup.Status
			w.Must(w.client.Status().Update(t.Context(), restored))
			tokens := &corev1.SecretList{}
			w.Must(w.client.List(t.Context(), tokens, client.InNamespace(metav1.NamespaceSystem)))
			for i := range tokens.Items {
				w.delete(&tokens.Items[i]) // as when the node has joined
			}
			w.cloud.SetCapacity("sim-1a", "small", -1)
			w.restart()
			w.pass(time.Minute)
			w.settle("m", func() bool { return w.machine("m").Spec.ProviderID != "" })
			m := w.machine("m")
			if made, _ := w.vms(); made != 1 || m.Spec.ProviderID != providerID {
				t.Errorf("%d VMs made; %s, want %s again", made, m.Spec.ProviderID, providerID)
			}
			if region != "sim-1" && m.Spec.Class.Name != "large" {
				t.Errorf("class %s does not reach the VM", m.Spec.Class.Name)
			}
		})
	}
}

// A manager that ends between the calls of a creation leaves a VM that is not complete. The next one
// finds it, where the pool has several classes, and has to complete it.
func TestFoundVMIsCompleted(t *testing.T) {
	t.Parallel()
	w := fallbackWorld(t)
	w.cloud.SetCapacity("sim-1a", "small", -1)
	w.editClass(fixture.ProviderSpec(map[string]any{"forwarding": true}))
	w.cloud.AddFault(sim.Fault{Op: sim.OpSetForwarding, Mode: sim.FaultBefore, Count: 1})
	w.createOfSet()
	_, _ = w.reconcile("m")
	w.edit("m", func(m *machinev1.Machine) { m.Spec.ProviderID = "" })
	w.restart()
	w.pass(time.Minute)
	w.settle("m", func() bool { return w.phase("m") == machinev1.MachinePending })
	for _, r := range w.cloud.Live() {
		if r.VM != nil && !r.VM.Forwarding {
			t.Error("the VM was taken for complete without its last step")
		}
	}
	if made, _ := w.vms(); made != 1 {
		t.Errorf("%d VMs made", made)
	}
}

// A Machine whose refused VM cannot be removed fails in time, so that its set replaces it.
func TestClassThatCannotChangeInTime(t *testing.T) {
	t.Parallel()
	w := fallbackWorld(t)
	w.createOfSet()
	_, _ = w.reconcile("m")
	w.cloud.AddFault(sim.Fault{Op: sim.OpList, Mode: sim.FaultBefore})
	w.pass(25 * time.Minute)
	_, _ = w.reconcile("m")
	if m := w.machine("m"); w.phase("m") != machinev1.MachineFailed || m.Spec.Class.Name != "small" {
		t.Errorf("phase %q, class %s: %+v", w.phase("m"), m.Spec.Class.Name, m.Status.LastOperation)
	}
}

// A class further down that the cloud refuses for another reason keeps no machine.
func TestRefusedFallbackClassIsSkipped(t *testing.T) {
	t.Parallel()
	w := fallbackWorld(t)
	w.create(fixture.MachineClass("broken", fixture.In[*machinev1.MachineClass](namespace),
		fixture.ProviderSpec(map[string]any{"instanceType": "nonsense"}), func(c *machinev1.MachineClass) {
			c.Finalizers = []string{machinev1.Finalizer}
			c.SecretRef = &corev1.SecretReference{Namespace: namespace, Name: "small"}
		}))
	set := &machinev1.MachineSet{}
	w.Must(w.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "set"}, set))
	set.Annotations[machinev1.FallbackClassesAnnotation] = "broken, large"
	w.Must(w.Client.Update(t.Context(), set))
	w.createOfSet()
	w.settle("m", func() bool { return w.machine("m").Spec.ProviderID != "" })
	if got := w.machine("m").Spec.Class.Name; got != "large" {
		t.Errorf("class %s", got)
	}
}

func TestAllClassesOfThePoolExhausted(t *testing.T) {
	t.Parallel()
	w := fallbackWorld(t)
	w.cloud.SetCapacity("sim-1a", "large", 0)
	w.createOfSet()
	w.settle("m", func() bool { return w.phase("m") == machinev1.MachineCrashLoopBackOff })
	m := w.machine("m")
	if op := m.Status.LastOperation; op.ErrorCode != "ResourceExhausted" ||
		!strings.HasPrefix(op.Description, "Cloud provider message - ") || strings.Contains(op.Description, "other classes") {
		t.Errorf("operation %+v: autoscalers read it as MCM writes it", op)
	}
	for _, want := range []string{"CapacityExhausted", "other classes: small: ", "tried again"} {
		if got := w.condition("m", machinev1.ConditionVMReady); !strings.Contains(got, want) {
			t.Errorf("condition %q, want %q in it", got, want)
		}
	}
}
