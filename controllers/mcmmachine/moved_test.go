package mcmmachine

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
)

// moved makes a VM as another API did, with a loose disk of its own, and the
// copy of its machine: the providerID is preset, and so is the owner id.
func (w *env) moved(ownerID, form string, change func(*infrav1.MCMMachine)) sim.Resource {
	w.Helper()
	tags := map[string]string{"kubernetes.io/cluster/test": "1", "kubernetes.io/role/node": "1", sim.NameTag: "m"}
	if ownerID != "" {
		tags[machinev1.OwnerIDAnnotation] = ownerID
	}
	vm, err := w.cloud.CreateVM(demo, "sim-1", sim.VMInput{
		ClientToken: "vm", Zone: "sim-1c", InstanceType: "small",
		Image: "linux-1", Tags: tags,
	})
	if err != nil {
		w.Fatal(err)
	}
	if ownerID != "" {
		if _, err := w.cloud.CreateDisk(demo, "sim-1", sim.DiskInput{
			ClientToken: "disk", SizeGiB: 1,
			Tags: tags,
		}); err != nil {
			w.Fatal(err)
		}
	}
	objects := w.newMachine("m")
	object := objects[0].(*infrav1.MCMMachine)
	object.Spec.ProviderID = sim.ProviderID(form, vm.ID)
	object.Annotations = map[string]string{machinev1.OwnerIDAnnotation: "o-1"}
	change(object)
	w.create(objects...)
	return vm
}

// forms are the places in a providerID of MCM's form and of the Node's.
var forms = map[string]string{"MCMForm": "sim-1", "NodeForm": "sim-1c"}

// TestMovedVMIsRemovedWhole: a VM that MCM made, or the native API, goes with the
// MCMMachine that took it over, and with all that was made with it.
func TestMovedVMIsRemovedWhole(t *testing.T) {
	t.Parallel()
	for name, ownerID := range map[string]string{"OfMCM": "", "OfNativeAPI": "o-1"} {
		for form, place := range forms {
			t.Run(name+form, func(t *testing.T) {
				t.Parallel()
				w := newEnv(t)
				w.moved(ownerID, place, func(*infrav1.MCMMachine) {})
				creates := w.cloud.Calls(sim.OpCreateVM)
				w.settle("m", w.isProvisioned("m"))
				if w.get("m").Annotations[machinev1.OwnerIDAnnotation] != "o-1" {
					t.Errorf("annotations %v: the owner id has to stay", w.get("m").Annotations)
				}
				w.delete(w.get("m"))
				w.settle("m", w.gone())
				if left := w.cloud.Live(); len(left) > 0 || w.cloud.Calls(sim.OpCreateVM) != creates {
					t.Errorf("left behind: %+v", left)
				}
			})
		}
	}
}

// TestPausedCopy: a copy of a machine that lives on the other API is paused. It
// says so and does nothing, whatever happens to it.
func TestPausedCopy(t *testing.T) {
	t.Parallel()
	paused := map[string]func(*infrav1.MCMMachine){
		"ByItself":  func(o *infrav1.MCMMachine) { o.Annotations[clusterv1.PausedAnnotation] = "" },
		"ByCluster": func(*infrav1.MCMMachine) {},
	}
	happens := map[string]struct {
		reason string
		do     func(*env)
	}{
		"Nothing": {"It is left as it is.", func(*env) {}},
		"Deleted": {"Its deletion waits.", func(w *env) { w.delete(w.get("m")) }},
		"VMGone": {"A VM that is gone is not made again.", func(w *env) {
			w.cloud.Terminate(w.cloud.VMs()[0].ID, "Test")
		}},
		"NoID": {"One without providerID gets no VM.", func(w *env) {
			change(w, w.get("m"), func(o *infrav1.MCMMachine) { o.Spec.ProviderID = "" })
		}},
		"NoFinalize": {"Not even a finalizer is put on it.", func(*env) {}},
	}
	for name, pause := range paused {
		for event, tc := range happens {
			t.Run(name+event, func(t *testing.T) {
				t.Parallel()
				w := newEnv(t)
				if name == "ByCluster" {
					change(w, cluster(), func(c *clusterv1.Cluster) { c.Spec.Paused = new(true) })
				}
				w.moved("o-1", "sim-1c", func(o *infrav1.MCMMachine) {
					pause(o)
					if event != "NoFinalize" {
						o.Finalizers = []string{machinev1.MCMMachineFinalizer}
					}
				})
				w.run("m")
				tc.do(w)
				calls, writes := len(w.cloud.Ledger()), w.writes
				for range 3 {
					if wait := w.run("m"); wait != 0 {
						t.Errorf("%s it waits %s", tc.reason, wait)
					}
					w.pass(time.Hour)
				}
				m := w.get("m")
				if m == nil || len(m.Status.Conditions) != 1 || m.Status.Conditions[0].Type != clusterv1.PausedCondition ||
					m.Status.Conditions[0].Status != metav1.ConditionTrue {
					t.Fatalf("%s got %+v, want that it says Paused and nothing else", tc.reason, m)
				}
				if len(m.Finalizers) > 0 == (event == "NoFinalize") || len(w.cloud.Ledger()) != calls || w.writes != writes {
					t.Errorf("%s finalizers %v, %d resources more, %d writes", tc.reason, m.Finalizers, len(w.cloud.Ledger())-calls,
						w.writes-writes)
				}
			})
		}
	}
}

// TestRetainedCopy: with preset providerID and owner id, and the annotation that
// its VM is to stay, an MCMMachine never makes a VM and never removes one, whether
// its own is there or not.
func TestRetainedCopy(t *testing.T) {
	t.Parallel()
	for _, gone := range []bool{false, true} {
		for form, place := range forms {
			t.Run(form, func(t *testing.T) {
				t.Parallel()
				w := newEnv(t)
				vm := w.moved("o-1", place, func(o *infrav1.MCMMachine) { o.Annotations[machinev1.RetainVMAnnotation] = "true" })
				creates, live := w.cloud.Calls(sim.OpCreateVM), len(w.cloud.Live())
				if gone {
					w.cloud.Terminate(vm.ID, "Test")
					w.pass(time.Hour)
					live = len(w.cloud.Live())
				}
				for range 10 {
					w.run("m")
					w.pass(time.Hour)
				}
				if provisioned(w.get("m")) == gone {
					t.Errorf("provisioned %t, gone %t", provisioned(w.get("m")), gone)
				}
				w.delete(w.get("m"))
				w.settle("m", w.gone())
				if w.cloud.Calls(sim.OpCreateVM) != creates || len(w.cloud.Live()) != live {
					t.Errorf("%d creations, left %+v; want none, and %d resources", w.cloud.Calls(sim.OpCreateVM)-creates,
						w.cloud.Live(), live)
				}
			})
		}
	}
}
