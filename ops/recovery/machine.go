package recovery

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/labels/format"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
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
		m.Status = objects.Joined(vm.Machine, node)
	} else if vm.Node != "" {
		machinev1.SetLabel(m, machinev1.NodeLabel, vm.Node)
	}
	return m
}

// bootDataSuffix is how the Secret that stands for a machine's boot data is called after
// the machine.
const bootDataSuffix = "-recovered"

// stubBootData stands for boot data that the VM used up when it booted.
const stubBootData = "#cloud-config\n# This machine had booted before its objects were recovered.\n"

// clusterOf returns the name of the Cluster of a VM; empty if it does not exist here.
func (r *planner) clusterOf(vm *VM) string {
	for i := range r.state.MCMClusters {
		infra := &r.state.MCMClusters[i]
		if infra.Annotations[machinev1.OwnerIDAnnotation] != vm.ClusterID || vm.ClusterID == "" {
			continue
		}
		for j := range r.state.Clusters {
			c := &r.state.Clusters[j]
			if c.Spec.InfrastructureRef.Name == infra.Name && c.DeletionTimestamp.IsZero() {
				return c.Name
			}
		}
	}
	return ""
}

// clusterObjects returns Machine, boot data and MCMMachine of a VM, as Cluster API would
// have made them for the set, with the identity of the VM.
func (r *planner) clusterObjects(vm *VM, p *pool, node *corev1.Node) ([]client.Object, *problem) {
	if cluster := objects.Find(r.state.Clusters, p.cluster); cluster == nil ||
		cluster.Spec.Paused != nil && *cluster.Spec.Paused {
		return nil, blocked("Cluster "+p.cluster+" is paused", "remove spec.paused of the Cluster")
	}
	set := p.set.(*clusterv1.MachineSet)
	template := objects.Find(r.state.MachineTemplates, set.Spec.Template.Spec.InfrastructureRef.Name)
	if template == nil {
		return nil, blocked("MachineSet "+set.Name+" has no MCMMachineTemplate "+
			set.Spec.Template.Spec.InfrastructureRef.Name, "restore the template first")
	}
	providerID := vm.NodeProviderID
	if node != nil && node.Spec.ProviderID != "" {
		providerID = node.Spec.ProviderID
	}
	if providerID == "" {
		return nil, blocked("the cloud does not tell the providerID of its Node yet", "try again later")
	}
	machine := r.clusterMachine(vm, set, providerID, node)
	return []client.Object{machine, bootData(machine), mcmMachine(vm, machine, template)}, nil
}

func (r *planner) clusterMachine(vm *VM, set *clusterv1.MachineSet, providerID string,
	node *corev1.Node,
) *clusterv1.Machine {
	template := set.Spec.Template.DeepCopy()
	m := &clusterv1.Machine{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: r.state.Namespace, Name: vm.Machine, Annotations: objects.Merge(template.Annotations),
			Labels: objects.Merge(template.Labels, map[string]string{
				clusterv1.ClusterNameLabel: set.Spec.ClusterName, clusterv1.MachineSetNameLabel: format.MustFormatValue(set.Name),
			}),
			OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(set, clusterv1.GroupVersion.WithKind(machinev1.MachineSetKind)),
			},
		},
		Spec: template.Spec,
	}
	if name, ok := set.Labels[clusterv1.MachineDeploymentNameLabel]; ok {
		m.Labels[clusterv1.MachineDeploymentNameLabel] = name
	}
	m.Spec.ClusterName, m.Spec.ProviderID = set.Spec.ClusterName, providerID
	m.Spec.Bootstrap = clusterv1.Bootstrap{DataSecretName: new(vm.Machine + bootDataSuffix)}
	m.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{
		APIGroup: infrav1.GroupVersion.Group, Kind: objects.KindMCMMachine, Name: vm.Machine,
	}
	if node != nil && node.Status.NodeInfo.KubeletVersion != "" {
		m.Spec.Version = node.Status.NodeInfo.KubeletVersion
	}
	return m
}

// bootData stands for the boot data that the VM used up. Machine names it, so it has to be.
func bootData(m *clusterv1.Machine) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: m.Namespace, Name: m.Name + bootDataSuffix, OwnerReferences: ownedBy(m),
			Labels: map[string]string{clusterv1.ClusterNameLabel: m.Spec.ClusterName},
		},
		Type: clusterv1.ClusterSecretType,
		Data: map[string][]byte{"value": []byte(stubBootData), "format": []byte("cloud-config")},
	}
}

// mcmMachine returns the MCMMachine that adopts the VM: with a providerID it never creates one.
func mcmMachine(vm *VM, m *clusterv1.Machine, template *infrav1.MCMMachineTemplate) *infrav1.MCMMachine {
	spec := template.Spec.Template.DeepCopy()
	group := schema.GroupKind{Group: infrav1.GroupVersion.Group, Kind: objects.KindMCMMachineTemplate}
	out := &infrav1.MCMMachine{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: m.Namespace, Name: m.Name, OwnerReferences: ownedBy(m),
			Labels: objects.Merge(spec.ObjectMeta.Labels, m.Labels),
			Annotations: objects.Merge(spec.ObjectMeta.Annotations, map[string]string{
				clusterv1.TemplateClonedFromNameAnnotation:      template.Name,
				clusterv1.TemplateClonedFromGroupKindAnnotation: group.String(),
			}),
			Finalizers: []string{machinev1.MCMMachineFinalizer},
		},
		Spec: spec.Spec,
	}
	machinev1.SetOrRemoveAnnotation(out, machinev1.OwnerIDAnnotation, vm.OwnerID)
	machinev1.SetOrRemoveAnnotation(out, machinev1.ZoneAnnotation, vm.Zone)
	out.Spec.ProviderID = m.Spec.ProviderID
	return out
}

// ownedBy returns the reference to a Machine that is yet to be created.
func ownedBy(m *clusterv1.Machine) []metav1.OwnerReference {
	return []metav1.OwnerReference{objects.ControllerRef(clusterv1.GroupVersion.WithKind(machinev1.MachineKind), m.Name)}
}
