package plan

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/objects"
	"github.com/capmcm/cluster-api-provider-mcm/ops/read"
)

// surroundings is about what a pool shares with others.
func (p *planner) surroundings() {
	if p.Around == nil {
		return
	}
	for _, kind := range p.Around.Unserved {
		p.block("CustomResourceDefinition "+kind, "", "the API server does not know this kind", "install both APIs, and "+
			"Cluster API: clusterctl init --infrastructure capmcm --bootstrap capmcm --control-plane capmcm")
	}
	p.Findings = append(p.Findings, p.Around.ForeignLeases(p.options.Now)...)
	if p.options.To == migration.ClusterAPI {
		p.selectors(&p.Native)
		p.classes()
	}
}

// classes is about the classes of the pool: that they exist, who else uses them, and
// whether the other API may read their Secrets.
func (p *planner) classes() {
	used := map[string]bool{}
	if d := p.Native.Deployment; d != nil {
		used[d.Spec.Template.Spec.Class.Name] = true
	}
	for i := range p.Native.Machines {
		used[p.Native.Machines[i].Spec.Class.Name] = true
	}
	for _, name := range objects.Keys(used) {
		class := p.Around.Classes[name]
		object := machinev1.MachineClassKind + " " + p.Plan.Pool.Namespace + "/" + name
		if class == nil {
			p.block(object, "", "it does not exist", "restore it")
			continue
		}
		if others := p.usersBeside(name); len(others) > 0 {
			p.find(migration.Kept.Finding(object, "", fmt.Sprintf("it is also used by %s; each API keeps a finalizer of its "+
				"own on it, so it stays while either needs it", strings.Join(others, ", ")), ""))
		}
		if t := class.NodeTemplate; t != nil && len(t.VirtualCapacity) > 0 {
			p.find(migration.Lost.Finding(object, "nodeTemplate.virtualCapacity",
				"Cluster API writes no virtual capacity; what stands on the Nodes stays, new Nodes get none", ""))
		}
		p.secrets(object, class)
	}
}

func (p *planner) secrets(object string, class *machinev1.MachineClass) {
	for _, ref := range read.SecretsOf(class) {
		secret := p.Around.Secrets[ref.Key]
		there := secret != nil && secret.Name != ""
		own := ref.Key.Namespace == class.Namespace
		switch {
		case own && !there:
			p.block(object, ref.Field, "Secret "+ref.Key.String()+" does not exist, and without it no VM is found",
				"restore it")
		case own, there && allowed(secret, class.Namespace):
		default:
			text := " is of another namespace and does not exist"
			if there {
				text = " is of another namespace and does not allow this one, as Cluster API asks for"
			}
			p.block(object, ref.Field, "Secret "+ref.Key.String()+text, fmt.Sprintf("set annotation %s=%s on that Secret, or "+
				"copy it here and name the copy", machinev1.AllowedNamespacesAnnotation, class.Namespace))
		}
	}
}

func allowed(secret metav1.Object, namespace string) bool {
	for item := range strings.SplitSeq(secret.GetAnnotations()[machinev1.AllowedNamespacesAnnotation], ",") {
		if item = strings.TrimSpace(item); item == "*" || item == namespace {
			return true
		}
	}
	return false
}

// usersBeside are the native pools, besides this one, that use a class.
func (p *planner) usersBeside(class string) []string {
	var users []string
	add := func(kind migration.Kind, o metav1.Object, of string) {
		pool := migration.Pool{Kind: kind, Namespace: o.GetNamespace(), Name: o.GetName()}
		if of == class && metav1.GetControllerOf(o) == nil && pool.String() != p.Plan.Pool.String() {
			users = append(users, pool.String())
		}
	}
	for i := range p.Around.Deployments {
		add(migration.KindDeployment, &p.Around.Deployments[i], p.Around.Deployments[i].Spec.Template.Spec.Class.Name)
	}
	for i := range p.Around.Sets {
		add(migration.KindSet, &p.Around.Sets[i], p.Around.Sets[i].Spec.Template.Spec.Class.Name)
	}
	for i := range p.Around.Machines {
		add(migration.KindMachine, &p.Around.Machines[i], p.Around.Machines[i].Spec.Class.Name)
	}
	return users
}

// claim is what a native object takes for its own.
type claim struct {
	kind     string
	object   metav1.Object
	selector *metav1.LabelSelector
	labels   map[string]string // of its machines
}

func claimOfDeployment(d *machinev1.MachineDeployment) claim {
	return claim{machinev1.MachineDeploymentKind, d, d.Spec.Selector, d.Spec.Template.Labels}
}

func claimOfSet(s *machinev1.MachineSet) claim {
	return claim{machinev1.MachineSetKind, s, s.Spec.Selector, s.Spec.Template.Labels}
}

// claims are those of all pools of the namespace that make machines.
func claims(s *migration.Namespace) []claim {
	var out []claim
	for i := range s.Deployments {
		out = append(out, claimOfDeployment(&s.Deployments[i]))
	}
	for i := range s.Sets {
		if metav1.GetControllerOf(&s.Sets[i]) == nil {
			out = append(out, claimOfSet(&s.Sets[i]))
		}
	}
	return out
}

// selectors refuses pools that would take each other's machines. n is what the pool
// is, or is to be, natively.
func (p *planner) selectors(n *migration.NativeObjects) {
	if p.Around == nil {
		return
	}
	switch {
	case n.Deployment != nil:
		p.overlap(claimOfDeployment(n.Deployment))
	case p.Plan.Pool.Kind == migration.KindSet && len(n.Sets) > 0 && metav1.GetControllerOf(&n.Sets[0]) == nil:
		p.overlap(claimOfSet(&n.Sets[0]))
	case p.Plan.Pool.Kind == migration.KindMachine && len(n.Machines) > 0:
		p.adopters(&n.Machines[0])
	}
}

func (p *planner) overlap(mine claim) {
	for _, other := range claims(p.Around) {
		if other.kind == mine.kind && other.object.GetName() == mine.object.GetName() {
			continue
		}
		if objects.Selects(other.selector, mine.labels) || objects.Selects(mine.selector, other.labels) {
			p.block(objects.Name(mine.kind, mine.object), "spec.selector", "it and "+other.kind+" "+other.object.GetName()+
				" select each other's machines; an autoscaler would count them twice, and a machine without an owner could be "+
				"adopted by either", "give one of them a label of its own, in spec.selector and spec.template; that rolls it")
		}
	}
}

// adopters refuses a Machine that a native MachineSet takes as soon as it can.
func (p *planner) adopters(m *machinev1.Machine) {
	if metav1.GetControllerOf(m) != nil {
		return
	}
	for i := range p.Around.Sets {
		if s := &p.Around.Sets[i]; objects.Selects(s.Spec.Selector, m.Labels) {
			p.block(objects.Name(machinev1.MachineKind, m), "metadata.labels",
				"MachineSet "+s.Name+" selects it, and adopts it as soon as it may",
				"take the labels that it selects by off the Machine, or move the pool of that MachineSet")
		}
	}
}

// names refuses names that Cluster API cannot have, or that somebody else has.
func (p *planner) names(want *migration.ClusterAPIObjects) {
	if d := want.Deployment; d != nil {
		if problems := validation.IsValidLabelValue(d.Name); len(problems) > 0 {
			p.block(objects.Name(machinev1.MachineDeploymentKind, d), "metadata.name", "Cluster API puts it into a label: "+
				strings.Join(problems, "; "), "make a pool with a shorter name, and move the load there")
		}
	}
	if p.Phase != "" || p.Around == nil {
		return
	}
	heads := map[string]metav1.Object{}
	if d := p.Native.Deployment; d != nil {
		heads[d.Name] = d
	}
	sets, machines := objects.ByName(p.Native.Sets), objects.ByName(p.Native.Machines)
	taken(p.Around.ClusterDeployments, heads, machinev1.MachineDeploymentKind, machinev1.MachineDeploymentKind, p.taken)
	taken(p.Around.ClusterSets, sets, machinev1.MachineSetKind, machinev1.MachineSetKind, p.taken)
	taken(p.Around.ClusterMachines, machines, machinev1.MachineKind, machinev1.MachineKind, p.taken)
	taken(p.Around.MCMMachines, machines, machinev1.MachineKind, objects.KindMCMMachine, p.taken)
	for i := range want.BootstrapSecrets {
		have := p.Around.Secrets[client.ObjectKeyFromObject(&want.BootstrapSecrets[i])]
		if have != nil && objects.CopiedFrom(have, machinev1.MachineKind) == "" {
			p.taken("Secret", have)
		}
	}
}

// nativeNames refuses names that somebody else has on the native API.
func (p *planner) nativeNames(want *migration.NativeObjects) {
	if p.Phase != "" || p.Around == nil {
		return
	}
	takenNatively := func(kind string, o metav1.Object) {
		p.block(objects.Name(kind, o), "",
			"it exists on the native API, and is no copy of that of Cluster API with this name", "delete or rename it")
	}
	heads := map[string]metav1.Object{}
	if want.Deployment != nil {
		heads[p.Plan.Pool.Name] = p.ClusterAPI.Deployment
	}
	sets, machines := objects.ByName(p.ClusterAPI.Sets), objects.ByName(p.ClusterAPI.Machines)
	taken(p.Around.Deployments, heads, machinev1.MachineDeploymentKind, machinev1.MachineDeploymentKind, takenNatively)
	taken(p.Around.Sets, sets, machinev1.MachineSetKind, machinev1.MachineSetKind, takenNatively)
	taken(p.Around.Machines, machines, machinev1.MachineKind, machinev1.MachineKind, takenNatively)
}

// taken says which objects, called kind, have a name of the pool's own objects without being their copies.
// own is the kind that annotations of copies name.
func taken[T any, P objects.Object[T]](around []T, ours map[string]metav1.Object, own, kind string,
	say func(string, metav1.Object),
) {
	for i := range around {
		o := P(&around[i])
		if mine := ours[o.GetName()]; mine != nil && !objects.Related(o, mine, own) {
			say(kind, o)
		}
	}
}

// taken adds the finding that an object that this move did not create has a name
// that it needs on Cluster API.
func (p *planner) taken(kind string, o metav1.Object) {
	p.block(objects.Name(kind, o), "", "it exists on Cluster API, and was not made from the native object of this name",
		"delete or rename it")
}

// healthChecks is about MachineHealthChecks that are there before the pool's own is
// made: two that look at the same machines would both replace them.
func (p *planner) healthChecks(want *migration.ClusterAPIObjects) {
	if want.HealthCheck == nil || p.Around == nil || p.Phase != "" || p.ClusterAPI.HealthCheck != nil {
		return
	}
	if check := migration.CheckOf(p.Around.HealthChecks, want, p.Plan.Pool); check != nil {
		want.HealthCheck = nil
		p.find(migration.Lost.Finding(objects.Name(objects.KindHealthCheck, check), "spec.selector",
			"this MachineHealthCheck selects the machines of the pool, too: it goes on to decide about them, with its "+
				"own timeouts, and the pool gets none of its own", ""))
		return
	}
	if check := objects.Find(p.Around.HealthChecks, want.HealthCheck.Name); check != nil {
		p.taken(objects.KindHealthCheck, check)
	}
}

// clusterState is about the Cluster that the pool is to belong to.
func (p *planner) clusterState() {
	name := p.options.Cluster
	if name == "" {
		p.block(p.Plan.Pool.String(), "spec.clusterName", "no Cluster is named",
			"name it with --cluster; one that does not exist is made")
		return
	}
	object := objects.KindCluster + " " + p.Plan.Pool.Namespace + "/" + name
	if c := p.PoolState.Cluster.Cluster; c != nil {
		p.oldCluster(object, c)
		return
	}
	if problems := append(validation.IsDNS1123Subdomain(name), validation.IsValidLabelValue(name)...); len(problems) > 0 {
		p.block(object, "metadata.name", "no Cluster can be called so: "+strings.Join(problems, "; "),
			"give another name with --cluster")
	}
	secret := client.ObjectKey{Namespace: p.Plan.Pool.Namespace, Name: p.options.KubeconfigSecret}
	const field = "spec.kubeconfigSecretRef"
	switch {
	case secret.Name == "" && p.options.Apart:
		p.block(object, field, "the nodes are in another cluster than the objects, and without a kubeconfig Cluster API "+
			"would look for them in that of the objects",
			"name a Secret with the kubeconfig of the cluster with the nodes: --kubeconfig-secret")
	case secret.Name != "" && p.Around != nil && p.Around.Secrets[secret] == nil:
		p.block(object, field, "Secret "+secret.String()+" does not exist",
			"make it, with the kubeconfig of the cluster with the nodes in its entry value")
	}
}

// oldCluster is about a Cluster that is there, and how its control plane is reached.
func (p *planner) oldCluster(object string, c *clusterv1.Cluster) {
	const field = "spec.controlPlaneRef"
	switch {
	case !c.DeletionTimestamp.IsZero():
		p.block(object, "", "it is being deleted", "name another")
	case objects.Value(c.Spec.Paused):
		p.block(object, "spec.paused", "it is paused, so nobody would look after the machines", "set it to false")
	}
	if !c.Spec.ControlPlaneRef.IsDefined() {
		p.block(object, field, "without a control plane Cluster API neither drains nor checks the machines",
			"name an MCMExternalControlPlane")
	}
	plane, secret := p.PoolState.Cluster.ControlPlane, p.options.KubeconfigSecret
	if plane != nil && objects.Value(plane.Spec.SelfHosted) && p.options.Apart {
		p.block(object, field, "MCMExternalControlPlane "+plane.Name+
			" says selfHosted, and the nodes are in another cluster than the objects: Cluster API would not find them",
			"give it spec.kubeconfigSecretRef instead, or name another Cluster")
	}
	named := plane != nil && objects.Value(plane.Spec.KubeconfigSecretRef).Name == secret
	if secret != "" && p.Phase == "" && !named {
		p.block(object, field, "the Cluster exists, and its control plane is not reached by Secret "+secret,
			"leave --kubeconfig-secret out, or name another Cluster")
	}
}
