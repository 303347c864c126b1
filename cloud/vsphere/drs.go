package vsphere

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/property"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// rulePrefix begins the names of the DRS rules that the driver makes. The cluster of
// the ownership tags and the group follow.
const rulePrefix = "mcm."

// ruleMin is how many VMs an anti-affinity rule has at least.
const ruleMin = 2

// membership is what a VM belongs to in its compute cluster. The mark of the VM holds it
// from birth, so that it is known without the class.
type membership struct {
	Cluster string `json:"cluster"`         // managed object id
	Rule    string `json:"rule,omitempty"`  // anti-affinity rule, which the driver makes and removes
	Group   string `json:"group,omitempty"` // VM group, which has to be there
}

// clusters changes the configuration of compute clusters. vCenter replaces rules and
// groups as a whole, so one change of a cluster is asked for when the last one has ended,
// and a change is for all VMs that wait for one.
type clusters struct {
	turns   driverkit.Turns // by cluster
	leaving sync.Map        // VMs that are to leave their rules

	mu    sync.Mutex
	asked map[string]string // the last task of each cluster
}

// clusterState is the configuration of a compute cluster.
type clusterState struct {
	ref    types.ManagedObjectReference
	config types.ClusterConfigInfoEx
	tasks  []types.TaskInfo // recent ones
}

// membershipOf returns what VMs of the class belong to in its place; nil for nothing.
func (a *account) membershipOf(ctx context.Context, s *spec) (*membership, error) {
	field := "antiAffinityGroup"
	switch {
	case s.AntiAffinityGroup+s.VMGroup == "":
		return nil, nil //nolint:nilnil // nothing is asked for
	case s.AntiAffinityGroup == "":
		field = "vmGroup"
	}
	pool, _, err := a.pool(ctx, s)
	if err != nil {
		return nil, err
	}
	owner, err := a.inventory.lookup(ctx, "owner", pool.Value, func(ctx context.Context) (object.Reference, error) {
		var p mo.ResourcePool
		err := property.DefaultCollector(a.v.Client).RetrieveOne(ctx, pool, []string{"owner"}, &p)
		return p.Owner, err
	})
	if err != nil {
		return nil, err
	}
	if owner.Type != "ClusterComputeResource" {
		return nil, wrong(opCreate, field, "needs a compute cluster and the VM's place is a host outside of one; remove it "+
			"or name a place in a cluster")
	}
	m := &membership{Cluster: owner.Value, Group: s.VMGroup}
	if s.AntiAffinityGroup != "" {
		cluster, _ := s.ownership()
		m.Rule = rulePrefix + cluster + "." + s.AntiAffinityGroup
	}
	state, err := a.clusterState(ctx, m.Cluster)
	if err == nil && state != nil {
		_, err = state.has(m, types.ManagedObjectReference{})
	}
	return m, err
}

// join asks for what a VM lacks of its membership, and reports whether it lacks nothing. It
// reads the folder before its turn: that takes long in a large one, and others wait.
func (a *account) join(ctx context.Context, s *spec, vm *seen) (done bool, err error) {
	m := vm.mark.DRS
	if m == nil {
		return true, nil
	}
	lacks := false
	done, err = a.changeCluster(ctx, m.Cluster, func(c *clusterState) (*types.ClusterConfigSpecEx, error) {
		in, err := c.has(m, vm.ref)
		lacks = !in
		return nil, err
	})
	if err != nil || !lacks {
		return done, err
	}
	all, err := a.scans.Do(ctx, "read folder", folder{s.Datacenter, s.Folder}, s)
	if err != nil {
		return false, err
	}
	return a.changeCluster(ctx, m.Cluster, func(c *clusterState) (*types.ClusterConfigSpecEx, error) {
		if in, err := c.has(m, vm.ref); in || err != nil {
			return nil, err
		}
		vms := a.siblings(m, all)
		vms[vm.ref] = *m
		return c.joined(m, vms)
	})
}

// siblings are the VMs that share a rule or a group with m.
func (a *account) siblings(m *membership, all []*seen) map[types.ManagedObjectReference]membership {
	found := map[types.ManagedObjectReference]membership{}
	for _, vm := range all {
		_, leaves := a.clusters.leaving.Load(vm.ref)
		if !leaves && vm.mark != nil && vm.mark.DRS != nil && vm.mark.DRS.Cluster == m.Cluster {
			found[vm.ref] = *vm.mark.DRS
		}
	}
	return found
}

// leave asks for a VM to leave its anti-affinity rule, which goes when only one VM is
// left in it, also if others were destroyed before they could leave. It reports whether the
// VM has left. vCenter itself takes a VM that is destroyed out of its VM groups.
func (a *account) leave(ctx context.Context, vm *seen) (done bool, err error) {
	if vm.mark == nil || vm.mark.DRS == nil || vm.mark.DRS.Rule == "" {
		return true, nil
	}
	a.clusters.leaving.Store(vm.ref, true)
	done, err = a.changeCluster(ctx, vm.mark.DRS.Cluster, func(c *clusterState) (*types.ClusterConfigSpecEx, error) {
		rule, err := c.rule(vm.mark.DRS.Rule)
		if err != nil || rule == nil || !slices.Contains(rule.Vm, vm.ref) && len(rule.Vm) >= ruleMin {
			return nil, nil //nolint:nilerr,nilnil // what is not our rule is not changed
		}
		return without(rule, func(ref types.ManagedObjectReference) bool {
			_, leaves := a.clusters.leaving.Load(ref)
			return leaves
		}), nil
	})
	if done || err != nil {
		a.clusters.leaving.Delete(vm.ref)
	}
	return done, err
}

// without is the change that takes VMs out of a rule, or away a rule that has too few.
func without(rule *types.ClusterAntiAffinityRuleSpec,
	leaves func(types.ManagedObjectReference) bool,
) *types.ClusterConfigSpecEx {
	rest := slices.DeleteFunc(slices.Clone(rule.Vm), leaves)
	change := ruleOf(rule, rest)
	if len(rest) < ruleMin {
		change = removal(rule)
	}
	return &types.ClusterConfigSpecEx{RulesSpec: []types.ClusterRuleSpec{change}}
}

// removal takes a rule away.
func removal(rule *types.ClusterAntiAffinityRuleSpec) types.ClusterRuleSpec {
	return types.ClusterRuleSpec{ArrayUpdateSpec: types.ArrayUpdateSpec{
		Operation: types.ArrayUpdateOperationRemove, RemoveKey: rule.Key,
	}}
}

// has reports whether a VM is a member already. A rule that is not there is nothing that
// it lacks: it may be the first VM. What cannot be a rule or a group is an error.
func (c *clusterState) has(m *membership, vm types.ManagedObjectReference) (bool, error) {
	rule, err := c.rule(m.Rule)
	if err != nil {
		return false, err
	}
	group, err := c.group(m.Group)
	return (m.Rule == "" || rule != nil && slices.Contains(rule.Vm, vm)) &&
		(group == nil || slices.Contains(group.Vm, vm)), err
}

// joined is the change that makes VMs members, or removes a rule that has too few; nil if
// there is nothing to change.
func (c *clusterState) joined(m *membership, vms map[types.ManagedObjectReference]membership) (
	*types.ClusterConfigSpecEx, error,
) {
	rule, err := c.rule(m.Rule)
	if err != nil {
		return nil, err
	}
	group, err := c.group(m.Group)
	if err != nil {
		return nil, err
	}
	change := types.ClusterConfigSpecEx{RulesSpec: joinedRule(rule, m, vms)}
	if group != nil {
		grown := *group
		grown.Vm = with(group.Vm, vms, func(o membership) bool { return o.Group == m.Group })
		if len(grown.Vm) > len(group.Vm) {
			change.GroupSpec = []types.ClusterGroupSpec{{
				ArrayUpdateSpec: types.ArrayUpdateSpec{Operation: types.ArrayUpdateOperationEdit}, Info: &grown,
			}}
		}
	}
	if len(change.RulesSpec)+len(change.GroupSpec) == 0 {
		return nil, nil //nolint:nilnil // there is nothing to change
	}
	return &change, nil
}

// joinedRule is the change of a rule that makes VMs members; the rule is nil if there is none.
func joinedRule(rule *types.ClusterAntiAffinityRuleSpec, m *membership,
	vms map[types.ManagedObjectReference]membership,
) []types.ClusterRuleSpec {
	of := types.ClusterAntiAffinityRuleSpec{}
	if rule != nil {
		of = *rule
	}
	members := with(of.Vm, vms, func(o membership) bool { return m.Rule != "" && o.Rule == m.Rule })
	switch {
	case len(members) >= ruleMin && len(members) > len(of.Vm):
		spec := ruleOf(rule, members)
		spec.Info.GetClusterRuleInfo().Name = m.Rule
		return []types.ClusterRuleSpec{spec}
	case rule != nil && len(members) < ruleMin:
		return []types.ClusterRuleSpec{removal(rule)}
	}
	return nil
}

// with returns a list of members and the VMs whose membership is wanted, each once.
func with(members []types.ManagedObjectReference, vms map[types.ManagedObjectReference]membership,
	wanted func(membership) bool,
) []types.ManagedObjectReference {
	all := slices.Clone(members)
	for ref, m := range vms {
		if wanted(m) {
			all = append(all, ref)
		}
	}
	slices.SortFunc(all, func(a, b types.ManagedObjectReference) int { return strings.Compare(a.Value, b.Value) })
	return slices.Compact(all)
}

// ruleOf edits a rule to have these members, or adds one if it is nil.
func ruleOf(rule *types.ClusterAntiAffinityRuleSpec, members []types.ManagedObjectReference) types.ClusterRuleSpec {
	spec := types.ClusterRuleSpec{ArrayUpdateSpec: types.ArrayUpdateSpec{Operation: types.ArrayUpdateOperationEdit}}
	info := types.ClusterAntiAffinityRuleSpec{Vm: members}
	if rule != nil {
		info.ClusterRuleInfo = rule.ClusterRuleInfo
	} else {
		spec.Operation = types.ArrayUpdateOperationAdd
		enabled, mandatory := true, false // a mandatory rule keeps VMs off where hosts are few
		info.Enabled, info.Mandatory, info.UserCreated = &enabled, &mandatory, &enabled
	}
	spec.Info = &info
	return spec
}

// rule returns the anti-affinity rule of that name; nil if there is none.
func (c *clusterState) rule(name string) (*types.ClusterAntiAffinityRuleSpec, error) {
	for _, r := range c.config.Rule {
		if name == "" || r.GetClusterRuleInfo().Name != name {
			continue
		}
		if rule, ok := r.(*types.ClusterAntiAffinityRuleSpec); ok {
			return rule, nil
		}
		return nil, wrong(opCreate, "antiAffinityGroup",
			fmt.Sprintf("needs the DRS rule %q, and a rule of that name keeps no VMs apart; rename that rule", name))
	}
	return nil, nil //nolint:nilnil // there is none
}

// group returns the VM group of that name; nil for no name.
func (c *clusterState) group(name string) (*types.ClusterVmGroup, error) {
	if name == "" {
		return nil, nil //nolint:nilnil // none is asked for
	}
	for _, g := range c.config.Group {
		if group, ok := g.(*types.ClusterVmGroup); ok && group.Name == name {
			return group, nil
		}
	}
	return nil, wrong(opCreate, "vmGroup",
		fmt.Sprintf("names %q, and the compute cluster has no VM group of that name; make it or correct the name", name))
}

// changeCluster asks for the change that a cluster needs, and reports whether it needs
// none. A cluster that is gone needs none.
func (a *account) changeCluster(ctx context.Context, id string,
	change func(*clusterState) (*types.ClusterConfigSpecEx, error),
) (done bool, err error) {
	end, err := a.clusters.turns.Take(ctx, "change compute cluster", id)
	if err != nil {
		return false, err
	}
	defer end()
	state, err := a.clusterState(ctx, id)
	if err != nil || state == nil {
		return err == nil, err
	}
	if busy, err := a.clusters.last(state); busy || err != nil {
		return false, err
	}
	spec, err := change(state)
	if err != nil || spec == nil {
		return err == nil, err
	}
	made, err := methods.ReconfigureComputeResource_Task(ctx, a.v, &types.ReconfigureComputeResource_Task{
		This: state.ref, Spec: spec, Modify: true,
	})
	if err == nil {
		a.clusters.note(id, made.Returnval.Value)
	}
	return false, passing(err)
}

// last reports whether a change of the cluster is under way, and returns what the one
// that was requested has failed with, once; then the change is requested again.
func (c *clusters) last(state *clusterState) (busy bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range state.tasks {
		if unfinished(t) && strings.Contains(t.DescriptionId, "reconfigure") {
			return true, nil
		}
		if t.Key == c.asked[state.ref.Value] && t.Error != nil {
			delete(c.asked, state.ref.Value)
			return false, taskErrorOf(t.Error)
		}
	}
	return false, nil
}

// note remembers the last task of a cluster.
func (c *clusters) note(cluster, task string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked[cluster] = task
}

// clusterState reads a cluster and its recent tasks; nil if it is gone.
func (a *account) clusterState(ctx context.Context, id string) (*clusterState, error) {
	c := &clusterState{ref: types.ManagedObjectReference{Type: "ClusterComputeResource", Value: id}}
	filter := types.PropertyFilterSpec{
		ObjectSet: []types.ObjectSpec{{Obj: c.ref, SelectSet: []types.BaseSelectionSpec{
			&types.TraversalSpec{Type: "ClusterComputeResource", Path: "recentTask"},
		}}},
		PropSet: []types.PropertySpec{
			{Type: "ClusterComputeResource", PathSet: []string{"configurationEx"}}, {Type: "Task", PathSet: []string{"info"}},
		},
	}
	for o, err := range a.objects(ctx, filter, pageSize) {
		if isFault[types.ManagedObjectNotFound](err) {
			return nil, nil //nolint:nilnil // it is gone
		}
		if err != nil {
			return nil, err
		}
		for _, p := range o.PropSet {
			switch value := p.Val.(type) {
			case types.ClusterConfigInfoEx:
				c.config = value
			case types.TaskInfo:
				c.tasks = append(c.tasks, value)
			}
		}
	}
	return c, nil
}
