package migration

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/version"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// toClusterAPI plans a move away from the native door.
func (p *planner) toClusterAPI() {
	if p.Native.Empty() {
		p.absent(DoorNative, machinev1.GroupVersion.Group)
		return
	}
	want, findings := p.CopyToClusterAPI(p.options)
	p.Findings = append(p.Findings, findings...)
	p.nativeHead()
	p.atWork(DoorNative)
	versions := p.nativeMachines(&want)
	p.versions(versions, &want)
	p.names(&want)
	p.healthChecks(&want)
	p.clusterState()
	p.createsOfClusterAPI(&want)
	p.finalizersToClusterAPI()
}

// nativeHead is about the state of the pool as a whole.
func (p *planner) nativeHead() {
	d := p.Native.Deployment
	for i := range p.Native.Sets {
		if s := &p.Native.Sets[i]; !s.DeletionTimestamp.IsZero() {
			p.find(Finding{
				Level: Blocked, Object: objectName(machinev1.MachineSetKind, s), Text: "it is being deleted",
				Remedy: "wait until it is gone",
			})
		}
	}
	switch p.Plan.Pool.Kind {
	case KindSet:
		p.nativeSet(&p.Native.Sets[0])
		return
	case KindMachine:
		p.Replicas = 1
		p.partOf(machinev1.MachineKind, &p.Native.Machines[0])
		return
	case KindDeployment:
	}
	if p.Replicas = int32(len(p.Native.Machines)); d == nil { // #nosec G115 -- objects in memory
		return
	}
	p.Replicas = d.Spec.Replicas
	object := objectName(machinev1.MachineDeploymentKind, d)
	block := func(field, text, remedy string) {
		p.find(Finding{Level: Blocked, Object: object, Field: field, Text: text, Remedy: remedy})
	}
	switch {
	case !d.DeletionTimestamp.IsZero():
		block("", "it is being deleted", "wait until it is gone")
	case d.Spec.RollbackTo != nil:
		block("spec.rollbackTo", "a rollback to an earlier revision has been asked for", "wait until it is done")
	case d.Status.ObservedGeneration < d.Generation && p.Phase == "":
		block("", fmt.Sprintf("its last change, generation %d, has not been seen by its controller, which has seen %d",
			d.Generation, d.Status.ObservedGeneration), "wait, or start the native door")
	}
	p.selectsAll(object, d.Spec.Selector)
	if names := d.Annotations[machinev1.TriggerDeletionAnnotation]; names != "" {
		block("metadata.annotations["+machinev1.TriggerDeletionAnnotation+"]", "an autoscaler has asked for the deletion of "+
			names, "wait until they are gone")
	}
	p.frozen(object, d)
	p.rollout(object)
}

// rollout refuses a pool that is between two templates.
func (p *planner) rollout(object string) {
	current := p.Native.currentSet()
	if current < 0 {
		p.find(Finding{
			Level: Blocked, Object: object, Field: "spec.template",
			Text: "no MachineSet has this template yet: a rollout begins", Remedy: "wait until it is over, or undo the change " +
				"of the template",
		})
		return
	}
	old := map[string]int{}
	for i := range p.Native.Machines {
		if set := p.Native.setOf(&p.Native.Machines[i]); set >= 0 && set != current {
			old[p.Native.Sets[set].Name]++
		}
	}
	for _, name := range keysOf(old) {
		p.find(Finding{
			Level: Blocked, Object: object, Field: "spec.template",
			Text: fmt.Sprintf("it is in the middle of a rollout: MachineSet %s, of another template, still has machines (%d)",
				name, old[name]), Remedy: "wait until the rollout is over, or undo the change of the template",
		})
	}
	p.scales(object, len(p.Native.Machines))
}

// nativeMachines judges each Machine, and counts kubelet versions.
func (p *planner) nativeMachines(want *ClusterAPI) map[string]int {
	nodes, versions := p.nodesByMachine(), map[string]int{}
	for _, n := range nodes {
		versions[n.version]++
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
		}
		if set := p.Native.setOf(m); set >= 0 {
			out.Set = p.Native.Sets[set].Name
		}
		if out.ProviderID != m.Spec.ProviderID {
			out.ProviderIDForm = FormNode
		}
		if n := nodes[m.Name]; n != nil {
			out.Node, out.KubeletVersion = n.node.Name, n.version
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
	if !m.DeletionTimestamp.IsZero() {
		out.Verdict = VerdictKept // this reason goes before its phase
		out.block("it is being deleted", "wait until it is gone")
	}
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
	if m.Annotations[machinev1.ProviderIDFormAnnotation] == machinev1.ProviderIDFormMCM && p.Phase == "" {
		out.block("its providerID is being turned into MCM's form", "wait until annotation "+
			machinev1.ProviderIDFormAnnotation+" is gone")
	}
	if p.Plan.Pool.Kind == KindDeployment && out.Set == "" {
		out.block("it belongs to no MachineSet of the pool", "wait until it is adopted")
	}
}

func preserves(value string) bool {
	return value == machinev1.PreserveNow || value == machinev1.PreserveWhenFailed || value == machinev1.PreserveAuto
}

// judgeNode says what is in the way of a Machine on its node.
func judgeNode(out *MachinePlan, m *machinev1.Machine, n *nodeFacts) {
	if n == nil {
		out.block("its Node is not there", "wait until it has joined, or delete the Machine")
		return
	}
	id := n.node.Spec.ProviderID
	switch {
	case id == "":
		out.block("its Node "+n.node.Name+" has no spec.providerID, by which Cluster API finds it",
			"run the cloud's cloud-controller-manager, or set it on the Node")
	case m.Spec.ProviderID != "" && !sameVM(id, m.Spec.ProviderID):
		out.block(fmt.Sprintf("its Node %s runs on %s, and the Machine's VM is %s", n.node.Name, id, m.Spec.ProviderID),
			"find out which of them is right; delete the Node if it is a leftover")
	case !n.node.DeletionTimestamp.IsZero():
		out.block("its Node "+n.node.Name+" is being deleted", "wait until the Machine is gone")
	}
	if preserves(n.node.Annotations[machinev1.PreserveAnnotation]) {
		out.block(fmt.Sprintf("annotation %s=%s of its Node asks to preserve it, which Cluster API cannot",
			machinev1.PreserveAnnotation, n.node.Annotations[machinev1.PreserveAnnotation]), "remove the annotation "+
			"from the Node")
	}
	if !kubeletVersion(n.version) {
		out.block(fmt.Sprintf("its kubelet reports version %q, which Cluster API refuses: it is no semantic version with a "+
			"v before it", n.version), "use a kubelet that reports one")
	}
}

// versions refuses a pool whose kubelets differ: Cluster API would never take all of
// its machines for up to date.
func (p *planner) versions(counts map[string]int, want *ClusterAPI) {
	object := p.Plan.Pool.String()
	if len(counts) > 1 {
		var texts []string
		for _, v := range keysOf(counts) {
			texts = append(texts, fmt.Sprintf("%s (%d)", v, counts[v]))
		}
		p.find(Finding{
			Level: Blocked, Object: object, Field: "status.nodeInfo.kubeletVersion",
			Text: "its nodes have different versions: " + strings.Join(texts, ", ") +
				"; spec.version of a MachineDeployment is one, and machines of another are never up to date",
			Remedy: "bring all to one version, e.g. by a rollout",
		})
	}
	templates := want.machineTemplates()
	if len(templates) == 0 {
		return
	}
	const field = "spec.template.spec.version"
	switch v := templates[0].Spec.Version; {
	case v == "":
		p.find(Finding{
			Level: Blocked, Object: object, Field: field,
			Text: "it has no node that would tell the kubelet's version, and machines of another than spec.version are never " +
				"up to date", Remedy: "say it with --kubelet-version, or scale the pool to one first",
		})
	case len(counts) == 0 && !kubeletVersion(v):
		p.find(Finding{
			Level: Blocked, Object: object, Field: field,
			Text: fmt.Sprintf("%q is no semantic version with a v before it, and Cluster API refuses it",
				v), Remedy: "say --kubelet-version as kubelets report it, such as v1.36.3",
		})
	}
}

// kubeletVersion reports whether Cluster API takes v for a version.
func kubeletVersion(v string) bool {
	_, err := version.ParseSemantic(v)
	return err == nil && strings.HasPrefix(v, "v")
}

// names refuses names that Cluster API cannot have, or that somebody else has.
func (p *planner) names(want *ClusterAPI) {
	if d := want.Deployment; d != nil {
		if problems := validation.IsValidLabelValue(d.Name); len(problems) > 0 {
			p.find(Finding{
				Level: Blocked, Object: objectName(machinev1.MachineDeploymentKind, d), Field: "metadata.name",
				Text: "Cluster API puts it into a label: " +
					strings.Join(problems, "; "), Remedy: "make a pool with a shorter name, and move the load there",
			})
		}
	}
	if p.Phase != "" || p.around == nil {
		return
	}
	for i := range p.around.ClusterDeployments {
		if o := &p.around.ClusterDeployments[i]; want.Deployment != nil && o.Name == want.Deployment.Name &&
			!related(o, p.Native.Deployment, machinev1.MachineDeploymentKind) {
			p.taken(machinev1.MachineDeploymentKind, o)
		}
	}
	sets, machines := byName(p.Native.Sets), byName(p.Native.Machines)
	for i := range p.around.ClusterSets {
		if o := &p.around.ClusterSets[i]; sets[o.Name] != nil && !related(o, sets[o.Name], machinev1.MachineSetKind) {
			p.taken(machinev1.MachineSetKind, o)
		}
	}
	for i := range p.around.ClusterMachines {
		if o := &p.around.ClusterMachines[i]; machines[o.Name] != nil &&
			!related(o, machines[o.Name], machinev1.MachineKind) {
			p.taken(machinev1.MachineKind, o)
		}
	}
	for i := range p.around.MCMMachines {
		if o := &p.around.MCMMachines[i]; machines[o.Name] != nil && !related(o, machines[o.Name], machinev1.MachineKind) {
			p.taken(kindMCMMachine, o)
		}
	}
	for i := range want.BootstrapSecrets {
		o := &want.BootstrapSecrets[i]
		if have := p.around.Secrets[client.ObjectKeyFromObject(o)]; have != nil &&
			originOf(have, machinev1.MachineKind) == "" {
			p.taken("Secret", have)
		}
	}
}

// createsOfClusterAPI notes what would be made.
func (p *planner) createsOfClusterAPI(want *ClusterAPI) {
	if p.Scene.Cluster.Cluster == nil && p.options.Cluster != "" {
		for _, kind := range []string{kindCluster, "MCMCluster", "MCMExternalControlPlane"} {
			p.Creates = append(p.Creates, Objects{Kind: kind, Names: []string{p.options.Cluster}})
		}
	}
	have := &p.Scene.ClusterAPI
	creates(p, kindMCMMachineTemplate, want.MachineTemplates, namesOf(have.MachineTemplates))
	creates(p, kindMCMConfigTemplate, want.ConfigTemplates, namesOf(have.ConfigTemplates))
	if want.Deployment != nil && have.Deployment == nil {
		creates(p, machinev1.MachineDeploymentKind, []clusterv1.MachineDeployment{*want.Deployment}, nil)
	}
	creates(p, machinev1.MachineSetKind, want.Sets, namesOf(have.Sets))
	creates(p, machinev1.MachineKind, want.Machines, namesOf(have.Machines))
	creates(p, kindMCMMachine, want.MCMMachines, namesOf(have.MCMMachines))
	creates[corev1.Secret](p, "Secret", want.BootstrapSecrets, namesOf(have.BootstrapSecrets))
	if want.HealthCheck != nil && have.HealthCheck == nil {
		creates(p, kindHealthCheck, []clusterv1.MachineHealthCheck{*want.HealthCheck}, nil)
	}
}

// finalizersToClusterAPI says what becomes of what keeps objects.
func (p *planner) finalizersToClusterAPI() {
	p.Finalizers = []Finalizer{
		{clusterv1.MachineFinalizer, "Machine (Cluster API)", "added by Cluster API before the native Machine may go"},
		{machinev1.MCMMachineFinalizer, kindMCMMachine, "added before the native Machine may go"},
		{machinev1.Finalizer, "Machine, MachineSet, MachineDeployment (native)", "stays until finish"},
		{machinev1.NodeFinalizer, "Node", "removed once the new Machines have theirs: Cluster API deletes Nodes itself"},
		{
			machinev1.InUseFinalizer, "MachineClass and its Secrets",
			"added; that of the native door stays while it has users there",
		},
	}
}
