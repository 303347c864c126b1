package recovery

import (
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/objects"
)

const decideRemedy = "decide about it with kubectl mcm orphans approve or keep"

// assign returns the pool that a VM belongs to, nil for none.
func (r *planner) assign(vm *VM, v *VMPlan) (*pool, *problem) {
	p, why := r.poolOf(vm, v)
	if why != nil || p == nil {
		return nil, why
	}
	v.Set = p.set.GetName()
	if p.class != "" && objects.Find(r.state.MachineClasses, p.class) == nil {
		return nil, blocked(fmt.Sprintf("MachineClass %s of MachineSet %s does not exist", p.class, v.Set),
			"create the class first: without it the VM can neither be seen nor deleted")
	}
	key := r.state.Namespace + "/" + p.class
	if len(vm.Classes) > 0 && p.class != "" && !slices.Contains(vm.Classes, key) {
		return nil, blocked(fmt.Sprintf("MachineClass %s of MachineSet %s is not of the account that the VM is in", p.class,
			v.Set), "name the right MachineSet with --set, or "+decideRemedy)
	}
	return p, r.blockedPool(p, v)
}

// blockedPool returns why no machine can be added to a pool now.
func (r *planner) blockedPool(p *pool, v *VMPlan) *problem {
	if p.deployment != nil && !p.deployment.GetDeletionTimestamp().IsZero() {
		return blocked("MachineDeployment "+p.deployment.GetName()+" is being deleted", decideRemedy)
	}
	if o := p.heldByOther(r.pools); o != nil {
		return heldProblem(o)
	}
	if !p.rolls(r.pools) {
		return nil
	}
	text := fmt.Sprintf("MachineDeployment %s has a newer template than MachineSet %s: its rollout replaces the machine",
		p.deployment.GetName(), p.set.GetName())
	if r.options.AcceptRollout {
		v.Notes = append(v.Notes, text)
		return nil
	}
	return blocked(text, "set spec.paused of the MachineDeployment, or accept that with --accept-rollout")
}

// heldProblem is that somebody else holds an object of a pool: nothing may be written to it,
// and its controllers would never answer.
func heldProblem(o client.Object) *problem {
	if objects.IsNative(o) {
		return blocked(objects.Title(o)+" is held: it is moved to the other API", "finish that or roll it back: "+
			"kubectl mcm migrate status")
	}
	return blocked(fmt.Sprintf("%s is paused by its annotation %s", objects.Title(o), HoldKey(o)),
		"remove that annotation once its reason is gone")
}

// heldByOther returns an object of a pool, or of its deployment's other pools, that somebody
// else holds; nil for none.
func (p *pool) heldByOther(all []*pool) client.Object {
	if p.deployment != nil && heldByOther(p.deployment) {
		return p.deployment
	}
	for _, s := range siblings(all, p) {
		if heldByOther(s.set) {
			return s.set
		}
	}
	return nil
}

// poolOf finds the pool of a VM: that of the Machine that an interrupted run has made, by its
// owner id, by its name, as the person says, or as the newest of the deployment that its name
// tells. It returns nil for a machine of its own.
func (r *planner) poolOf(vm *VM, v *VMPlan) (*pool, *problem) {
	mine := r.poolsOf(vm)
	if m := r.halfMade(vm); m != nil {
		for _, p := range mine {
			if metav1.IsControlledBy(m, p.set) {
				return p, nil
			}
		}
	}
	if i := slices.IndexFunc(mine, func(p *pool) bool { return p.made(vm) }); i >= 0 {
		return mine[i], nil
	}
	named := filter(mine, func(p *pool) bool { return p.names(vm.Machine) })
	switch {
	case len(named) == 1:
		return named[0], nil
	case r.options.Set != "":
		return r.chosenSet(vm, mine)
	case len(named) > 1:
		return nil, blocked(fmt.Sprintf("its name fits MachineSets %s and %s", named[0].set.GetName(),
			named[1].set.GetName()), "name the MachineSet with --set")
	}
	if of := filter(mine, func(p *pool) bool { return p.deploymentNames(vm.Machine) }); len(of) > 0 {
		p := current(r.pools, of[0])
		v.Notes = append(v.Notes, fmt.Sprintf("its MachineSet does not exist any more, so it joins %s: once "+
			"MachineDeployment %s gets the template again that it was made from, a rollout replaces it",
			p.set.GetName(), p.deployment.GetName()))
		return p, nil
	}
	return nil, r.alone(vm)
}

// poolsOf returns the pools that a VM can be of: those of its API, and of its Cluster.
func (r *planner) poolsOf(vm *VM) []*pool {
	cluster := ""
	if vm.API == migration.ClusterAPI {
		cluster = r.clusterOf(vm)
	}
	return filter(r.pools, func(p *pool) bool { return p.api == vm.API && p.cluster == cluster })
}

// chosenSet returns the pool that the person has named.
func (r *planner) chosenSet(vm *VM, mine []*pool) (*pool, *problem) {
	for _, p := range mine {
		if p.set.GetName() == r.options.Set {
			return p, nil
		}
	}
	return nil, blocked(fmt.Sprintf("MachineSet %s does not exist, or is not of the API or Cluster of VM %s",
		r.options.Set, vm.ID), "name another one with --set")
}

// alone returns why a VM cannot get a Machine of its own; nil if it can.
func (r *planner) alone(vm *VM) *problem {
	if vm.API == migration.ClusterAPI {
		return blocked("its name tells no MachineSet of its Cluster", "restore the MachineDeployment and MachineSet, or "+
			"name one with --set")
	}
	if r.options.Class == "" {
		return blocked("its name tells no MachineSet", "name one with --set, or the MachineClass of a Machine without "+
			"one with --class")
	}
	key := r.state.Namespace + "/" + r.options.Class
	if objects.Find(r.state.MachineClasses, r.options.Class) == nil ||
		len(vm.Classes) > 0 && !slices.Contains(vm.Classes, key) {
		return blocked("MachineClass "+r.options.Class+" does not exist, or is not of the account that the VM is in",
			"name another one with --class")
	}
	return nil
}

func filter[T any](all []T, keep func(T) bool) []T {
	var out []T
	for _, t := range all {
		if keep(t) {
			out = append(out, t)
		}
	}
	return out
}

// identity is what a Machine or MCMMachine that exists has of its VM.
type identity struct{ kind, name, ownerID, providerID string }

// identities returns those of both APIs.
func identities(s *State) []identity {
	var out []identity
	for i := range s.Machines {
		m := &s.Machines[i]
		out = append(out, identity{"Machine ", m.Name, machinev1.OwnerID(m), m.Spec.ProviderID})
	}
	for i := range s.MCMMachines {
		m := &s.MCMMachines[i]
		out = append(out, identity{"MCMMachine ", m.Name, machinev1.OwnerID(m), m.Spec.ProviderID})
	}
	return out
}

// existing reports whether the VM has a machine already, or why it can get none.
func (r *planner) existing(vm *VM) (bool, *problem) {
	switch {
	case vm.Machine == "":
		return false, blocked("it does not carry the name of a machine", decideRemedy)
	case vm.ProviderID == "":
		return false, blocked("its providerID is not listed", "wait for the manager to list it, or update the manager")
	}
	all := identities(r.state)
	if slices.ContainsFunc(all, func(m identity) bool { return m.has(vm) }) {
		return true, nil
	}
	if i := slices.IndexFunc(all, func(m identity) bool { return m.related(vm) }); i >= 0 {
		return false, blocked(all[i].kind+all[i].name+" exists, with another VM or none", decideRemedy)
	}
	if why := r.withoutMCMMachine(vm); why != nil {
		return false, why
	}
	if key := r.decided(vm); key != "" {
		return false, blocked("a person has decided about it in the annotation "+key+" of a MachineClass",
			"name it by its ID to recover it all the same")
	}
	if why := r.sharesIdentity(vm); why != nil {
		return false, why
	}
	if vm.Second {
		return false, blocked(vm.Why, decideRemedy)
	}
	return false, nil
}

// related reports whether the machine has the name or the owner id of the VM.
func (m identity) related(vm *VM) bool {
	return m.name == vm.Machine || vm.OwnerID != "" && m.ownerID == vm.OwnerID
}

// has reports whether the VM is the machine's, or will be: a machine that does not know its
// VM yet finds it by the owner id.
func (m identity) has(vm *VM) bool {
	switch m.providerID {
	case "":
		return vm.OwnerID != "" && m.ownerID == vm.OwnerID
	case vm.ProviderID, vm.NodeProviderID:
		return true
	}
	return m.related(vm) && objects.SameVM(m.providerID, vm.ProviderID)
}

// withoutMCMMachine returns that a Machine of Cluster API has the name and no MCMMachine,
// unless an interrupted recovery has created it.
func (r *planner) withoutMCMMachine(vm *VM) *problem {
	m := objects.Find(r.state.ClusterMachines, vm.Machine)
	if vm.API != migration.ClusterAPI || m == nil || r.halfMade(vm) != nil {
		return nil
	}
	return blocked("Machine "+m.Name+" exists, and its MCMMachine does not", "delete the Machine, or restore the "+
		"MCMMachine")
}

// halfMade returns the Machine that an interrupted recovery has created for the VM, and whose
// MCMMachine it has not; nil for none.
func (r *planner) halfMade(vm *VM) *clusterv1.Machine {
	if vm.API != migration.ClusterAPI || vm.Machine == "" {
		return nil
	}
	m := objects.Find(r.state.ClusterMachines, vm.Machine)
	if m == nil || !Held(m) || !m.DeletionTimestamp.IsZero() ||
		objects.Find(r.state.MCMMachines, vm.Machine) != nil ||
		m.Spec.ProviderID != vm.NodeProviderID && !objects.SameVM(m.Spec.ProviderID, vm.ProviderID) {
		return nil
	}
	return m
}

// sharesIdentity returns that another VM is listed with the same machine name or owner id,
// unless vm is the only one of them that has a Node. VMs that are kept, or approved for
// removal, are decided about.
func (r *planner) sharesIdentity(vm *VM) *problem {
	var others []string
	nodes := 0
	for i := range r.listed {
		other := &r.listed[i]
		if other.ID == vm.ID || !sameIdentity(vm, other) || r.decided(other) != "" {
			continue
		}
		others = append(others, other.ID)
		if r.lookUpNode(other) != nil {
			nodes++
		}
	}
	if len(others) == 0 || nodes == 0 && r.lookUpNode(vm) != nil {
		return nil
	}
	return blocked("VM "+join(others)+" has the same machine name or owner ID", "find out which one serves, and "+
		"approve or keep the other with kubectl mcm orphans")
}

// sameIdentity reports whether two VMs are of one machine.
func sameIdentity(a, b *VM) bool {
	return a.Machine == b.Machine && a.ClusterID == b.ClusterID || a.OwnerID != "" && a.OwnerID == b.OwnerID
}

// nodes are Nodes by name.
type nodes map[string]*corev1.Node

func nodesOf(list []corev1.Node) nodes {
	out := nodes{}
	for i := range list {
		out[list[i].Name] = &list[i]
	}
	return out
}

// nodeOf returns the Node of a VM, nil if there is none, or why it cannot be taken.
func (r *planner) nodeOf(vm *VM, v *VMPlan) (*corev1.Node, *problem) {
	node := r.lookUpNode(vm)
	if node == nil {
		if other := r.nodes[vm.Node]; other != nil {
			return nil, blocked(fmt.Sprintf("Node %s has providerID %s, which is another VM", other.Name,
				other.Spec.ProviderID), "find out which VM runs, and delete the Node of the other")
		}
		v.Node = vm.Node
		v.Notes = append(v.Notes, "it has no Node: the machine is replaced if none joins within its creation timeout")
		return nil, nil
	}
	v.Node = node.Name
	if !node.DeletionTimestamp.IsZero() {
		return nil, blocked("Node "+node.Name+" is being deleted, and the machine would be deleted with it",
			"remove the finalizers of the Node and restart its kubelet, or "+decideRemedy)
	}
	for i := range r.state.Machines {
		if m := &r.state.Machines[i]; m.Labels[machinev1.NodeLabel] == node.Name {
			return nil, blocked("Machine "+m.Name+" has the Node "+node.Name, "correct the label "+
				machinev1.NodeLabel+" of that Machine, or delete it")
		}
	}
	return node, nil
}

// lookUpNode finds the Node by its providerID, or where it has none by its name.
func (r *planner) lookUpNode(vm *VM) *corev1.Node {
	for _, is := range []func(*corev1.Node) bool{
		func(n *corev1.Node) bool { return n.Spec.ProviderID != "" && n.Spec.ProviderID == vm.NodeProviderID },
		func(n *corev1.Node) bool {
			return n.Spec.ProviderID != "" && objects.SameVM(n.Spec.ProviderID, vm.ProviderID)
		},
		func(n *corev1.Node) bool {
			return n.Spec.ProviderID == "" && (n.Name == vm.Node || n.Labels[machinev1.MachineNameLabel] == vm.Machine)
		},
	} {
		for _, name := range objects.Keys(r.nodes) {
			if is(r.nodes[name]) {
				return r.nodes[name]
			}
		}
	}
	return nil
}

// templateChanges reports whether labels, annotations or taints of the Node came from a
// template that differs from the one that applies to it from now on.
func templateChanges(node *corev1.Node, template *machinev1.NodeTemplateSpec) bool {
	var last machinev1.NodeTemplateSpec
	text := node.Annotations[machinev1.LastAppliedNodeTemplateAnnotation]
	if text == "" || json.Unmarshal([]byte(text), &last) != nil {
		return false
	}
	return !equality.Semantic.DeepEqual(nonEmpty(last.Labels), nonEmpty(template.Labels)) ||
		!equality.Semantic.DeepEqual(nonEmpty(last.Annotations), nonEmpty(template.Annotations)) ||
		len(last.Spec.Taints)+len(template.Spec.Taints) > 0 &&
			!equality.Semantic.DeepEqual(last.Spec.Taints, template.Spec.Taints)
}

func nonEmpty(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}
