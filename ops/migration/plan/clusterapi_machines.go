package plan

import (
	"fmt"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/objects"
)

// clusterMachines judges each Machine.
func (p *planner) clusterMachines(want *migration.NativeObjects) {
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
		if set := p.ClusterAPI.SetOf(m); set >= 0 {
			out.Set = p.ClusterAPI.Sets[set].Name
		}
		if node := p.Nodes[out.Node]; node != nil {
			out.KubeletVersion = node.Status.NodeInfo.KubeletVersion
		}
		o := infra[m.Spec.InfrastructureRef.Name]
		p.judgeCluster(&out, m, o)
		if o != nil {
			p.retainsVM(o)
		}
		p.nativeCopy(&out, o, copies[m.Spec.InfrastructureRef.Name])
		p.Machines = append(p.Machines, out)
	}
}

// nativeCopy plans what the copy c of an MCMMachine is to have; both may be missing.
func (p *planner) nativeCopy(out *MachinePlan, o *infrav1.MCMMachine, c *machinev1.Machine) {
	if c == nil || o == nil {
		return
	}
	out.ProviderID = c.Spec.ProviderID
	if c.Annotations[machinev1.ProviderIDFormAnnotation] == machinev1.ProviderIDFormMCM ||
		out.ProviderID != o.Spec.ProviderID {
		out.ProviderIDForm = FormMCM
	}
	if p.Native.Classes[c.Spec.Class.Name] == nil {
		out.block(fmt.Sprintf("its MachineClass %q does not exist", c.Spec.Class.Name), "restore the MachineClass")
	}
}

// beingMade reports whether the VM of an MCMMachine may not be there yet.
func beingMade(o *infrav1.MCMMachine) bool {
	return o.Spec.ProviderID == "" || o.Annotations[machinev1.CreateAttemptAnnotation] != ""
}

// hasNode reports whether the Node of a Machine is there.
func (p *planner) hasNode(m *clusterv1.Machine) bool {
	return m.Status.NodeRef.IsDefined() && p.Nodes[m.Status.NodeRef.Name] != nil
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
	case beingMade(o):
		out.block("its VM is being made", "wait until it has joined, or delete it")
	case !p.hasNode(m):
		out.block("its node has not joined, or is gone", "wait until it has joined, or delete it")
	case m.Name != o.Name:
		out.block("its MCMMachine has another name, "+o.Name+", and natively both have that of the VM", "replace the machine")
	case p.ClusterAPI.SetOf(m) < 0 && p.Plan.Pool.Kind != migration.KindMachine:
		out.block("it belongs to no MachineSet of the pool", "wait until it is adopted")
	}
	if _, asked := m.Annotations[clusterv1.RemediateMachineAnnotation]; asked {
		out.block("annotation "+clusterv1.RemediateMachineAnnotation+" asks to replace it",
			"wait until it is replaced, or remove the annotation")
	}
}

// retainsVM is about MCMMachines whose VM is to outlive them.
func (p *planner) retainsVM(o client.Object) {
	if o.GetAnnotations()[machinev1.RetainVMAnnotation] != "" && p.Phase == "" {
		p.find(migration.Finding{
			Level: migration.Lost, Object: objects.Name(objects.KindMCMMachine, o), Field: "metadata.annotations[" +
				machinev1.RetainVMAnnotation +
				"]",
			Text: "natively the VM goes with its Machine; a way back does not set it again",
		})
	}
}
