package recovery

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/objects"
)

// nodes are Nodes by name.
type nodes map[string]*corev1.Node

func nodesOf(list []corev1.Node) nodes {
	out := nodes{}
	for i := range list {
		out[list[i].Name] = &list[i]
	}
	return out
}

// nodeOf returns the Node of a VM, nil if there is none, or why it cannot be taken.
func (r *planner) nodeOf(vm *VM, v *VMPlan) (*corev1.Node, *problem) {
	node := r.lookUpNode(vm)
	if node == nil {
		if other := r.nodes[vm.Node]; other != nil {
			return nil, &problem{
				fmt.Sprintf("Node %s has providerID %s, which is another VM", other.Name, other.Spec.ProviderID),
				"find out which VM runs, and delete the Node of the other",
			}
		}
		v.Node = vm.Node
		v.Notes = append(v.Notes, "it has no Node: the machine is replaced if none joins within its creation timeout")
		return nil, nil
	}
	v.Node = node.Name
	if !node.DeletionTimestamp.IsZero() {
		return nil, &problem{
			"Node " + node.Name + " is being deleted, and the machine would be deleted with it",
			"remove the finalizers of the Node and restart its kubelet, or " + decideRemedy,
		}
	}
	for i := range r.state.Machines {
		if m := &r.state.Machines[i]; m.Labels[machinev1.NodeLabel] == node.Name {
			return nil, &problem{
				"Machine " + m.Name + " has the Node " + node.Name,
				"correct the label " + machinev1.NodeLabel + " of that Machine, or delete it",
			}
		}
	}
	return node, nil
}

// lookUpNode finds the Node by its providerID, or where it has none by its name.
func (r *planner) lookUpNode(vm *VM) *corev1.Node {
	for _, is := range []func(*corev1.Node) bool{
		func(n *corev1.Node) bool { return n.Spec.ProviderID != "" && n.Spec.ProviderID == vm.NodeProviderID },
		func(n *corev1.Node) bool {
			return n.Spec.ProviderID != "" && objects.SameVM(n.Spec.ProviderID, vm.ProviderID)
		},
		func(n *corev1.Node) bool {
			return n.Spec.ProviderID == "" && (n.Name == vm.Node || n.Labels[machinev1.MachineNameLabel] == vm.Machine)
		},
	} {
		for _, name := range objects.Keys(r.nodes) {
			if is(r.nodes[name]) {
				return r.nodes[name]
			}
		}
	}
	return nil
}

// templateChanges reports whether labels, annotations or taints of the Node came from a
// template that differs from the one that applies to it from now on.
func templateChanges(node *corev1.Node, template *machinev1.NodeTemplateSpec) bool {
	var last machinev1.NodeTemplateSpec
	text := node.Annotations[machinev1.LastAppliedNodeTemplateAnnotation]
	if text == "" || json.Unmarshal([]byte(text), &last) != nil {
		return false
	}
	return !equality.Semantic.DeepEqual(nonEmpty(last.Labels), nonEmpty(template.Labels)) ||
		!equality.Semantic.DeepEqual(nonEmpty(last.Annotations), nonEmpty(template.Annotations)) ||
		len(last.Spec.Taints)+len(template.Spec.Taints) > 0 &&
			!equality.Semantic.DeepEqual(last.Spec.Taints, template.Spec.Taints)
}

func nonEmpty(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}
