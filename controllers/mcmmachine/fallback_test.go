package mcmmachine

import (
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
)

// fallbackEnv has classes small, medium and foreign, the last one of another provider.
func fallbackEnv(t *testing.T) *env {
	t.Helper()
	foreign := classNamed("foreign", "")
	foreign.Provider = "other"
	w := newEnv(t, classNamed("medium", `"instanceType":"large",`), foreign)
	return w
}

// fallingBack are the objects of a machine of class small with fallback classes.
func (w *env) fallingBack(name string, classes ...string) []client.Object {
	w.Helper()
	objects := w.newMachine(name)
	for _, o := range objects {
		if m, ok := o.(*infrav1.MCMMachine); ok {
			for _, class := range classes {
				m.Spec.FallbackClassRefs = append(m.Spec.FallbackClassRefs, infrav1.MachineClassReference{Name: class})
			}
		}
	}
	return objects
}

func (w *env) typeOfA() string {
	w.Helper()
	for _, r := range w.cloud.Live() {
		if r.Kind == "vm" && strings.HasSuffix(w.get("a").Spec.ProviderID, r.ID) {
			return r.VM.InstanceType
		}
	}
	return ""
}

func TestFallbackClass(t *testing.T) {
	t.Parallel()
	w := fallbackEnv(t)
	w.cloud.SetCapacity("sim-1a", "small", 0)
	w.create(w.fallingBack("a", "foreign", "medium")...)
	w.run("a")
	if m := w.get("a"); m.Annotations[machinev1.NextClassAnnotation] != "medium" ||
		m.Annotations[infrav1.MadeFromAnnotation] != "small" {
		t.Fatalf("after a refusal, annotations are %v: the next class is recorded, and nothing more", m.Annotations)
	}
	w.settle("a", w.isProvisioned("a"))
	m := w.get("a")
	if m.Status.MachineClassName != "medium" || m.Spec.MachineClassRef.Name != "small" || w.typeOfA() != "large" {
		t.Errorf("class %q, VM of type %q", m.Status.MachineClassName, w.typeOfA())
	}
	if made, live := w.vms(); made != 1 || live != 1 {
		t.Errorf("%d VMs made, %d live", made, live)
	}
	if told := strings.Join(w.told(), "\n"); !strings.Contains(told, machinev1.EventClassFallback) {
		t.Errorf("told %q", told)
	}
	calls := w.cloud.Calls(sim.OpCreateVM)
	w.create(w.fallingBack("b", "foreign", "medium")...)
	w.settle("b", w.isProvisioned("b"))
	if got := w.get("b").Status.MachineClassName; got != "medium" {
		t.Errorf("the next machine has class %q", got)
	}
	if more := w.cloud.Calls(sim.OpCreateVM) - calls; more != 1 {
		t.Errorf("the next machine took %d calls: it need not ask in vain", more)
	}
}

// A restore of the management cluster loses that a machine has changed its class and got a VM.
func TestVMOfAClassThatNoRecordNames(t *testing.T) {
	t.Parallel()
	for name, changing := range map[string]bool{"BeforeTheRefusal": false, "BeforeTheChange": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := fallbackEnv(t)
			w.cloud.SetCapacity("sim-1a", "small", 0)
			w.create(w.fallingBack("a", "medium")...)
			w.run("a")
			backup := w.get("a")
			w.settle("a", w.isProvisioned("a"))
			w.restore(backup, changing)
			w.cloud.SetCapacity("sim-1a", "small", -1)
			w.pass(6 * time.Minute)
			w.settle("a", w.isProvisioned("a"))
			if made, live := w.vms(); made != 1 || live != 1 {
				t.Errorf("%d VMs made, %d live, want the first one again", made, live)
			}
			if m := w.get("a"); m.Annotations[machinev1.NextClassAnnotation] != "" {
				t.Errorf("annotations %v: the change of class is over", m.Annotations)
			}
		})
	}
}

// restore brings an MCMMachine back to a backup, for a manager that begins after that. Unless it is
// changing its class there, the refusal is not on record either.
func (w *env) restore(backup *infrav1.MCMMachine, changing bool) {
	w.Helper()
	m := w.get(backup.Name)
	m.Spec, m.Annotations = backup.Spec, backup.Annotations
	if !changing {
		delete(m.Annotations, machinev1.NextClassAnnotation)
	}
	w.Must(w.client.Update(w.Context(), m))
	m.Status = backup.Status
	w.Must(w.client.Status().Update(w.Context(), m))
	w.restart()
}

func TestFallbackReturnsToTheFirstClass(t *testing.T) {
	t.Parallel()
	w := fallbackEnv(t)
	w.cloud.SetCapacity("sim-1a", "small", 0)
	w.create(w.fallingBack("a", "medium")...)
	w.settle("a", w.isProvisioned("a"))
	w.cloud.SetCapacity("sim-1a", "small", -1)
	w.pass(11 * time.Minute)
	w.create(w.fallingBack("b", "medium")...)
	w.create(w.fallingBack("c", "medium")...)
	w.settle("b", w.isProvisioned("b"))
	w.settle("c", w.isProvisioned("c"))
	for name, want := range map[string]string{"a": "medium", "b": "small", "c": "small"} {
		if got := w.get(name).Status.MachineClassName; got != want {
			t.Errorf("machine %s has class %q, want %q", name, got, want)
		}
	}
}

func TestOneMachineTriesAnExhaustedClassAgain(t *testing.T) {
	t.Parallel()
	w := fallbackEnv(t)
	w.cloud.SetCapacity("sim-1a", "small", 0)
	w.create(w.fallingBack("a", "medium")...)
	w.settle("a", w.isProvisioned("a"))
	w.pass(11 * time.Minute)
	w.cloud.AddFault(sim.Fault{Op: sim.OpCreateVM, Mode: sim.FaultBefore, Count: 1})
	w.create(w.fallingBack("b", "medium")...)
	_, _ = w.reconcile("b") // its answer is lost: it is not known yet whether the class has room
	w.create(w.fallingBack("c", "medium")...)
	w.run("c")
	if b, c := className(w.get("b")), className(w.get("c")); b != "small" || c != "medium" {
		t.Errorf("b asks for %q, c for %q: one machine tries again", b, c)
	}
}

func TestRefusedFallbackClassIsSkipped(t *testing.T) {
	t.Parallel()
	w := newEnv(t, classNamed("medium", `"instanceType":"large",`), classNamed("broken", `"instanceType":"nonsense",`))
	w.cloud.SetCapacity("sim-1a", "small", 0)
	w.create(w.fallingBack("a", "broken", "medium")...)
	w.settle("a", w.isProvisioned("a"))
	if got := w.get("a").Status.MachineClassName; got != "medium" {
		t.Errorf("class %q", got)
	}
}

// A class that is gone is not replaced by another one of the list: its VM may be there.
func TestRecordedClassThatIsGone(t *testing.T) {
	t.Parallel()
	w := fallbackEnv(t)
	objects := w.fallingBack("a", "gone")
	for _, o := range objects {
		if m, ok := o.(*infrav1.MCMMachine); ok {
			machinev1.SetAnnotation(m, infrav1.MadeFromAnnotation, "gone")
			machinev1.SetAnnotation(m, machinev1.CreateAttemptAnnotation, "1")
		}
	}
	w.create(objects...)
	w.run("a")
	if made, _ := w.vms(); made != 0 {
		t.Errorf("%d VMs made of another class under the same attempt: %s", made, w.condition("a",
			infrav1.VMProvisionedCondition))
	}
}

func TestSwitchLosesNoVM(t *testing.T) {
	t.Parallel()
	w := fallbackEnv(t)
	w.cloud.SetCapacity("sim-1a", "small", 0)
	w.create(w.fallingBack("a", "medium")...)
	w.run("a")
	w.restart() // nothing is remembered, and the first class has room again
	w.cloud.SetCapacity("sim-1a", "small", -1)
	w.settle("a", w.isProvisioned("a"))
	if made, live := w.vms(); made != 1 || live != 1 || w.typeOfA() != "large" {
		t.Errorf("%d VMs made, %d live, of type %q", made, live, w.typeOfA())
	}
	if m := w.get("a"); m.Annotations[machinev1.NextClassAnnotation] != "" {
		t.Errorf("annotations %v", m.Annotations)
	}
}

func TestAllClassesExhausted(t *testing.T) {
	t.Parallel()
	w := fallbackEnv(t)
	w.cloud.SetCapacity("sim-1a", "small", 0)
	w.cloud.SetCapacity("sim-1a", "large", 0)
	w.create(w.fallingBack("a", "medium", "foreign")...)
	text := func() string { return w.condition("a", infrav1.VMProvisionedCondition) }
	w.settle("a", func() bool { return strings.Contains(text(), "other classes") })
	for _, want := range []string{
		"False CapacityExhausted: large in sim-1a is exhausted", "small: ", "tried again", "foreign: ",
	} {
		if !strings.Contains(text(), want) {
			t.Errorf("condition is %q, want %q in it", text(), want)
		}
	}
	w.cloud.SetCapacity("sim-1a", "small", -1)
	w.settle("a", w.isProvisioned("a"))
	if got := w.get("a").Status.MachineClassName; got != "small" {
		t.Errorf("class %q", got)
	}
}
