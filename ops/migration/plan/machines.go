package plan

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/objects"
)

// nativeMachines judges each Machine, and counts kubelet versions.
func (p *planner) nativeMachines(want *migration.ClusterAPIObjects) map[string]int {
	nodes, versions := p.NodesByMachine(), map[string]int{}
	for _, n := range nodes {
		versions[n.KubeletVersion]++
	}
	ids := map[string]string{}
	for i := range want.Machines {
		ids[want.Machines[i].Name] = want.Machines[i].Spec.ProviderID
	}
	seen := map[string]string{}
	for i := range p.Native.Machines {
		m := &p.Native.Machines[i]
		out := MachinePlan{
			Name: m.Name, Phase: string(m.Status.CurrentStatus.Phase), Verdict: VerdictKept,
			Finalizers: m.Finalizers, ProviderID: ids[m.Name], ProviderIDForm: FormSame,
			Set: nameAt(p.Native.Sets, p.Native.SetOf(m)),
		}
		if out.ProviderID != m.Spec.ProviderID {
			out.ProviderIDForm = FormNode
		}
		if n := nodes[m.Name]; n != nil {
			out.Node, out.KubeletVersion = n.Object.Name, n.KubeletVersion
		}
		p.judgeNative(&out, m)
		judgeNode(&out, m, nodes[m.Name])
		if other := seen[out.ProviderID]; other != "" && out.ProviderID != "" {
			out.block("Machine "+other+" has the same VM, "+out.ProviderID,
				"find out whose VM it is, and delete the Machine that has none")
		}
		seen[out.ProviderID] = m.Name
		if p.Native.Classes[m.Spec.Class.Name] == nil {
			out.block(fmt.Sprintf("its MachineClass %q does not exist", m.Spec.Class.Name), "restore the MachineClass")
		}
		p.Machines = append(p.Machines, out)
	}
	return versions
}

// judgeNative says what is in the way of a Machine in its own state.
func (p *planner) judgeNative(out *MachinePlan, m *machinev1.Machine) {
	judgePhase(out, m)
	if !m.DeletionTimestamp.IsZero() {
		out.Verdict = VerdictKept // this reason goes before its phase
		out.block("it is being deleted", "wait until it is gone")
	}
	judgeRequests(out, m)
	if m.Annotations[machinev1.ProviderIDFormAnnotation] == machinev1.ProviderIDFormMCM && p.Phase == "" {
		out.block("its providerID is being turned into MCM's form", "wait until annotation "+
			machinev1.ProviderIDFormAnnotation+" is gone")
	}
	if p.Plan.Pool.Kind == migration.KindDeployment && out.Set == "" {
		out.block("it belongs to no MachineSet of the pool", "wait until it is adopted")
	}
}

// judgePhase says what is in the way of a Machine in its phase.
func judgePhase(out *MachinePlan, m *machinev1.Machine) {
	switch phase := m.Status.CurrentStatus.Phase; phase {
	case machinev1.MachineRunning:
	case machinev1.MachineTerminating:
		out.block("it is Terminating", "wait until it is gone")
	case machinev1.MachineFailed:
		out.block("it is Failed", "wait until its MachineSet has replaced it")
	case machinev1.MachineUnknown:
		out.block("it is Unknown: its node is not healthy, and its health timeout runs",
			"wait until the node is healthy, or the machine replaced")
	case machinev1.MachineAvailable:
		out.block("it is Available: it has a VM and no node, as without a target cluster",
			"Cluster API needs nodes; such a pool stays native")
	case "", machinev1.MachinePending, machinev1.MachineCrashLoopBackOff:
		out.block(fmt.Sprintf("its node has not joined yet (phase %q)", phase), "wait until it is Running, or delete it")
	case machinev1.MachineInPlaceUpdating, machinev1.MachineInPlaceUpdateFailed, machinev1.MachineInPlaceUpdateSuccessful:
		out.block("it is being updated in place ("+string(phase)+")", "wait until the update is over")
	}
}

// judgeRequests says what users and operators ask for that is in the way.
func judgeRequests(out *MachinePlan, m *machinev1.Machine) {
	if expiry := m.Status.CurrentStatus.PreserveExpiryTime; expiry != nil {
		out.block("it is preserved until "+expiry.UTC().Format("2006-01-02T15:04:05Z"), "wait, or set annotation "+
			machinev1.PreserveAnnotation+"=false on its node")
	}
	if value := m.Annotations[machinev1.PreserveAnnotation]; preserves(value) {
		out.block(fmt.Sprintf("annotation %s=%s asks to preserve it, which Cluster API cannot", machinev1.PreserveAnnotation,
			value), "remove the annotation from the Machine")
	}
	if force, err := strconv.ParseBool(m.Labels[machinev1.ForceDeletionLabel]); err == nil && force {
		out.block("label "+machinev1.ForceDeletionLabel+" asks to delete it by force",
			"remove the label, or delete the Machine")
	}
	if _, held := m.Annotations[machinev1.HoldAnnotation]; held {
		out.block("annotation "+machinev1.HoldAnnotation+" says that it is being adopted or moved",
			"end what it was set for, and remove it")
	}
}

func preserves(value string) bool {
	return value == machinev1.PreserveNow || value == machinev1.PreserveWhenFailed || value == machinev1.PreserveAuto
}

// judgeNode says what is in the way of a Machine on its node.
func judgeNode(out *MachinePlan, m *machinev1.Machine, n *migration.Node) {
	if n == nil {
		out.block("its Node is not there", "wait until it has joined, or delete the Machine")
		return
	}
	id := n.Object.Spec.ProviderID
	switch {
	case id == "":
		out.block("its Node "+n.Object.Name+" has no spec.providerID, by which Cluster API finds it",
			"run the cloud's cloud-controller-manager, or set it on the Node")
	case m.Spec.ProviderID != "" && !objects.SameVM(id, m.Spec.ProviderID):
		out.block(fmt.Sprintf("its Node %s runs on %s, and the Machine's VM is %s", n.Object.Name, id, m.Spec.ProviderID),
			"find out which of them is right; delete the Node if it is a leftover")
	case !n.Object.DeletionTimestamp.IsZero():
		out.block("its Node "+n.Object.Name+" is being deleted", "wait until the Machine is gone")
	}
	if preserves(n.Object.Annotations[machinev1.PreserveAnnotation]) {
		out.block(fmt.Sprintf("annotation %s=%s of its Node asks to preserve it, which Cluster API cannot",
			machinev1.PreserveAnnotation, n.Object.Annotations[machinev1.PreserveAnnotation]), "remove the annotation "+
			"from the Node")
	}
	if !kubeletVersion(n.KubeletVersion) {
		out.block(fmt.Sprintf("its kubelet reports version %q, which Cluster API refuses: it is no semantic version with a "+
			"v before it", n.KubeletVersion), "use a kubelet that reports one")
	}
}

// versions refuses a pool whose kubelets differ: Cluster API would never take all of
// its machines for up to date.
func (p *planner) versions(counts map[string]int, want *migration.ClusterAPIObjects) {
	object := p.Plan.Pool.String()
	if len(counts) > 1 {
		var texts []string
		for _, v := range objects.Keys(counts) {
			texts = append(texts, fmt.Sprintf("%s (%d)", v, counts[v]))
		}
		p.block(object, "status.nodeInfo.kubeletVersion", "its nodes have different versions: "+strings.Join(texts, ", ")+
			"; spec.version of a MachineDeployment is one, and machines of another are never up to date",
			"bring all to one version, e.g. by a rollout")
	}
	templates := want.Templates()
	if len(templates) == 0 {
		return
	}
	const field = "spec.template.spec.version"
	switch v := templates[0].Spec.Version; {
	case v == "":
		p.block(object, field, "it has no node that would tell the kubelet's version, and machines of another than "+
			"spec.version are never up to date", "say it with --kubelet-version, or scale the pool to one first")
	case len(counts) == 0 && !kubeletVersion(v):
		p.block(object, field, fmt.Sprintf("%q is no semantic version with a v before it, and Cluster API refuses it", v),
			"say --kubelet-version as kubelets report it, such as v1.36.3")
	}
}

// kubeletVersion reports whether Cluster API takes v for a version.
func kubeletVersion(v string) bool {
	_, err := version.ParseSemantic(v)
	return err == nil && strings.HasPrefix(v, "v")
}

// clusterMachines judges each Machine.
func (p *planner) clusterMachines(want *migration.NativeObjects) {
	for i := range p.ClusterAPI.Machines {
		m := &p.ClusterAPI.Machines[i]
		out := MachinePlan{
			Name: m.Name, Phase: m.Status.Phase, Verdict: VerdictKept, Finalizers: m.Finalizers,
			Node: m.Status.NodeRef.Name, ProviderIDForm: FormSame,
			Set: nameAt(p.ClusterAPI.Sets, p.ClusterAPI.SetOf(m)),
		}
		if node := p.Nodes[out.Node]; node != nil {
			out.KubeletVersion = node.Status.NodeInfo.KubeletVersion
		}
		o := objects.Find(p.ClusterAPI.MCMMachines, m.Spec.InfrastructureRef.Name)
		p.judgeCluster(&out, m, o)
		if o != nil {
			p.retainsVM(o)
		}
		p.nativeCopy(&out, o, objects.Find(want.Machines, m.Spec.InfrastructureRef.Name))
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
		p.find(migration.Lost.Finding(objects.Name(objects.KindMCMMachine, o),
			"metadata.annotations["+machinev1.RetainVMAnnotation+"]",
			"natively the VM goes with its Machine; a way back does not set it again", ""))
	}
}
