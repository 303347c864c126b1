package fields

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/labels/format"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/objects"
)

// stubBootData is what stands for boot data that was used up before the move. It
// is valid, so whoever reads it finds nothing to complain about.
const stubBootData = "#cloud-config\n# This machine had booted before it was moved to Cluster API.\n"

// machine makes the Machine, MCMMachine and Secret of a native Machine of a set.
func (c *toClusterAPI) machine(m *machinev1.Machine, set *clusterv1.MachineSet) {
	c.judgeMachine(m)
	labels := objects.Merge(c.ownLabels(m), set.Spec.Template.Labels,
		map[string]string{clusterv1.MachineSetNameLabel: format.MustFormatValue(set.Name)})
	if name, ok := set.Labels[clusterv1.MachineDeploymentNameLabel]; ok {
		labels[clusterv1.MachineDeploymentNameLabel] = name
	}
	out := c.bareMachine(m)
	out.Labels, out.Annotations = labels, objects.Merge(out.Annotations, set.Spec.Template.Annotations)
	out.OwnerReferences = []metav1.OwnerReference{objects.ControllerRef(clusterv1.GroupVersion.WithKind(
		machinev1.MachineSetKind),
		set.Name)}
	out.Spec.Version = c.machineVersion(m, set.Spec.Template.Spec.Version)
	out.Spec.Deletion, out.Spec.MinReadySeconds = set.Spec.Template.Spec.Deletion, set.Spec.Template.Spec.MinReadySeconds
	c.add(m, out, set.Spec.Template.Spec.InfrastructureRef.Name)
}

// looseMachine does so for a Machine that belongs to no set.
func (c *toClusterAPI) looseMachine(i int) {
	m := &c.Native.Machines[i]
	c.judgeMachine(m)
	object := objects.Name(machinev1.MachineKind, m)
	c.judgeConfiguration(object, "spec.", m.Spec.MachineConfiguration, m.Annotations)
	c.find(kept("becomes machineClassRef of the MCMMachine").finding(object, "spec.class"))
	c.findings = append(c.findings, judgeNative(machineSpecTable, object, "spec.", &m.Spec)...)
	out := c.bareMachine(m)
	out.Labels = objects.Merge(c.ownLabels(m), map[string]string{clusterv1.ClusterNameLabel: c.options.Cluster})
	out.OwnerReferences = []metav1.OwnerReference{c.clusterOwner()}
	out.Spec.Version = c.machineVersion(m, c.options.Defaults.KubeletVersion)
	c.spec(c.nativeSpec(m.Spec.MachineConfiguration, m.Annotations), &out.Spec, nil)
	c.add(m, out, "")
}

// bareMachine has what does not depend on the set.
func (c *toClusterAPI) bareMachine(m *machinev1.Machine) clusterv1.Machine {
	annotations := objects.Merge(portable(m.Annotations), map[string]string{
		clusterv1.PausedAnnotation: "", machinev1.MigratedFromAnnotation: objects.CopyOf(machinev1.MachineKind, m),
	})
	out := clusterv1.Machine{
		ObjectMeta: metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name, Annotations: annotations},
		Spec: clusterv1.MachineSpec{
			ClusterName: c.options.Cluster,
			ProviderID:  c.providerID(m),
			Bootstrap:   clusterv1.Bootstrap{DataSecretName: new(m.Name + objects.BootDataSuffix)},
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{
				APIGroup: infrav1.GroupVersion.Group, Kind: objects.KindMCMMachine, Name: m.Name,
			},
		},
	}
	convert(machineTable, c.machineView(m), &out)
	return out
}

// providerID is that of the Node, byte for byte: Cluster API finds the Node by it.
func (c *toClusterAPI) providerID(m *machinev1.Machine) string {
	if n := c.nodes[m.Name]; n != nil && n.Object.Spec.ProviderID != "" {
		return n.Object.Spec.ProviderID
	}
	if id := c.knownProviderID(m); id != "" {
		return id
	}
	return m.Spec.ProviderID
}

func (c *toClusterAPI) machineVersion(m *machinev1.Machine, fallback string) string {
	if n := c.nodes[m.Name]; n != nil && n.KubeletVersion != "" {
		return n.KubeletVersion
	}
	return fallback
}

// ownLabels are the labels of a Machine that mean nothing to the native API.
func (c *toClusterAPI) ownLabels(m *machinev1.Machine) map[string]string {
	labels := portable(m.Labels)
	for _, key := range []string{
		machinev1.NodeLabel, machinev1.TemplateHashLabel, machinev1.ForceDeletionLabel, machinev1.ForceDrainLabel,
	} {
		delete(labels, key)
	}
	return labels
}

// add adds a Machine with its MCMMachine and Secret. template is what a
// MachineSet would have made the MCMMachine from; empty: nothing.
func (c *toClusterAPI) add(m *machinev1.Machine, out clusterv1.Machine, template string) {
	owner := objects.ControllerRef(clusterv1.GroupVersion.WithKind(machinev1.MachineKind), out.Name)
	origin := map[string]string{machinev1.MigratedFromAnnotation: out.Annotations[machinev1.MigratedFromAnnotation]}
	infra := infrav1.MCMMachine{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: out.Namespace, Name: out.Name, Labels: objects.Merge(out.Labels),
			Annotations: objects.Merge(origin, tagsOfVM(m), map[string]string{
				clusterv1.PausedAnnotation: "", machinev1.RetainVMAnnotation: "true",
			}),
			OwnerReferences: []metav1.OwnerReference{owner},
		},
		Spec: infrav1.MCMMachineSpec{
			ProviderID:      out.Spec.ProviderID,
			MachineClassRef: infrav1.MachineClassReference{Name: m.Spec.Class.Name},
			NodeTemplate:    nodeTemplateToClusterAPI(&m.Spec.NodeTemplateSpec),
		},
	}
	if template != "" {
		group := schema.GroupKind{Group: infrav1.GroupVersion.Group, Kind: objects.KindMCMMachineTemplate}
		infra.Annotations[clusterv1.TemplateClonedFromNameAnnotation] = template
		infra.Annotations[clusterv1.TemplateClonedFromGroupKindAnnotation] = group.String()
	}
	c.out.Machines = append(c.out.Machines, out)
	c.out.MCMMachines = append(c.out.MCMMachines, infra)
	c.out.BootstrapSecrets = append(c.out.BootstrapSecrets, corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: out.Namespace, Name: out.Name + objects.BootDataSuffix, Annotations: objects.Merge(origin),
			Labels:          map[string]string{clusterv1.ClusterNameLabel: c.options.Cluster},
			OwnerReferences: []metav1.OwnerReference{owner},
		},
		Type: clusterv1.ClusterSecretType,
		Data: map[string][]byte{"value": []byte(stubBootData), "format": []byte("cloud-config")},
	})
}

// tagsOfVM are the annotations of an object that record how its VM is tagged, that the cloud
// keeps its boot data, which load balancers it is registered with, and in which account it is.
func tagsOfVM(o metav1.Object) map[string]string {
	out := map[string]string{machinev1.OwnerIDAnnotation: ownerIDOf(o)}
	for _, record := range []string{
		machinev1.AppliedTagsAnnotation, machinev1.BootDataAnnotation, machinev1.LoadBalancersAnnotation,
		machinev1.CloudScopeAnnotation,
	} {
		if text := o.GetAnnotations()[record]; text != "" {
			out[record] = text
		}
	}
	return out
}

// ownerIDOf is what the VM of an object is tagged with.
func ownerIDOf(o metav1.Object) string {
	if id := o.GetAnnotations()[machinev1.OwnerIDAnnotation]; id != "" {
		return id
	}
	return string(o.GetUID())
}
