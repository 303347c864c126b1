package machine

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
	"github.com/capmcm/cluster-api-provider-mcm/internal/naming"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/harness"
)

// ofSet returns a Machine as its MachineSet creates it, whose owner id is not its UID, and creates the set.
func (w *env) ofSet() *machinev1.Machine {
	w.Helper()
	const ordinal = 4
	set := &machinev1.MachineSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: "set", UID: "set-uid",
		Annotations: map[string]string{machinev1.OrdinalsAnnotation: naming.Ordinals{Next: 6, Open: 6}.String()},
	}}
	names := naming.NewNames(set)
	m := newMachine(names.Name(ordinal), w.clock.Now())
	m.Annotations = map[string]string{machinev1.OwnerIDAnnotation: names.OwnerID(ordinal)}
	m.Finalizers = []string{machinev1.Finalizer}
	m.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: machinev1.GroupVersion.String(), Kind: machinev1.MachineSetKind, Name: set.Name, UID: set.UID,
		Controller: new(true),
	}}
	w.create(set)
	return m
}

// TestAnnotationsOfAMachineAreRemoved: MCM's own test suite does that to each Machine, and then deletes it.
func TestAnnotationsOfAMachineAreRemoved(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		strip  func(*env, *machinev1.Machine)
		gone   bool // Machine and VM go; else the Machine waits and says why
	}{
		"OfASet": {
			reason: "The set gave it an owner id, which follows from its name.",
			strip:  func(_ *env, m *machinev1.Machine) { m.Annotations = nil },
			gone:   true,
		},
		"OfNoSet": {
			reason: "The owner id is read back from the VM: the object was restored and has another UID.",
			strip:  func(_ *env, m *machinev1.Machine) { m.Annotations, m.OwnerReferences = nil, nil },
			gone:   true,
		},
		"BeforeAnUpgrade": {
			reason: "A version before this one wrote the UID in place of what was lost.",
			strip: func(_ *env, m *machinev1.Machine) {
				m.Annotations = map[string]string{machinev1.OwnerIDAnnotation: string(m.UID)}
			},
			gone: true,
		},
		"CopyOfStripped": {
			reason: "The UID of the object that this one is a copy of stood in for the id.",
			strip: func(_ *env, m *machinev1.Machine) {
				m.Annotations = map[string]string{machinev1.OwnerIDAnnotation: "6f1c2a9e-3b54-4d0a-9a57-0c8e11d2f3b4"}
			},
			gone: true,
		},
		"AnotherHasIt": {
			reason: "The VM is that of a Machine that was restored elsewhere: it is neither deleted nor said to be gone.",
			strip: func(w *env, m *machinev1.Machine) {
				other := newMachine("other", w.clock.Now())
				other.Annotations = map[string]string{machinev1.OwnerIDAnnotation: m.Annotations[machinev1.OwnerIDAnnotation]}
				w.create(other)
				m.Annotations = map[string]string{machinev1.OwnerIDAnnotation: string(m.UID)}
			},
		},
		"AnotherID": {
			reason: "An id that is on record is no lost one: somebody has written the wrong one, or another providerID.",
			strip: func(_ *env, m *machinev1.Machine) {
				m.Annotations = map[string]string{machinev1.OwnerIDAnnotation: "another"}
			},
		},
	}
	for name, tc := range cases {
		for _, alive := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				w := newEnv(t, interceptor.Funcs{})
				m := w.ofSet()
				w.create(m)
				w.settle(m.Name, func() bool { return w.phase(m.Name) == machinev1.MachinePending })
				w.join(m.Name, corev1.ConditionTrue)
				w.settle(m.Name, func() bool { return w.phase(m.Name) == machinev1.MachineRunning })
				w.restart()
				id := w.machine(m.Name).Spec.ProviderID
				harness.Edit(w.Cluster, w.machine(m.Name), func(m *machinev1.Machine) { tc.strip(w, m) })
				if alive {
					if _, err := w.reconcile(m.Name); err != nil {
						t.Fatal(err)
					}
				}
				w.delete(w.machine(m.Name))
				if !tc.gone {
					w.settle(m.Name, func() bool {
						return strings.Contains(w.condition(m.Name, machinev1.ConditionDeleted), machinev1.ReasonVMOfAnotherOwner)
					})
					if _, live := w.vms(); live != 1 {
						t.Errorf("%d VMs are left, want the other's: %s", live, tc.reason)
					}
					return
				}
				w.settle(m.Name, func() bool { return w.machine(m.Name) == nil })
				if told := strings.Join(w.Heard(), "\n"); !strings.Contains(told, "VM "+id+" and its Node deleted") {
					t.Errorf("Events: %s", told)
				}
				if left := w.cloud.Live(); len(left) > 0 {
					t.Errorf("left behind: %+v: %s", left, tc.reason)
				}
			})
		}
	}
}

// TestLostOwnerIDIsReadBackAtOnce: a copy of a Machine whose UID stands in for its owner id would take that for a real
// one. Until the cloud answers, the Machine has none, and goes on.
func TestLostOwnerIDIsReadBackAtOnce(t *testing.T) {
	t.Parallel()
	w := newEnv(t, interceptor.Funcs{})
	m := newMachine("m", w.clock.Now())
	m.Annotations = map[string]string{machinev1.OwnerIDAnnotation: "of-a-set-that-is-gone"}
	w.create(m)
	w.settle(m.Name, func() bool { return w.phase(m.Name) == machinev1.MachinePending })
	w.join(m.Name, corev1.ConditionTrue)
	w.settle(m.Name, func() bool { return w.phase(m.Name) == machinev1.MachineRunning })
	w.restart()
	undo := w.cloud.AddFault(sim.Fault{Op: "*", Mode: sim.FaultBefore, Code: sim.CodeInternalError})
	harness.Edit(w.Cluster, w.machine(m.Name), func(m *machinev1.Machine) { m.Annotations = nil })
	result, err := w.reconcile(m.Name)
	if err != nil || result.RequeueAfter <= 0 || result.RequeueAfter > lostIDRetry {
		t.Errorf("without an answer: %v, %v, want another try within %s", result, err, lostIDRetry)
	}
	if id := w.machine(m.Name).Annotations[machinev1.OwnerIDAnnotation]; id != "" {
		t.Errorf("owner id %q, want none before the cloud has answered", id)
	}
	undo()
	w.settle(m.Name, func() bool {
		return w.machine(m.Name).Annotations[machinev1.OwnerIDAnnotation] == "of-a-set-that-is-gone"
	})
}
