package mcmmachine

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
)

func TestChangedBootDataMakesNoSecondVM(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{sim.FaultLost, sim.FaultBefore} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t)
			w.cloud.AddFault(sim.Fault{Op: sim.OpCreateVM, Mode: mode, Count: 1})
			w.create(w.newMachine("m")...)
			_, _ = w.reconcile("m")
			change(w, bootstrapSecret("m"), func(s *corev1.Secret) { s.Data["value"] = []byte("#cloud-config\nanother: token") })
			w.restart()
			w.settle("m", w.isProvisioned("m"))
			if made, live := w.vms(); made != 1 || live != 1 {
				t.Errorf("%d VMs made, %d live", made, live)
			}
		})
	}
}

func TestVMThatHasToBeFinished(t *testing.T) {
	t.Parallel()
	w := newEnv(t, classNamed("small", `"forwarding":true,`))
	w.cloud.Change(func(s *sim.Settings) { s.BootTime = sim.Duration(60e9) })
	w.create(w.newMachine("m")...)
	w.run("m")
	if m := w.get("m"); m.Spec.ProviderID == "" || !createStarted(m) || provisioned(m) {
		t.Fatalf("a VM that is not complete is recorded, and still in work: %+v", m)
	}
	w.restart()
	w.settle("m", w.isProvisioned("m"))
	if made, _ := w.vms(); made != 1 || createStarted(w.get("m")) {
		t.Errorf("%d VMs made, in work: %v", made, createStarted(w.get("m")))
	}
	for _, r := range w.cloud.Live() {
		if r.Kind == "vm" && !r.VM.Forwarding {
			t.Error("the VM is not finished")
		}
	}
}

func TestNothingIsMadeForWhatIsBeingDeleted(t *testing.T) {
	t.Parallel()
	for _, what := range []string{"Cluster", "Machine"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			c := cluster()
			c.Finalizers = []string{"x/y"}
			w := newEnv(t, c)
			objects := w.newMachine("m")
			objects[1].SetFinalizers([]string{"x/y"})
			w.create(objects...)
			if what == "Cluster" {
				w.delete(cluster())
			} else {
				w.delete(machine("m"))
			}
			w.run("m")
			if made, _ := w.vms(); made != 0 || !strings.HasPrefix(w.condition("m", clusterv1.ReadyCondition),
				"False Deleting") {
				t.Errorf("%d VMs made, Ready is %q", made, w.condition("m", clusterv1.ReadyCondition))
			}
			w.delete(w.get("m"))
			w.run("m")
			if w.get("m") != nil {
				t.Error("no VM was ever asked for")
			}
		})
	}
}

// What was asked for is neither asked for again nor forgotten.
func TestClusterDeletedWhileAVMIsBeingMade(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{sim.FaultLost, sim.FaultAfter, sim.FaultBefore} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			c := cluster()
			c.Finalizers = []string{"x/y"}
			w := newEnv(t, c)
			w.cloud.AddFault(sim.Fault{Op: sim.OpCreateVM, Mode: mode, Count: 1})
			w.create(w.newMachine("m")...)
			_, _ = w.reconcile("m")
			made, _ := w.vms()
			w.delete(cluster())
			for range 3 {
				w.run("m")
				w.pass(time.Minute)
			}
			if now, _ := w.vms(); now != made || !strings.HasPrefix(w.condition("m", clusterv1.ReadyCondition),
				"False Deleting: Cluster or Machine is being deleted") {
				t.Errorf("%d VMs made, %d before; Ready is %q", now, made, w.condition("m", clusterv1.ReadyCondition))
			}
			w.delete(w.get("m"))
			w.settle("m", w.gone())
			if _, live := w.vms(); live != 0 {
				t.Errorf("%d VMs left behind", live)
			}
		})
	}
}

// A template hands its annotations on to all of its machines.
func TestSharedOwnerIDMakesNoVM(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	for _, name := range []string{"a", "b"} {
		objects := w.newMachine(name)
		objects[0].SetAnnotations(map[string]string{machinev1.OwnerIDAnnotation: "shared"})
		w.create(objects...)
	}
	w.run("a")
	if got := w.condition("a", clusterv1.ReadyCondition); !strings.HasPrefix(got, "False OwnerIDTaken: MCMMachine ns/b") {
		t.Errorf("Ready is %q", got)
	}
	if made, _ := w.vms(); made != 0 {
		t.Error("two machines of one id would get one VM")
	}
}

func TestAdoptedMachineKeepsItsClass(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	vm := w.foreign("m")
	objects := w.newMachine("m")
	objects[0].(*infrav1.MCMMachine).Spec.ProviderID = sim.ProviderID("sim-1c", vm.ID)
	w.create(objects...)
	w.settle("m", w.isProvisioned("m"))
	change(w, w.get("m"), func(o *infrav1.MCMMachine) { o.Spec.MachineClassRef.Name = "gone" })
	w.delete(w.get("m"))
	w.settle("m", w.gone())
	if _, live := w.vms(); live != 0 {
		t.Error("the VM was left behind")
	}
}

// TestTagsAreThoseOfTheContract: drivers encode keys that begin with the prefix of
// the driver contract, and put the id of the Cluster where they can keep no tags.
func TestTagsAreThoseOfTheContract(t *testing.T) {
	t.Parallel()
	p := &pass{}
	p.seen.cluster = &clusterv1.Cluster{}
	for key := range tags(p) {
		if !strings.HasPrefix(key, cloud.TagPrefix) {
			t.Errorf("tag %s does not begin with %s", key, cloud.TagPrefix)
		}
	}
	if machinev1.ClusterIDTag != cloud.ClusterIDTag {
		t.Errorf("the controllers' tag %s is not the drivers' %s", machinev1.ClusterIDTag, cloud.ClusterIDTag)
	}
}
