package machine

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
)

// TestVMOfClusterAPIIsRemovedWhole: a VM that Cluster API's providers made carries the
// tags of its Cluster. Once a native Machine has it, it goes with that Machine, and
// with all that was made with it.
func TestVMOfClusterAPIIsRemovedWhole(t *testing.T) {
	t.Parallel()
	for form, place := range map[string]string{"MCMForm": "sim-1", "NodeForm": "sim-1a"} {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, interceptor.Funcs{})
			tags := map[string]string{
				"kubernetes.io/cluster/test": "1", "kubernetes.io/role/node": "1", sim.NameTag: "m",
				machinev1.OwnerIDAnnotation: "o-1",
				machinev1.ClusterIDTag:      "c-1", machinev1.ClusterNameTag: "c", machinev1.ClusterNamespaceTag: "ns",
			}
			login := sim.Login{Account: "demo", Secret: "demo-secret"}
			vm, err := w.cloud.CreateVM(login, "sim-1", sim.VMInput{
				ClientToken: "vm", Zone: "sim-1a", InstanceType: "small",
				Image: "linux-1", Tags: tags,
			})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := w.cloud.CreateDisk(login, "sim-1", sim.DiskInput{
				ClientToken: "disk", SizeGiB: 1,
				Tags: tags,
			}); err != nil {
				t.Fatal(err)
			}
			m := newMachine("m", w.clock.Now())
			m.Annotations = map[string]string{machinev1.OwnerIDAnnotation: "o-1"}
			m.Labels, m.Finalizers = map[string]string{machinev1.NodeLabel: "m"}, []string{machinev1.Finalizer}
			m.Spec.ProviderID = sim.ProviderID(place, vm.ID)
			m.Status.CurrentStatus = machinev1.CurrentStatus{
				Phase:          machinev1.MachineRunning,
				LastUpdateTime: metav1.NewTime(w.clock.Now()),
			}
			w.create(m)
			w.join("m", corev1.ConditionTrue)
			creates := w.cloud.Calls(sim.OpCreateVM)
			w.settle("m", func() bool { return w.phase("m") == machinev1.MachineRunning })
			w.delete(w.machine("m"))
			w.settle("m", func() bool { return w.machine("m") == nil })
			if left := w.cloud.Live(); len(left) > 0 || w.cloud.Calls(sim.OpCreateVM) != creates {
				t.Errorf("left behind: %+v", left)
			}
		})
	}
}
