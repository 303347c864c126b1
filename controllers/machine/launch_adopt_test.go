package machine

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
)

// makeAsMCM makes a VM for a machine as MCM does: tagged with its name, and
// with nothing of ours.
func (w *env) makeAsMCM(name string) {
	w.Helper()
	_, err := w.cloud.CreateVM(sim.Login{Account: "demo", Secret: "demo-secret"}, "sim-1", sim.VMInput{
		ClientToken: "of MCM", Zone: "sim-1a", InstanceType: "small", Image: "linux-1",
		Tags: map[string]string{sim.NameTag: name, "kubernetes.io/cluster/test": "1", "kubernetes.io/role/node": "1"},
	})
	if err != nil {
		w.Fatal(err)
	}
}

func TestMachineThatMCMBeganKeepsTheVMOfMCM(t *testing.T) {
	t.Parallel()
	w := newEnv(t, interceptor.Funcs{})
	w.makeAsMCM("m")
	m := newMachine("m", w.clock.Now())
	m.Finalizers = []string{machinev1.Finalizer} // MCM's first write, then it died between create and record
	m.Status.CurrentStatus.Phase = machinev1.MachineCrashLoopBackOff
	w.create(m)
	w.settle("m", func() bool { return w.phase("m") == machinev1.MachinePending })
	if made, live := w.vms(); made != 1 || live != 1 {
		t.Errorf("%d VMs made, %d live, want only the one that MCM made", made, live)
	}
	if said := w.condition("m", machinev1.ConditionSpecValid); said != "" {
		t.Errorf("condition %q about a mark of our own", said)
	}
}

func TestMachineThatMCMBeganWithoutVMGetsOne(t *testing.T) {
	t.Parallel()
	w := newEnv(t, interceptor.Funcs{})
	m := newMachine("m", w.clock.Now())
	m.Finalizers = []string{machinev1.Finalizer}
	w.create(m)
	w.settle("m", func() bool { return w.phase("m") == machinev1.MachinePending })
	if made, live := w.vms(); made != 1 || live != 1 {
		t.Errorf("%d VMs made, %d live, want one", made, live)
	}
}

func TestLostProviderIDIsLearntAgain(t *testing.T) {
	t.Parallel()
	w := newEnv(t, interceptor.Funcs{})
	w.running("m")
	m := w.machine("m")
	id := m.Spec.ProviderID
	m.Spec.ProviderID = "" // as its author's manifest has it
	m.Labels, m.Annotations = nil, nil
	w.update(m)
	if _, err := w.reconcile("m"); err != nil {
		t.Fatal(err)
	}
	if m = w.machine("m"); m.Spec.ProviderID != id || m.Labels[machinev1.NodeLabel] != "m" ||
		w.phase("m") != machinev1.MachineRunning {
		t.Errorf("providerID %q, labels %v, phase %q; want %q, the node, Running", m.Spec.ProviderID, m.Labels, w.phase("m"),
			id)
	}
	if made, _ := w.vms(); made != 1 {
		t.Errorf("%d VMs made, want 1", made)
	}
}

func TestMachineWhoseVMIsGoneIsJudgedThoughItLostItsProviderID(t *testing.T) {
	t.Parallel()
	w := newEnv(t, interceptor.Funcs{})
	w.running("m")
	m := w.machine("m")
	m.Spec.ProviderID = ""
	w.update(m)
	w.cloud.Terminate(w.cloud.VMs()[0].ID, "test")
	w.pass(time.Minute)
	w.setUnready("m")
	_, _ = w.reconcile("m")
	if w.phase("m") != machinev1.MachineUnknown {
		t.Errorf("phase %q, want Unknown: the node is not healthy", w.phase("m"))
	}
	if said := w.condition("m", machinev1.ConditionNodeReady); !strings.HasPrefix(said, machinev1.ReasonVMNotFound) {
		t.Errorf("condition %q has to say that the VM is not there", said)
	}
	if made, _ := w.vms(); made != 1 {
		t.Errorf("%d VMs made, want no second one under a machine that had one", made)
	}
}

// A Machine that was lost with a restore is created again, and takes over its VM and Node.
func TestNodeOfTheVMItself(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	made := cloud.VM{ProviderID: "aws:///eu-1/i-1", NodeProviderID: "aws:///eu-1a/i-1", Created: began.Add(-time.Hour)}
	for name, tc := range map[string]struct {
		providerID string // of the Node
		created    time.Time
		want       bool
	}{
		"ItsOwn":              {made.NodeProviderID, began, true},
		"ItsOwnInMCMsForm":    {made.ProviderID, began, true},
		"OfAnotherVM":         {"aws:///eu-1a/i-2", made.Created, false},
		"UnknownAndOlderVM":   {"", made.Created, true},
		"UnknownAndNewVM":     {"", began.Add(time.Second), false},
		"UnknownAndUndatedVM": {"", time.Time{}, false},
	} {
		node, m := &corev1.Node{}, &machinev1.Machine{}
		node.Spec.ProviderID, m.CreationTimestamp = tc.providerID, metav1.NewTime(began)
		vm := made
		vm.Created = tc.created
		if got := mayRunOn(node, m, vm); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}
