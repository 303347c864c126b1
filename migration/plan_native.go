package migration

import (
	"fmt"
	"strings"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// toNative plans a move away from Cluster API.
func (p *planner) toNative() {
	if p.ClusterAPI.Empty() {
		p.absent(DoorClusterAPI, clusterv1.GroupVersion.Group)
		return
	}
	want, findings := p.CopyToNative(p.options)
	p.Findings = append(p.Findings, findings...)
	p.belonging()
	p.clusterHead()
	p.atWork(DoorClusterAPI)
	p.clusterMachines(&want)
	p.selectors(&want)
	p.nativeNames(&want)
	p.createsOfNative(&want)
	p.finalizersToNative()
}

// clusterHead is about the state of the pool as a whole.
func (p *planner) clusterHead() {
	d := p.ClusterAPI.Deployment
	p.Replicas = int32(len(p.ClusterAPI.Machines)) // #nosec G115 -- objects in memory
	switch p.Plan.Pool.Kind {
	case KindSet:
		p.clusterSet(&p.ClusterAPI.Sets[0])
		return
	case KindMachine:
		p.partOf(machinev1.MachineKind, &p.ClusterAPI.Machines[0])
		return
	case KindDeployment:
	}
	if d == nil {
		return
	}
	p.Replicas = value(d.Spec.Replicas)
	object := objectName(machinev1.MachineDeploymentKind, d)
	block := func(field, text, remedy string) {
		p.find(Finding{Level: Blocked, Object: object, Field: field, Text: text, Remedy: remedy})
	}
	switch {
	case !d.DeletionTimestamp.IsZero():
		block("", "it is being deleted", "wait until it is gone")
	case d.Status.ObservedGeneration < d.Generation && p.Phase == "":
		block("", "its last change has not been seen by Cluster API", "wait, or start Cluster API's controllers")
	}
	if _, topology := d.Labels[clusterv1.ClusterTopologyOwnedLabel]; topology {
		block("metadata.labels["+clusterv1.ClusterTopologyOwnedLabel+"]",
			"a ClusterClass manages it, and would make it again", "take it out of spec.topology of its Cluster first")
	}
	current := p.ClusterAPI.currentSet()
	if current < 0 {
		block("spec.template", "no MachineSet has this template yet: a rollout begins",
			"wait until it is over, or undo the change of the template")
		return
	}
	old := map[string]int{}
	for i := range p.ClusterAPI.Machines {
		if set := p.ClusterAPI.setOf(&p.ClusterAPI.Machines[i]); set >= 0 && set != current {
			old[p.ClusterAPI.Sets[set].Name]++
		}
	}
	for _, name := range keysOf(old) {
		block("spec.template", fmt.Sprintf("it is in the middle of a rollout: MachineSet %s, of another template, still "+
			"has machines (%d)", name, old[name]), "wait until the rollout is over, or undo the change of the template")
	}
	p.scales(object, len(p.ClusterAPI.Machines))
}

// clusterSet is about the state of a MachineSet of Cluster API that is a pool.
func (p *planner) clusterSet(s *clusterv1.MachineSet) {
	object := objectName(machinev1.MachineSetKind, s)
	p.Replicas = value(s.Spec.Replicas)
	p.partOf(machinev1.MachineSetKind, s)
	if !s.DeletionTimestamp.IsZero() {
		p.find(Finding{Level: Blocked, Object: object, Text: "it is being deleted", Remedy: "wait until it is gone"})
	}
	p.scales(object, len(p.ClusterAPI.Machines))
}

// clusterMachines judges each Machine.
func (p *planner) clusterMachines(want *Native) {
	infra := map[string]*infrav1.MCMMachine{}
	for i := range p.ClusterAPI.MCMMachines {
		infra[p.ClusterAPI.MCMMachines[i].Name] = &p.ClusterAPI.MCMMachines[i]
	}
	copies := map[string]*machinev1.Machine{}
	for i := range want.Machines {
		copies[want.Machines[i].Name] = &want.Machines[i]
	}
	for i := range p.ClusterAPI.Machines {
		m := &p.ClusterAPI.Machines[i]
		out := MachinePlan{
			Name: m.Name, Phase: m.Status.Phase, Verdict: VerdictKept, Finalizers: m.Finalizers,
			Node: m.Status.NodeRef.Name, ProviderIDForm: FormSame,
		}
		if set := p.ClusterAPI.setOf(m); set >= 0 {
			out.Set = p.ClusterAPI.Sets[set].Name
		}
		if node := p.Nodes[out.Node]; node != nil {
			out.KubeletVersion = node.Status.NodeInfo.KubeletVersion
		}
		o := infra[m.Spec.InfrastructureRef.Name]
		p.judgeCluster(&out, m, o)
		if o != nil {
			p.retained(o)
		}
		if c := copies[m.Spec.InfrastructureRef.Name]; c != nil && o != nil {
			out.ProviderID = c.Spec.ProviderID
			if c.Annotations[machinev1.ProviderIDFormAnnotation] == machinev1.ProviderIDFormMCM ||
				out.ProviderID != o.Spec.ProviderID {
				out.ProviderIDForm = FormMCM
			}
			if p.Native.Classes[c.Spec.Class.Name] == nil {
				out.block(fmt.Sprintf("its MachineClass %q does not exist", c.Spec.Class.Name), "restore the MachineClass")
			}
		}
		p.Machines = append(p.Machines, out)
	}
}

// judgeCluster says what is in the way of a Machine of Cluster API.
func (p *planner) judgeCluster(out *MachinePlan, m *clusterv1.Machine, o *infrav1.MCMMachine) {
	switch {
	case !m.DeletionTimestamp.IsZero():
		out.block("it is being deleted", "wait until it is gone")
	case o == nil:
		out.block("it has no MCMMachine, so its VM is not one of this provider",
			"delete the Machine, or leave its pool where it is")
	case !o.DeletionTimestamp.IsZero():
		out.block("its MCMMachine is being deleted", "wait until it is gone")
	case o.Spec.ProviderID == "" || o.Annotations[machinev1.CreateAttemptAnnotation] != "":
		out.block("its VM is being made", "wait until it has joined, or delete it")
	case !m.Status.NodeRef.IsDefined() || p.Nodes[m.Status.NodeRef.Name] == nil:
		out.block("its node has not joined, or is gone", "wait until it has joined, or delete it")
	case m.Name != o.Name:
		out.block("its MCMMachine has another name, "+o.Name+", and natively both have that of the VM", "replace the machine")
	case p.ClusterAPI.setOf(m) < 0 && p.Plan.Pool.Kind != KindMachine:
		out.block("it belongs to no MachineSet of the pool", "wait until it is adopted")
	}
	if _, asked := m.Annotations[clusterv1.RemediateMachineAnnotation]; asked {
		out.block("annotation "+clusterv1.RemediateMachineAnnotation+" asks to replace it",
			"wait until it is replaced, or remove the annotation")
	}
	for _, key := range keysOf(m.Annotations) {
		if text := unheard(key); text != "" {
			p.find(Finding{
				Level: Lost, Object: objectName(machinev1.MachineKind, m), Field: "metadata.annotations[" + key + "]",
				Text: text,
			})
		}
	}
}

// unheard says what an annotation of a Machine of Cluster API asks for that the
// native door does not do; empty if nothing.
func unheard(key string) string {
	switch key {
	case clusterv1.MachineSkipRemediationAnnotation:
		return "the native door replaces an unhealthy machine although this asks it not to"
	case clusterv1.ExcludeNodeDrainingAnnotation:
		return "the native door drains each node that can be drained"
	case clusterv1.ExcludeWaitForNodeVolumeDetachAnnotation:
		return "the native door waits until volumes are detached, for --machine-pv-detach-timeout"
	}
	if strings.HasPrefix(key, clusterv1.PreDrainDeleteHookAnnotationPrefix) ||
		strings.HasPrefix(key, clusterv1.PreTerminateDeleteHookAnnotationPrefix) {
		return "the native door waits for no hooks when it deletes a machine"
	}
	return ""
}

// nativeNames refuses names that somebody else has on the native door.
func (p *planner) nativeNames(want *Native) {
	if p.Phase != "" || p.around == nil {
		return
	}
	taken := func(kind, name string) {
		p.find(Finding{
			Level: Blocked, Object: kind + " " + p.Plan.Pool.Namespace + "/" + name,
			Text:   "it exists on the native door, and is no copy of that of Cluster API with this name",
			Remedy: "delete or rename it",
		})
	}
	if o := lookup(p.around.Deployments, p.Plan.Pool.Name); o != nil && want.Deployment != nil &&
		!related(p.ClusterAPI.Deployment, o, machinev1.MachineDeploymentKind) {
		taken(machinev1.MachineDeploymentKind, o.Name)
	}
	sets, machines := byName(p.ClusterAPI.Sets), byName(p.ClusterAPI.Machines)
	for i := range p.around.Sets {
		if o := &p.around.Sets[i]; sets[o.Name] != nil && !related(sets[o.Name], o, machinev1.MachineSetKind) {
			taken(machinev1.MachineSetKind, o.Name)
		}
	}
	for i := range p.around.Machines {
		if o := &p.around.Machines[i]; machines[o.Name] != nil && !related(machines[o.Name], o, machinev1.MachineKind) {
			taken(machinev1.MachineKind, o.Name)
		}
	}
}

func (p *planner) createsOfNative(want *Native) {
	if want.Deployment != nil && p.Native.Deployment == nil {
		creates(p, machinev1.MachineDeploymentKind, []machinev1.MachineDeployment{*want.Deployment}, nil)
	}
	creates(p, machinev1.MachineSetKind, want.Sets, namesOf(p.Native.Sets))
	creates(p, machinev1.MachineKind, want.Machines, namesOf(p.Native.Machines))
}

func (p *planner) finalizersToNative() {
	p.Finalizers = []Finalizer{
		{machinev1.Finalizer, "Machine, MachineSet, MachineDeployment (native)", "on each from the moment it is made"},
		{machinev1.NodeFinalizer, "Node", "added by the native door"},
		{clusterv1.MachineFinalizer, "Machine (Cluster API)", "stays until finish"},
		{machinev1.MCMMachineFinalizer, kindMCMMachine, "stays until finish, with " + machinev1.RetainVMAnnotation},
		{
			machinev1.InUseFinalizer, "MachineClass and its Secrets",
			"goes once nothing of Cluster API uses them; the native door adds its own",
		},
	}
}
