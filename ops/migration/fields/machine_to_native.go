package fields

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/objects"
)

// machine makes the native Machine of one of Cluster API, or brings the one that
// there is up to date. It has the same name, and so the VM has.
func (c *toNative) machine(from *clusterv1.Machine) {
	infra := c.infra[from.Spec.InfrastructureRef.Name]
	if infra == nil || from.Spec.InfrastructureRef.Kind != objects.KindMCMMachine {
		c.find(migration.Finding{
			Level: migration.Blocked, Object: objects.Name(machinev1.MachineKind, from), Field: "spec.infrastructureRef",
			Text:   "it has no MCMMachine, so its VM is not one of this provider",
			Remedy: "delete the Machine, or move the others without its pool",
		})
		return
	}
	set := c.ClusterAPI.SetOf(from)
	if set < 0 && c.Pool.Kind != migration.KindMachine {
		return // of another pool, or about to be adopted; the plan says so
	}
	c.judgeMachine(from, infra, set >= 0)
	m := c.have[infra.Name].DeepCopy()
	if m == nil {
		m = c.newMachine(from, infra, set)
	} else {
		c.refresh(m, from, infra)
	}
	m.Annotations = objects.Merge(m.Annotations, c.holdAnnotation())
	if set >= 0 {
		c.join(m, &c.out.Sets[c.target[set]])
	}
	convertBack(machineTable, from, &nativeMachine{Machine: m})
	if node := c.nodes[infra.Spec.ProviderID]; node != nil {
		m.Labels = objects.Merge(m.Labels, map[string]string{machinev1.NodeLabel: node.Object.Name})
	}
	if !slices.Contains(m.Finalizers, machinev1.Finalizer) {
		m.Finalizers = append(m.Finalizers, machinev1.Finalizer)
	}
	if m.Status.CurrentStatus.Phase == "" {
		m.Status = c.status(infra)
	}
	c.out.Machines = append(c.out.Machines, *m)
}

// newMachine is a Machine of which there is nothing natively.
func (c *toNative) newMachine(from *clusterv1.Machine, infra *infrav1.MCMMachine, set int) *machinev1.Machine {
	m := &machinev1.Machine{ObjectMeta: metav1.ObjectMeta{
		Namespace: infra.Namespace, Name: infra.Name,
		Labels:      portable(dropClusterAPILabels(from.Labels)),
		Annotations: c.newAnnotations(portable(from.Annotations), machinev1.MachineKind, from),
	}}
	m.Annotations = objects.Merge(m.Annotations, tagsOfVM(infra))
	m.Spec.Class = machinev1.ClassSpec{APIGroup: c.apiGroup(), Kind: machinev1.MachineClassKind, Name: classOf(infra)}
	if set >= 0 {
		template := &c.out.Sets[c.target[set]].Spec.Template
		m.Spec.MachineConfiguration = template.Spec.MachineConfiguration.DeepCopy()
		m.Annotations = objects.Merge(m.Annotations, template.Annotations)
	} else {
		m.Spec.MachineConfiguration = c.configuration(nil, &from.Spec)
	}
	nodeTemplateToNative(&m.Spec.NodeTemplateSpec, infra.Spec.NodeTemplate)
	c.name(m, infra)
	return m
}

// refresh changes what Cluster API may say otherwise since the Machine was native.
func (c *toNative) refresh(m *machinev1.Machine, from *clusterv1.Machine, infra *infrav1.MCMMachine) {
	nodeTemplateToNative(&m.Spec.NodeTemplateSpec, infra.Spec.NodeTemplate)
	m.Spec.MachineConfiguration = c.configuration(m.Spec.MachineConfiguration, &from.Spec)
	m.Annotations = objects.Merge(m.Annotations, tagsOfVM(infra))
	switch {
	case m.Spec.ProviderID == "":
		c.name(m, infra)
	case !objects.SameVM(m.Spec.ProviderID, infra.Spec.ProviderID):
		c.find(migration.Finding{
			Level: migration.Blocked, Object: objects.Name(machinev1.MachineKind, m), Field: "spec.providerID",
			Text:   m.Spec.ProviderID + " is another VM than that of the MCMMachine, " + infra.Spec.ProviderID,
			Remedy: "find out whose VM it is, and correct or delete the wrong object",
		})
	}
}

// name gives m the providerID that Cluster API knows. The native API turns it into
// the form that it is to have.
func (c *toNative) name(m *machinev1.Machine, infra *infrav1.MCMMachine) {
	m.Spec.ProviderID = infra.Spec.ProviderID
	form := machinev1.ProviderIDFormMCM
	if d := c.out.Deployment; d != nil &&
		d.Annotations[machinev1.ProviderIDFormAnnotation] == machinev1.ProviderIDFormNode {
		form = machinev1.ProviderIDFormNode
	}
	m.Annotations[machinev1.ProviderIDFormAnnotation] = form
}

// join makes m a member of a native set.
func (c *toNative) join(m *machinev1.Machine, s *machinev1.MachineSet) {
	m.Labels = objects.Merge(m.Labels, s.Spec.Template.Labels)
	if owner := objects.ControllerOf(m, machinev1.MachineSetKind); owner != nil && owner.Name == s.Name &&
		(s.UID == "" || owner.UID == s.UID) {
		return
	}
	others := slices.DeleteFunc(m.OwnerReferences, func(r metav1.OwnerReference) bool {
		return r.Kind == machinev1.MachineSetKind
	})
	ref := objects.ControllerRef(machinev1.GroupVersion.WithKind(machinev1.MachineSetKind), s.Name)
	ref.UID = s.UID
	m.OwnerReferences = append([]metav1.OwnerReference{ref}, others...) // autoscalers look at the first
}

// status is that of a Machine whose VM runs, and whose node has joined if there is
// one: the native API goes on from there.
func (c *toNative) status(infra *infrav1.MCMMachine) machinev1.MachineStatus {
	out := machinev1.MachineStatus{
		CurrentStatus: machinev1.CurrentStatus{
			Phase: machinev1.MachinePending, TimeoutActive: true,
			LastUpdateTime: infra.CreationTimestamp,
		},
		LastOperation: machinev1.LastOperation{
			Description: "Creating machine on cloud provider", State: machinev1.MachineStateProcessing,
			Type: machinev1.MachineOperationCreate, LastUpdateTime: infra.CreationTimestamp,
		},
	}
	known := c.nodes[infra.Spec.ProviderID]
	if known == nil {
		return out
	}
	since := readySince(known.Object)
	out.Conditions = known.Object.Status.Conditions
	out.NodeRef = &machinev1.NodeReference{Kind: "Node", Name: known.Object.Name}
	out.CurrentStatus = machinev1.CurrentStatus{Phase: machinev1.MachineRunning, LastUpdateTime: since}
	out.LastOperation = machinev1.LastOperation{
		Description: "Machine " + infra.Name + " successfully joined the cluster", State: machinev1.MachineStateSuccessful,
		Type: machinev1.MachineOperationCreate, LastUpdateTime: since,
	}
	return out
}

func readySince(node *corev1.Node) metav1.Time {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.LastTransitionTime
		}
	}
	return node.CreationTimestamp
}

// classOf is the class that a VM was made from.
func classOf(infra *infrav1.MCMMachine) string {
	if name := infra.Annotations[infrav1.MadeFromAnnotation]; name != "" {
		return name
	}
	return infra.Spec.MachineClassRef.Name
}
