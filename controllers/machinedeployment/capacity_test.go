package machinedeployment

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

func machineClassOf(d *machinev1.MachineDeployment, cpu string) *machinev1.MachineClass {
	return &machinev1.MachineClass{
		ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: d.Spec.Template.Spec.Class.Name},
		NodeTemplate: &machinev1.NodeTemplate{
			Capacity: corev1.ResourceList{
				"cpu": resource.MustParse(cpu), "memory": resource.MustParse("8Gi"), "gpu": resource.MustParse("2"),
			},
			InstanceType: "large", Region: "here", Zone: "here-a", Architecture: new("arm64"),
		},
	}
}

func nodeGroup(d *machinev1.MachineDeployment) {
	machinev1.SetAnnotation(d, machinev1.NodeGroupMinSizeAnnotation, "0")
	machinev1.SetAnnotation(d, machinev1.NodeGroupMaxSizeAnnotation, "5")
	d.Spec.Template.Spec.NodeTemplateSpec.Labels = map[string]string{"pool": "a"}
	d.Spec.Template.Spec.NodeTemplateSpec.Spec.Taints = []corev1.Taint{{
		Key: "k", Value: "v",
		Effect: corev1.TaintEffectNoSchedule,
	}}
}

// capacities are the autoscaler's annotations about a node.
func capacities(d *machinev1.MachineDeployment) map[string]string {
	found := map[string]string{}
	for key, value := range d.Annotations {
		if !copiedToSets(key) && key != machinev1.OfferedCapacityAnnotation && key != machinev1.RevisionAnnotation {
			found[key] = value
		}
	}
	return found
}

func TestNodeGroupSaysWhatANodeWillBeLike(t *testing.T) {
	t.Parallel()
	d := deployment(0, nodeGroup)
	class := machineClassOf(d, "4")
	env := newEnv(t, d, class)
	env.run()
	want := map[string]string{
		machinev1.CapacityCPUAnnotation: "4", machinev1.CapacityMemoryAnnotation: "8Gi",
		machinev1.CapacityGPUTypeAnnotation: "nvidia.com/gpu", machinev1.CapacityGPUCountAnnotation: "2",
		machinev1.CapacityNodeLabelAnnotation: "kubernetes.io/arch=arm64,node.kubernetes.io/instance-type=large,pool=a," +
			"topology.kubernetes.io/region=here,topology.kubernetes.io/zone=here-a",
		machinev1.CapacityNodeTaintAnnotation: "k=v:NoSchedule",
	}
	if diff := cmp.Diff(want, capacities(env.deployment())); diff != "" {
		t.Fatalf("an autoscaler begins at zero only with this (-want +got):\n%s", diff)
	}

	change(env, env.deployment(), func(d *machinev1.MachineDeployment) {
		machinev1.SetAnnotation(d,
			machinev1.CapacityCPUAnnotation, "3")
	})
	change(env, class, func(c *machinev1.MachineClass) { c.NodeTemplate.Capacity["memory"] = resource.MustParse("16Gi") })
	env.run()
	want[machinev1.CapacityCPUAnnotation], want[machinev1.CapacityMemoryAnnotation] = "3", "16Gi"
	if diff := cmp.Diff(want, capacities(env.deployment())); diff != "" {
		t.Errorf("what a user wrote stays, the rest follows the class (-want +got):\n%s", diff)
	}

	change(env, env.deployment(), func(d *machinev1.MachineDeployment) {
		delete(d.Annotations, machinev1.NodeGroupMinSizeAnnotation)
		delete(d.Annotations, machinev1.NodeGroupMaxSizeAnnotation)
	})
	env.run()
	if diff := cmp.Diff(map[string]string{machinev1.CapacityCPUAnnotation: "3"},
		capacities(env.deployment())); diff != "" {
		t.Errorf("what was written here goes with the node group (-want +got):\n%s", diff)
	}
}

func TestNodeGroupAtZeroWithoutCapacityIsTold(t *testing.T) {
	t.Parallel()
	d := deployment(0, nodeGroup)
	class := machineClassOf(d, "4")
	class.NodeTemplate = nil
	env := newEnv(t, d, class)
	env.run()
	c := specValidCondition(&env.deployment().Status)
	if c == nil || !cmp.Equal(c.Reason, machinev1.ReasonInvalidSpec) {
		t.Errorf("condition %+v: a group that can never begin must say why", c)
	}
}

func TestProviderIDFormTravelsAndComesBack(t *testing.T) {
	t.Parallel()
	env := newEnv(t, deployment(1, func(d *machinev1.MachineDeployment) {
		machinev1.SetAnnotation(d, machinev1.ProviderIDFormAnnotation, machinev1.ProviderIDFormNode)
	}))
	env.run()
	if got := env.sets()[0].Annotations[machinev1.ProviderIDFormAnnotation]; got != machinev1.ProviderIDFormNode {
		t.Fatalf("the set carries %q: its machines would not learn the form", got)
	}
	condition := func() *metav1.Condition {
		return meta.FindStatusCondition(env.deployment().Status.Progress.Conditions, machinev1.ConditionProviderIDForm)
	}
	if c := condition(); c == nil || c.Reason != machinev1.ReasonNodeForm {
		t.Fatalf("condition %+v: going back to MCM would cost VMs, and it must say so", c)
	}

	m := env.machines()[0]
	change(env, &m, func(m *machinev1.Machine) {
		machinev1.SetAnnotation(m, machinev1.ProviderIDFormAnnotation, machinev1.ProviderIDFormNode)
	})
	change(env, env.deployment(), func(d *machinev1.MachineDeployment) {
		delete(d.Annotations, machinev1.ProviderIDFormAnnotation)
	})
	env.run()
	if got := env.sets()[0].Annotations[machinev1.ProviderIDFormAnnotation]; got != "" {
		t.Errorf("the set still carries %q", got)
	}
	if c := condition(); c == nil || c.Reason != machinev1.ReasonRestoringForm {
		t.Errorf("condition %+v: a machine still has another form", c)
	}
	m = env.machines()[0]
	change(env, &m, func(m *machinev1.Machine) { delete(m.Annotations, machinev1.ProviderIDFormAnnotation) })
	env.run()
	if c := condition(); c != nil {
		t.Errorf("condition %+v: every machine has MCM's form", c)
	}
	if len(env.HeardOf(machinev1.EventProviderIDsRestored)) != 1 {
		t.Error("nobody was told that MCM could take over")
	}
}
