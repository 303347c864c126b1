package recovery

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capmcm/cluster-api-provider-mcm/ops/migration"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/objects"
)

// Options are what a person decides.
type Options struct {
	VMs []string // IDs or names of machines; none are all that are listed
	// Set is the MachineSet of the VMs whose name does not tell theirs; empty is none.
	Set string
	// Class is the MachineClass of VMs that belong to no MachineSet, and get a Machine of
	// their own; empty is none. Native API only.
	Class string
	// AcceptRollout recovers machines also into a set whose deployment replaces them.
	AcceptRollout bool
}

// Verdict is what becomes of a VM.
type Verdict string

// The verdicts.
const (
	Recover   Verdict = "recover"   // it gets a Machine
	Recovered Verdict = "recovered" // it has one
	Blocked   Verdict = "blocked"   // a person has to decide something first
)

// Plan is what a recovery would do.
type Plan struct {
	Namespace string     `json:"namespace"`
	VMs       []VMPlan   `json:"vms"`
	Pools     []PoolPlan `json:"pools"`
	// Unlisted is how many more VMs without a machine there are than the classes list.
	Unlisted int `json:"unlisted"`
	// Held are the objects that a recovery holds; one that was interrupted if none runs.
	Held []client.Object `json:"-"`
}

// VMPlan is what becomes of one VM.
type VMPlan struct {
	ID      string        `json:"id"`
	Machine string        `json:"machine"`
	API     migration.API `json:"api"`
	Set     string        `json:"set,omitempty"` // MachineSet that it joins; empty: none
	Node    string        `json:"node,omitempty"`
	Verdict Verdict       `json:"verdict"`
	Reason  string        `json:"reason,omitempty"` // why it is blocked
	Remedy  string        `json:"remedy,omitempty"` // what to do first
	Notes   []string      `json:"notes,omitempty"`  // what a person should know
	// Objects are what is created, owners first. Each has a controller reference without
	// UID where the owner is created by the same plan.
	Objects []client.Object `json:"-"`
}

// Change is a number before and after.
type Change struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
}

// PoolPlan is what becomes of a MachineSet.
type PoolPlan struct {
	API        migration.API `json:"api"`
	Set        string        `json:"set"`
	Deployment string        `json:"deployment,omitempty"`
	Machines   int           `json:"machines"`  // that count as its replicas now
	Recovered  int           `json:"recovered"` // that are added
	// Replicas of the set, and of the deployment; nil: unchanged.
	Replicas           *Change `json:"replicas,omitempty"`
	DeploymentReplicas *Change `json:"deploymentReplicas,omitempty"`
	// Ordinals are the names that are used up, of the native API; nil: unchanged.
	Ordinals *Change  `json:"ordinals,omitempty"`
	Notes    []string `json:"notes,omitempty"`

	// Head is the deployment, nil if there is none; Sets are all of its sets, or the one.
	Head client.Object   `json:"-"`
	Sets []client.Object `json:"-"`
}

// Of plans the recovery of VMs. It is pure.
func Of(s *State, o Options) Plan {
	r := &planner{state: s, options: o, pools: pools(s), nodes: nodesOf(s.Nodes)}
	p := Plan{Namespace: s.Namespace, VMs: []VMPlan{}, Pools: []PoolPlan{}, Held: held(s)}
	for _, l := range s.Listings {
		p.Unlisted += l.Count - len(l.Orphans)
	}
	all := vms(s.Listings)
	r.listed = all
	plans := make([]VMPlan, 0, len(all))
	for i := range all {
		if o.chooses(&all[i]) || r.halfMade(&all[i]) != nil { // that one has to be finished
			plans = append(plans, r.plan(&all[i]))
		}
	}
	p.VMs = append(p.VMs, plans...)
	for i := range p.VMs {
		if v := &p.VMs[i]; v.Verdict == Recover && v.Set != "" {
			pool := r.find(v.API, v.Set)
			pool.recovered = append(pool.recovered, v)
		}
	}
	p.Pools = append(p.Pools, r.poolPlans(all)...)
	return p
}

// chooses reports whether a person wants this VM recovered.
func (o Options) chooses(vm *VM) bool {
	return len(o.VMs) == 0 || slices.Contains(o.VMs, vm.ID) || vm.Machine != "" && slices.Contains(o.VMs, vm.Machine)
}

// Unknown returns those of the chosen VMs that the plan does not have.
func (p *Plan) Unknown(o Options) []string {
	return slices.DeleteFunc(slices.Clone(o.VMs), func(name string) bool {
		return slices.ContainsFunc(p.VMs, func(v VMPlan) bool { return v.ID == name || v.Machine == name })
	})
}

// Count returns how many VMs have a verdict.
func (p *Plan) Count(v Verdict) int {
	n := 0
	for i := range p.VMs {
		if p.VMs[i].Verdict == v {
			n++
		}
	}
	return n
}

// planner is one call of Of.
type planner struct {
	state   *State
	options Options
	pools   []*pool
	nodes   nodes
	listed  []VM // chosen or not
}

// find returns the pool of a MachineSet; nil if there is none.
func (r *planner) find(api migration.API, set string) *pool {
	for _, p := range r.pools {
		if p.api == api && p.set.GetName() == set {
			return p
		}
	}
	return nil
}

// problem is why a VM is blocked, and what to do first.
type problem struct{ reason, remedy string }

func blocked(reason, remedy string) *problem { return &problem{reason, remedy} }

// plan plans one VM.
func (r *planner) plan(vm *VM) VMPlan {
	v := VMPlan{ID: vm.ID, Machine: vm.Machine, API: vm.API, Verdict: Blocked}
	has, why := r.existing(vm)
	if has {
		v.Verdict = Recovered
		return v
	}
	var p *pool
	var node *corev1.Node
	for _, step := range []func(){
		func() { p, why = r.assign(vm, &v) },
		func() { node, why = r.nodeOf(vm, &v) },
		func() { v.Objects, why = r.build(vm, p, node) },
	} {
		if why == nil {
			step()
		}
	}
	if why != nil {
		v.Reason, v.Remedy = why.reason, why.remedy
		return v
	}
	v.Verdict = Recover
	return v
}

// build returns the objects of a VM of a pool, or of none.
func (r *planner) build(vm *VM, p *pool, node *corev1.Node) ([]client.Object, *problem) {
	if vm.API == migration.ClusterAPI {
		return r.clusterObjects(vm, p, node)
	}
	return []client.Object{r.nativeMachine(vm, p, node)}, nil
}

// held returns the objects that a recovery holds, machines first.
func held(s *State) []client.Object {
	all := slices.Concat(objects.Pointers(s.Machines), objects.Pointers(s.ClusterMachines), objects.Pointers(s.Sets),
		objects.Pointers(s.ClusterSets), objects.Pointers(s.Deployments), objects.Pointers(s.ClusterDeployments))
	return slices.DeleteFunc(all, func(o client.Object) bool { return !Held(o) })
}

// join joins names for a person.
func join(names []string) string { return strings.Join(names, ", ") }
