package capi

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture"
)

// What a provider deletes is the VM. Core has drained the Node, or decided not
// to, and deletes it afterwards.
func TestInfraMachineDeletionNeverDrains(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	o := w.running()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"}, Spec: corev1.PodSpec{NodeName: "m"}}
	if err := w.workload.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	w.delete(o)
	w.settle(w.gone(o))
	node := &corev1.Node{}
	if err := w.workload.Get(t.Context(), client.ObjectKey{Name: "m"}, node); err != nil || node.Spec.Unschedulable ||
		len(w.evictions) != 0 {
		t.Errorf("the Node is core's (%v), unschedulable %v, and nothing is evicted: %v", err, node.Spec.Unschedulable,
			w.evictions)
	}
	if _, live := w.vms(); live != 0 {
		t.Errorf("%d VMs are left", live)
	}
}

// A bad spec never keeps an object from going.
func TestInfraMachineDeletionIsNotBlockedByTheSpec(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	o := w.running()
	change(w, theClass("small"), func(c *machinev1.MachineClass) {
		c.ProviderSpec.Raw = []byte(strings.ReplaceAll(string(c.ProviderSpec.Raw), `"image":"linux-1"`, `"image":[]`))
	})
	w.delete(bootData())
	w.delete(o)
	w.settle(w.gone(o))
}

// A providerID that is there from the start is a VM to adopt: nothing is created,
// whether that VM exists or not.
func TestInfraMachinePresetProviderIDAdopts(t *testing.T) {
	t.Parallel()
	t.Run("Exists", func(t *testing.T) {
		t.Parallel()
		w := newEnv(t)
		vm, err := w.cloud.CreateVM(sim.Login{Account: "demo", Secret: "demo-secret"}, "sim-1", sim.VMInput{
			ClientToken: "m", Zone: "sim-1c", InstanceType: "small", Image: "linux-1",
			Tags: map[string]string{"kubernetes.io/cluster/test": "1", "kubernetes.io/role/node": "1", sim.NameTag: "m"},
		})
		if err != nil {
			t.Fatal(err)
		}
		creates := w.cloud.Calls(sim.OpCreateVM)
		w.machine(func(o *infrav1.MCMMachine) { o.Spec.ProviderID = sim.ProviderID("sim-1c", vm.ID) })
		w.provision()
		if o := w.mcmMachine(); o.Status.FailureDomain != "sim-1c" || len(o.Status.Addresses) == 0 ||
			w.cloud.Calls(sim.OpCreateVM) != creates {
			t.Errorf("%d calls to create, adopted as %+v", w.cloud.Calls(sim.OpCreateVM)-creates, o.Status)
		}
	})
	t.Run("DoesNotExist", func(t *testing.T) {
		t.Parallel()
		w := newEnv(t)
		o := w.machine(func(o *infrav1.MCMMachine) { o.Spec.ProviderID = sim.ProviderID("sim-1c", "vm-00000000000000000") })
		w.settle(func() bool {
			return w.condition(o, clusterv1.ReadyCondition) == "False "+infrav1.ReasonInstanceNotFound
		})
		if w.cloud.Calls(sim.OpCreateVM) != 0 || provisioned(w.mcmMachine()) {
			t.Error("a VM was asked for")
		}
	})
}

// The boot data has tokens and passwords: it goes to the cloud and nowhere else.
func TestInfraMachineBootDataIsNowhereElse(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.cloud.AddFault(sim.Fault{Op: sim.OpCreateVM, Mode: sim.FaultBefore, Count: 1})
	w.running()
	_, sent, _ := w.cloud.Look(w.cloud.VMs()[0].ID)
	if !strings.Contains(string(sent), bootMark) {
		t.Errorf("the VM boots with %q", sent)
	}
	if text := w.yaml(w.mcmMachine()) + w.told(); strings.Contains(text, bootMark) {
		t.Errorf("boot data is in the object or its Events:\n%s", text)
	}
}

func TestInfraMachineInterruptible(t *testing.T) {
	t.Parallel()
	w := newEnv(t, theClass("spot", fixture.ProviderSpec(map[string]any{"spot": true})))
	w.machine(func(o *infrav1.MCMMachine) { o.Spec.MachineClassRef.Name = "spot" })
	w.run(classController, "spot")
	w.provision()
	if got := w.mcmMachine().Status.Interruptible; got == nil || !*got {
		t.Error("status.interruptible is not true for a spot VM: core labels the Node with it")
	}
}

// Finalizers that a user took away come back, and no whole objects are replaced:
// core writes them with server-side apply.
func TestInfraMachineKeepsItsFinalizerAndWritesPatches(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.running()
	change(w, w.mcmMachine(), func(o *infrav1.MCMMachine) { o.Finalizers = nil })
	w.run(machineController, "m")
	if !slices.Contains(w.mcmMachine().Finalizers, machinev1.MCMMachineFinalizer) {
		t.Error("the finalizer does not come back")
	}
	if len(w.whole) != 0 {
		t.Errorf("whole objects were written: %v", w.whole)
	}
	w.writes = nil
	w.pass(lookPeriod)
	w.run(machineController, "m")
	w.unchanged("an unchanged object is not written")
}

// Credentials are the class's, of the same namespace; a Secret of another one has
// to allow it, else any tenant could use those of any other.
func TestInfraMachineMultiTenancy(t *testing.T) {
	t.Parallel()
	other := theCredentials()
	other.Namespace = "other"
	foreign := theClass("foreign")
	foreign.SecretRef.Namespace = "other"
	w := newEnv(t, other, foreign)
	o := w.machine(func(o *infrav1.MCMMachine) { o.Spec.MachineClassRef.Name = "foreign" })
	w.run(classController, "foreign")
	w.run(machineController, "m")
	if got := w.condition(o, clusterv1.ReadyCondition); got != "False "+infrav1.ReasonSecretNotAllowed {
		t.Fatalf("Ready is %q", got)
	}
	change(w, other, func(s *corev1.Secret) {
		s.Annotations = map[string]string{machinev1.AllowedNamespacesAnnotation: namespace}
	})
	w.provision()
}

func TestInfraMachineWatchFilter(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.filter = "mine"
	w.restart()
	o := w.machine()
	w.run(machineController, "m")
	if o = read(w, o); len(o.Finalizers)+len(o.Status.Conditions) != 0 {
		t.Errorf("an object of another instance was touched: %+v", o)
	}
	change(w, o, func(o *infrav1.MCMMachine) { o.Labels[clusterv1.WatchLabel] = "mine" })
	w.run(machineController, "m")
	if o = read(w, o); len(o.Finalizers) == 0 {
		t.Error("an object with the label was left alone")
	}
}

// Core takes few labels to Nodes, and no annotations; what the spec asks for is
// ours to keep, and ours alone.
func TestInfraMachineNodeTemplateReachesTheNode(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.running()
	change(w, w.mcmMachine(), func(o *infrav1.MCMMachine) {
		o.Spec.NodeTemplate = infrav1.NodeTemplate{
			Labels: map[string]string{"pool": "a"}, Annotations: map[string]string{"x.example.com/y": "z"},
			Taints: []infrav1.Taint{{Key: "dedicated", Effect: "NoSchedule"}},
		}
	})
	node := &corev1.Node{}
	if err := w.workload.Get(t.Context(), client.ObjectKey{Name: "m"}, node); err != nil {
		t.Fatal(err)
	}
	node.Labels = map[string]string{"theirs": "1"}
	if err := w.workload.Update(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	w.run(machineController, "m")
	if err := w.workload.Get(t.Context(), client.ObjectKey{Name: "m"}, node); err != nil {
		t.Fatal(err)
	}
	if node.Labels["pool"] != "a" || node.Labels["theirs"] != "1" || node.Annotations["x.example.com/y"] != "z" ||
		len(node.Spec.Taints) != 1 {
		t.Errorf("the Node has labels %v, annotations %v, taints %v", node.Labels, node.Annotations, node.Spec.Taints)
	}
}

// Core leaves Nodes behind when the whole Cluster goes. In a control plane that
// lives on, they would stay for ever.
func TestInfraMachineNodeGoesWithItsCluster(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	o := w.running()
	change(w, theCluster(), func(c *clusterv1.Cluster) { c.Finalizers = []string{clusterv1.ClusterFinalizer} })
	w.delete(theCluster())
	w.delete(o)
	w.settle(w.gone(o))
	if err := w.workload.Get(t.Context(), client.ObjectKey{Name: "m"}, &corev1.Node{}); !apierrors.IsNotFound(err) {
		t.Errorf("the Node is still there: %v", err)
	}
}
