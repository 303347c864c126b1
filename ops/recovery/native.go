package recovery

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/objects"
)

// nativeMachine returns the Machine of a VM: as its set would have made it, with the
// identity of the VM. p is nil for a Machine without a set, node for a VM without Node.
func (r *planner) nativeMachine(vm *VM, p *pool, node *corev1.Node) *machinev1.Machine {
	m := &machinev1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: r.state.Namespace, Name: vm.Machine}}
	m.Spec.Class = machinev1.ClassSpec{
		APIGroup: machinev1.GroupVersion.Group, Kind: machinev1.MachineClassKind, Name: r.options.Class,
	}
	form := ""
	if p != nil {
		set := p.set.(*machinev1.MachineSet)
		template := set.Spec.Template.DeepCopy()
		m.Labels, m.Annotations, m.Finalizers = template.Labels, template.Annotations, template.Finalizers
		m.OwnerReferences = []metav1.OwnerReference{
			*metav1.NewControllerRef(set, machinev1.GroupVersion.WithKind(machinev1.MachineSetKind)),
		}
		m.Spec = template.Spec
		form = set.Annotations[machinev1.ProviderIDFormAnnotation]
	}
	machinev1.DropHold(m)
	controllerutil.AddFinalizer(m, machinev1.Finalizer)
	m.Annotations = objects.Merge(m.Annotations)
	for key, value := range map[string]string{
		machinev1.OwnerIDAnnotation: vm.OwnerID, machinev1.ZoneAnnotation: vm.Zone,
	} {
		machinev1.SetOrRemoveAnnotation(m, key, value)
	}
	if m.Annotations[machinev1.PriorityAnnotation] == "" {
		machinev1.SetAnnotation(m, machinev1.PriorityAnnotation, machinev1.DefaultPriority)
	}
	m.Spec.ProviderID = vm.ProviderID
	if form == machinev1.ProviderIDFormNode {
		machinev1.SetAnnotation(m, machinev1.ProviderIDFormAnnotation, form)
		if node != nil && node.Spec.ProviderID != "" {
			m.Spec.ProviderID = node.Spec.ProviderID
		}
	}
	if node != nil {
		machinev1.SetLabel(m, machinev1.NodeLabel, node.Name)
		m.Status = joined(vm.Machine, node)
	} else if vm.Node != "" {
		machinev1.SetLabel(m, machinev1.NodeLabel, vm.Node)
	}
	return m
}

// joined is the status of a Machine whose node has joined: its health is judged from here on.
func joined(name string, node *corev1.Node) machinev1.MachineStatus {
	since := node.CreationTimestamp
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			since = c.LastTransitionTime
		}
	}
	return machinev1.MachineStatus{
		Conditions: node.DeepCopy().Status.Conditions, NodeRef: &machinev1.NodeReference{Kind: "Node", Name: node.Name},
		CurrentStatus: machinev1.CurrentStatus{Phase: machinev1.MachineRunning, LastUpdateTime: since},
		LastOperation: machinev1.LastOperation{
			Description: "Machine " + name + " successfully joined the cluster", State: machinev1.MachineStateSuccessful,
			Type: machinev1.MachineOperationCreate, LastUpdateTime: since,
		},
	}
}
