package recovery

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/internal/naming"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/objects"
)

// nameAlphabet has the characters that API servers and Cluster API draw names from.
const (
	nameAlphabet = "bcdfghjklmnpqrstvwxz2456789"
	drawnLength  = 5
)

// pool is a MachineSet of either API, with its MachineDeployment.
type pool struct {
	api        migration.API
	set        client.Object
	deployment client.Object // nil if it has none
	cluster    string        // name of its Cluster; Cluster API only
	class      string        // name of the MachineClass of its machines; empty if not known
	machines   []client.Object
	recovered  []*VMPlan
}

func (p *pool) replicas() int32 { return replicasOf(p.set) }

// replicasOf returns how many machines a set or deployment asks for.
func replicasOf(o client.Object) int32 { return ptr.Deref(objects.Replicas(o), 1) }

// pools returns the MachineSets of both APIs that exist and are not being deleted.
func pools(s *State) []*pool {
	out := append(nativePools(s), clusterPools(s)...)
	return slices.DeleteFunc(out, func(p *pool) bool { return !p.set.GetDeletionTimestamp().IsZero() })
}

func nativePools(s *State) []*pool {
	var out []*pool
	for i := range s.Sets {
		set := &s.Sets[i]
		p := &pool{api: migration.Native, set: set, class: set.Spec.Template.Spec.Class.Name}
		p.deployment = deploymentOf(set, s.Deployments)
		for j := range s.Machines {
			m := &s.Machines[j]
			if countsFor(m, set, set.Spec.Selector) && m.Status.CurrentStatus.Phase != machinev1.MachineTerminating &&
				m.Labels[machinev1.UpdateResultLabel] != machinev1.UpdateSuccessful {
				p.machines = append(p.machines, m)
			}
		}
		out = append(out, p)
	}
	return out
}

func clusterPools(s *State) []*pool {
	var out []*pool
	for i := range s.ClusterSets {
		set := &s.ClusterSets[i]
		p := &pool{api: migration.ClusterAPI, set: set, cluster: set.Spec.ClusterName}
		if t := objects.Find(s.MachineTemplates, set.Spec.Template.Spec.InfrastructureRef.Name); t != nil {
			p.class = t.Spec.Template.Spec.MachineClassRef.Name
		}
		p.deployment = deploymentOf(set, s.ClusterDeployments)
		for j := range s.ClusterMachines {
			if m := &s.ClusterMachines[j]; countsFor(m, set, &set.Spec.Selector) {
				p.machines = append(p.machines, m)
			}
		}
		out = append(out, p)
	}
	return out
}

// deploymentOf returns the MachineDeployment that controls a set; nil if it does not exist.
func deploymentOf[T any, P objects.Object[T]](set client.Object, all []T) client.Object {
	if ref := objects.ControllerOf(set, machinev1.MachineDeploymentKind); ref != nil {
		if d := objects.Find[T, P](all, ref.Name); d != nil {
			return d
		}
	}
	return nil
}

// countsFor reports whether a machine counts as one of the set's: it is controlled by it, or
// will be adopted.
func countsFor(m, set client.Object, selector *metav1.LabelSelector) bool {
	if !m.GetDeletionTimestamp().IsZero() {
		return false
	}
	if owner := metav1.GetControllerOf(m); owner != nil {
		return owner.UID == set.GetUID()
	}
	return objects.Selects(selector, m.GetLabels())
}

// names reports whether the set may have given a machine this name.
func (p *pool) names(machine string) bool {
	if set, native := p.set.(*machinev1.MachineSet); native {
		_, ok := naming.NewNames(set).Ordinal(machine)
		return ok
	}
	suffix, ok := strings.CutPrefix(machine, p.set.GetName()+"-")
	return ok && drawn(suffix)
}

// made reports whether the owner id proves that the set has made the machine.
func (p *pool) made(vm *VM) bool {
	set, native := p.set.(*machinev1.MachineSet)
	if !native || vm.OwnerID == "" {
		return false
	}
	names := naming.NewNames(set)
	ordinal, ok := names.Ordinal(vm.Machine)
	return ok && names.OwnerID(ordinal) == vm.OwnerID
}

// deploymentNames reports whether a set of the pool's deployment may have given a machine
// this name: one that the backup does not have.
func (p *pool) deploymentNames(machine string) bool {
	if p.deployment == nil {
		return false
	}
	rest, ok := strings.CutPrefix(machine, p.deployment.GetName()+"-")
	set, last, found := strings.Cut(rest, "-")
	return ok && found && drawn(set) && drawn(last)
}

// drawn reports whether text looks like the drawn part of a name.
func drawn(text string) bool {
	return len(text) == drawnLength && strings.Trim(text, nameAlphabet) == ""
}

// revision returns the number of the set's template among those of its deployment.
func (p *pool) revision() int {
	key := machinev1.RevisionAnnotation
	if p.api == migration.ClusterAPI {
		key = clusterv1.RevisionAnnotation
	}
	n, _ := strconv.Atoi(p.set.GetAnnotations()[key]) // without one it is the oldest
	return n
}

// current returns the pool of the deployment's set with the newest template.
func current(all []*pool, of *pool) *pool {
	siblings := siblings(all, of)
	return slices.MaxFunc(siblings, func(a, b *pool) int {
		return cmp.Or(cmp.Compare(a.revision(), b.revision()),
			a.set.GetCreationTimestamp().Compare(b.set.GetCreationTimestamp().Time),
			cmp.Compare(b.set.GetName(), a.set.GetName()))
	})
}

// siblings returns the pools of one deployment; of a set without one, itself.
func siblings(all []*pool, of *pool) []*pool {
	if of.deployment == nil {
		return []*pool{of}
	}
	var out []*pool
	for _, p := range all {
		if p.deployment != nil && p.api == of.api && p.deployment.GetName() == of.deployment.GetName() {
			out = append(out, p)
		}
	}
	return out
}

// rolls reports whether the deployment replaces the machines of this set: it has a newer
// template, and is not paused.
func (p *pool) rolls(all []*pool) bool {
	switch d := p.deployment.(type) {
	case *machinev1.MachineDeployment:
		return !d.Spec.Paused && current(all, p) != p
	case *clusterv1.MachineDeployment:
		onDelete := d.Spec.Rollout.Strategy.Type == clusterv1.OnDeleteMachineDeploymentStrategyType
		return !ptr.Deref(d.Spec.Paused, false) && !onDelete && current(all, p) != p
	}
	return false
}

// spareOrdinals are given up behind the last name that is known to be used: Machines that
// were made and deleted after the backup have left no trace.
const spareOrdinals = 27 * 27 * 27

// poolPlans returns what becomes of the sets that get machines, that would use a name again,
// or that a recovery holds. all are the VMs that are listed, chosen or not.
func (r *planner) poolPlans(all []VM) []PoolPlan {
	var out []PoolPlan
	for _, p := range r.pools {
		ordinals := r.ordinals(p, all)
		if len(p.recovered) == 0 && ordinals == nil && !p.heldByUs() || p.heldByOther(r.pools) != nil {
			continue
		}
		out = append(out, r.poolPlan(p, ordinals))
	}
	return out
}

func (p *pool) heldByUs() bool { return Held(p.set) || p.deployment != nil && Held(p.deployment) }

func (r *planner) poolPlan(p *pool, ordinals *Change) PoolPlan {
	plan := PoolPlan{
		API: p.api, Set: p.set.GetName(), Machines: len(p.machines), Recovered: len(p.recovered), Ordinals: ordinals,
		Replicas: change(p.set, p.target()), Head: p.deployment, Notes: r.notes(p),
	}
	if p.deployment == nil {
		plan.Sets = []client.Object{p.set}
		return plan
	}
	plan.Deployment = p.deployment.GetName()
	want := original(p.deployment)
	for _, s := range siblings(r.pools, p) {
		plan.Sets = append(plan.Sets, s.set)
		want += s.target() - original(s.set)
	}
	plan.DeploymentReplicas = change(p.deployment, want)
	return plan
}

// original returns the size of a set or deployment before the recovery: what it was when it
// was held. So a recovery that was interrupted adds nothing twice.
func original(o client.Object) int64 {
	if Held(o) {
		hold := o.GetAnnotations()[HoldKey(o)]
		if n, err := strconv.ParseInt(hold[strings.LastIndexByte(hold, '.')+1:], 10, 32); err == nil {
			return n
		}
	}
	return int64(replicasOf(o))
}

// Rebased reports whether o has the size now that it had before the recovery, or is not held.
func Rebased(o client.Object) bool { return original(o) == int64(replicasOf(o)) }

// target returns the size with which the set deletes none of its machines. Only sets that
// get machines grow.
func (p *pool) target() int64 {
	was := original(p.set)
	if len(p.recovered) == 0 && !slices.ContainsFunc(p.machines, Held) {
		return max(was, int64(p.replicas()))
	}
	n := len(p.machines)
	for _, v := range p.recovered {
		if !slices.ContainsFunc(p.machines, func(m client.Object) bool { return m.GetName() == v.Machine }) {
			n++ // the others are half made by an interrupted run
		}
	}
	return max(was, int64(n))
}

// change returns how a set or deployment grows; nil if it is large enough.
func change(o client.Object, want int64) *Change {
	now := int64(replicasOf(o))
	if want <= now {
		return nil
	}
	return &Change{now, want}
}

// notes are what a person should know about a pool.
func (r *planner) notes(p *pool) []string {
	var out, lost []string
	for _, m := range p.machines {
		if node := nodeNameOf(m); node != "" && r.nodes[node] == nil {
			lost = append(lost, m.GetName())
		}
	}
	if len(lost) > 0 {
		out = append(out, fmt.Sprintf("machines without a Node, which are replaced after the health timeout; if their VMs "+
			"were deleted after the backup, scale the pool in, which deletes them first: %s", join(lost)))
	}
	for _, v := range p.recovered {
		if set, native := p.set.(*machinev1.MachineSet); native && r.nodes[v.Node] != nil &&
			templateChanges(r.nodes[v.Node], &set.Spec.Template.Spec.NodeTemplateSpec) {
			v.Notes = append(v.Notes, fmt.Sprintf("labels, annotations or taints of Node %s follow the template of "+
				"MachineSet %s from now on, which differs from the one that was applied last", v.Node, set.Name))
		}
	}
	return out
}

// nodeNameOf returns the name of a machine's Node; empty if it is not known.
func nodeNameOf(m client.Object) string {
	switch m := m.(type) {
	case *machinev1.Machine:
		return m.Labels[machinev1.NodeLabel]
	case *clusterv1.Machine:
		return m.Status.NodeRef.Name
	}
	return ""
}

// ordinals returns how far the names of a set are used up, if that is further than its
// record says: a restore takes the record back, and a name that is used again collides
// with a VM or a Node that lives. nil if no such name is found.
func (r *planner) ordinals(p *pool, all []VM) *Change {
	set, native := p.set.(*machinev1.MachineSet)
	if !native {
		return nil // Cluster API draws names at random
	}
	record, err := naming.ParseOrdinals(set.Annotations[machinev1.OrdinalsAnnotation])
	if err != nil {
		record.Next = 0
	}
	used := usedNames{naming.NewNames(set), record.Next, record.Next - 1}
	for i := range all {
		if all[i].API == migration.Native && all[i].OwnerID != "" {
			used.see(all[i].Machine, all[i].OwnerID)
		}
	}
	if record.Next > 0 { // else the controller restores the record from its Machines
		r.seeObjects(&used)
	}
	if used.last < record.Next {
		return nil
	}
	return &Change{record.Next, min(used.last+1+spareOrdinals, naming.NameCount)}
}

// seeObjects adds the names of Machines and Nodes.
func (r *planner) seeObjects(used *usedNames) {
	for i := range r.state.Machines {
		m := &r.state.Machines[i]
		used.see(m.Name, m.Annotations[machinev1.OwnerIDAnnotation])
	}
	for _, name := range objects.Keys(r.nodes) {
		used.see(name, "")
		used.see(r.nodes[name].Labels[machinev1.MachineNameLabel], "")
	}
}

// usedNames are the names of a set that are in use.
type usedNames struct {
	names      naming.Names
	next, last int64 // ordinals: the first that the set has not used as far as it knows, the last in use
}

// see adds a name. A name without owner id proves nothing: Machine Controller Manager draws
// from all names, so only one that would be used soon counts.
func (u *usedNames) see(name, ownerID string) {
	ordinal, ok := u.names.Ordinal(name)
	if ok && (ownerID == u.names.OwnerID(ordinal) || ownerID == "" && ordinal < u.next+spareOrdinals) {
		u.last = max(u.last, ordinal)
	}
}
