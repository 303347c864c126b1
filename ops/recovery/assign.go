package recovery

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

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
		return nil, &problem{
			fmt.Sprintf("MachineClass %s of MachineSet %s does not exist", p.class, v.Set),
			"create the class first: without it the VM can neither be seen nor deleted",
		}
	}
	key := r.state.Namespace + "/" + p.class
	if len(vm.Classes) > 0 && p.class != "" && !slices.Contains(vm.Classes, key) {
		return nil, &problem{
			fmt.Sprintf("MachineClass %s of MachineSet %s is not of the account that the VM is in", p.class, v.Set),
			"name the right MachineSet with --set, or " + decideRemedy,
		}
	}
	return p, r.blockedPool(p, v)
}

// blockedPool returns why no machine can be added to a pool now.
func (r *planner) blockedPool(p *pool, v *VMPlan) *problem {
	if p.deployment != nil && !p.deployment.GetDeletionTimestamp().IsZero() {
		return &problem{"MachineDeployment " + p.deployment.GetName() + " is being deleted", decideRemedy}
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
	return &problem{text, "set spec.paused of the MachineDeployment, or accept that with --accept-rollout"}
}

// heldProblem is that somebody else holds an object of a pool: nothing may be written to it,
// and its controllers would never answer.
func heldProblem(o client.Object) *problem {
	if objects.IsNative(o) {
		return &problem{
			objects.Title(o) + " is held: it is moved to the other API",
			"finish that or roll it back: kubectl mcm migrate status",
		}
	}
	return &problem{
		fmt.Sprintf("%s is paused by its annotation %s", objects.Title(o), HoldKey(o)),
		"remove that annotation once its reason is gone",
	}
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
		return nil, &problem{
			fmt.Sprintf("its name fits MachineSets %s and %s", named[0].set.GetName(), named[1].set.GetName()),
			"name the MachineSet with --set",
		}
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
	return nil, &problem{
		fmt.Sprintf("MachineSet %s does not exist, or is not of the API or Cluster of VM %s", r.options.Set, vm.ID),
		"name another one with --set",
	}
}

// alone returns why a VM cannot get a Machine of its own; nil if it can.
func (r *planner) alone(vm *VM) *problem {
	if vm.API == migration.ClusterAPI {
		return &problem{
			"its name tells no MachineSet of its Cluster",
			"restore the MachineDeployment and MachineSet, or name one with --set",
		}
	}
	if r.options.Class == "" {
		return &problem{
			"its name tells no MachineSet",
			"name one with --set, or the MachineClass of a Machine without one with --class",
		}
	}
	key := r.state.Namespace + "/" + r.options.Class
	if objects.Find(r.state.MachineClasses, r.options.Class) == nil ||
		len(vm.Classes) > 0 && !slices.Contains(vm.Classes, key) {
		return &problem{
			"MachineClass " + r.options.Class + " does not exist, or is not of the account that the VM is in",
			"name another one with --class",
		}
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
