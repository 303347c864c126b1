package fields

import (
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/labels/format"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/objects"
)

// nativeMachine is a Machine, and what its set says for all of its machines.
type nativeMachine struct {
	*machinev1.Machine
	set      *machinev1.MachineSet // nil: it belongs to none
	own, all timeouts
}

const priorityField = "metadata.annotations[" + machinev1.PriorityAnnotation + "]"

// machineTable has the fields that a Machine has besides those of its template.
var machineTable = []row[*nativeMachine, *clusterv1.Machine]{
	{
		native: priorityField, clusterAPI: "metadata.annotations[" + clusterv1.DeleteMachineAnnotation + "]",
		toClusterAPI: func(n *nativeMachine, c *clusterv1.Machine) {
			if deletedFirst(n.Machine) {
				c.Annotations[clusterv1.DeleteMachineAnnotation] = "true"
			}
		},
		toNative:     func(c *clusterv1.Machine, n *nativeMachine) { rank(n.Machine, c) },
		leavesNative: judgePriority,
	},
	{native: "metadata.labels[" + machinev1.ForceDrainLabel + "]", leavesNative: func(n *nativeMachine) outcome {
		force, err := strconv.ParseBool(n.Labels[machinev1.ForceDrainLabel])
		return when(err == nil && force,
			lost("Cluster API evicts no pod by force: it drains until the drain timeout"))
	}},
	{native: "spec.drainTimeout", leavesNative: func(n *nativeMachine) outcome {
		return n.differs(n.own.drain != n.all.drain)
	}},
	{native: "spec.healthTimeout", leavesNative: func(n *nativeMachine) outcome {
		return n.differs(n.own.health != n.all.health || n.own.neverFails != n.all.neverFails)
	}},
	{native: "spec.nodeConditions", leavesNative: func(n *nativeMachine) outcome {
		return n.differs(!slices.Equal(n.own.conditions, n.all.conditions))
	}},
	{native: "spec.maxEvictRetries", leavesNative: func(n *nativeMachine) outcome {
		own, all := n.configurations()
		return when(!ptr.Equal(own.MaxEvictRetries, all.MaxEvictRetries), lost(retriesText))
	}},
	{native: "spec.machinePreserveTimeout", leavesNative: func(n *nativeMachine) outcome {
		own, all := n.configurations()
		return when(!ptr.Equal(own.MachinePreserveTimeout, all.MachinePreserveTimeout), lost(preserveText))
	}},
}

// mcmMachineTable has the fields that an MCMMachine and its template have in common and that
// nothing converts.
var mcmMachineTable = []row[struct{}, *infrav1.MCMMachineSpec]{
	{clusterAPI: "network", leavesClusterAPI: func(c *infrav1.MCMMachineSpec) outcome {
		return when(len(c.Network.Devices) > 0,
			blocked("the native API has no IP pools: finish would remove the MCMMachines, after which the addresses of running "+
				"VMs go to others, and replacements would boot with DHCP",
				"roll the pool to an MCMMachineTemplate without spec.network, or leave it on Cluster API"))
	}},
}

// differs is about a setting of a Machine that its set does not have: Cluster API gives
// all machines of a set those of the set.
func (n *nativeMachine) differs(different bool) outcome {
	if n.set == nil {
		return outcome{}
	}
	return when(different, lost("differs from that of MachineSet "+n.set.Name+
		", which counts for all its machines on Cluster API"))
}

// configurations are what the Machine and its set say; the same for one without a set.
func (n *nativeMachine) configurations() (own, all machinev1.MachineConfiguration) {
	own = objects.Value(n.Spec.MachineConfiguration)
	if n.set == nil {
		return own, own
	}
	return own, objects.Value(n.set.Spec.Template.Spec.MachineConfiguration)
}

func judgePriority(n *nativeMachine) outcome {
	priority, set := n.Annotations[machinev1.PriorityAnnotation]
	if deletedFirst(n.Machine) {
		return replaced("to be deleted first; becomes the annotation cluster.x-k8s.io/delete-machine")
	}
	return when(set && priority != machinev1.DefaultPriority, lost(fmt.Sprintf("%q has no counterpart: Cluster API knows "+
		"only machines to be deleted first, and the oldest first among the others", priority)))
}

// deletedFirst reports whether a machine is the first to be deleted when its set shrinks.
func deletedFirst(m *machinev1.Machine) bool {
	_, chosen := m.Annotations[machinev1.DeleteMachineAnnotation]
	return chosen || m.Annotations[machinev1.PriorityAnnotation] == machinev1.HighestPriority
}

// rank gives m the priority that the Machine of Cluster API has.
func rank(m *machinev1.Machine, from *clusterv1.Machine) {
	_, chosen := from.Annotations[clusterv1.DeleteMachineAnnotation]
	priority, set := m.Annotations[machinev1.PriorityAnnotation]
	switch {
	case chosen:
		m.Annotations[machinev1.PriorityAnnotation] = machinev1.HighestPriority
	case !set || priority == machinev1.HighestPriority:
		m.Annotations[machinev1.PriorityAnnotation] = machinev1.DefaultPriority
		delete(m.Annotations, machinev1.DeleteMachineAnnotation)
		delete(m.Annotations, machinev1.MarkedForDeletionAnnotation)
	}
}

// machineView reads a Machine and its set.
func (c *toClusterAPI) machineView(m *machinev1.Machine) *nativeMachine {
	n := &nativeMachine{Machine: m, own: timeoutsOf(m.Spec.MachineConfiguration, m.Annotations, c.options.Defaults)}
	if i := c.Native.SetOf(m); i >= 0 {
		n.set = &c.Native.Sets[i]
		n.all = timeoutsOf(n.set.Spec.Template.Spec.MachineConfiguration, n.set.Annotations, c.options.Defaults)
	}
	return n
}

// judgeMachine says what becomes of what is special to one Machine.
func (c *toClusterAPI) judgeMachine(m *machinev1.Machine) {
	object := objects.Name(machinev1.MachineKind, m)
	c.findings = append(c.findings, judgeNative(machineTable, object, "", c.machineView(m))...)
	c.judgeOwners(object, m)
}

// judgeMachine is about what a Machine of Cluster API does not have from its set.
func (c *toNative) judgeMachine(m *clusterv1.Machine, infra *infrav1.MCMMachine, ofSet bool) {
	object := objects.Name(machinev1.MachineKind, m)
	c.findings = append(c.findings, judgeClusterAPI(mcmMachineTable, objects.Name(objects.KindMCMMachine, infra), "spec.",
		&infra.Spec)...)
	c.findings = append(c.findings, judgeClusterAPIAnnotations(object, m.Annotations, machineAnnotations)...)
	c.judgeFinalizers(object, m)
	if !ofSet {
		c.judgeSpec(object, "spec.", &m.Spec)
	}
}

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
		machinev1.MachineSetKind,
	),
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

// machine makes the native Machine of one of Cluster API, or brings the one that
// there is up to date. It has the same name, and so the VM has.
func (c *toNative) machine(from *clusterv1.Machine) {
	infra := c.infra[from.Spec.InfrastructureRef.Name]
	if infra == nil || from.Spec.InfrastructureRef.Kind != objects.KindMCMMachine {
		c.find(migration.Blocked.Finding(objects.Name(machinev1.MachineKind, from), "spec.infrastructureRef",
			"it has no MCMMachine, so its VM is not one of this provider", "delete the Machine, or move the others without "+
				"its pool"))
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
		c.find(migration.Blocked.Finding(objects.Name(machinev1.MachineKind, m), "spec.providerID", m.Spec.ProviderID+
			" is another VM than that of the MCMMachine, "+infra.Spec.ProviderID, "find out whose VM it is, and correct "+
			"or delete the wrong object"))
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
	if known := c.nodes[infra.Spec.ProviderID]; known != nil {
		return objects.Joined(infra.Name, known.Object)
	}
	return machinev1.MachineStatus{
		CurrentStatus: machinev1.CurrentStatus{
			Phase: machinev1.MachinePending, TimeoutActive: true, LastUpdateTime: infra.CreationTimestamp,
		},
		LastOperation: machinev1.LastOperation{
			Description: "Creating machine on cloud provider", State: machinev1.MachineStateProcessing,
			Type: machinev1.MachineOperationCreate, LastUpdateTime: infra.CreationTimestamp,
		},
	}
}

// classOf is the class that a VM was made from.
func classOf(infra *infrav1.MCMMachine) string {
	if name := infra.Annotations[infrav1.MadeFromAnnotation]; name != "" {
		return name
	}
	return infra.Spec.MachineClassRef.Name
}
