package vcentertest

import (
	"slices"

	pbmmethods "github.com/vmware/govmomi/pbm/methods"
	pbmsim "github.com/vmware/govmomi/pbm/simulator"
	pbmtypes "github.com/vmware/govmomi/pbm/types"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// configureCluster refuses rules of fewer than two VMs, and rules and groups of VMs that
// are not there.
func configureCluster(ctx *simulator.Context, r *types.ReconfigureComputeResource_Task) types.BaseMethodFault {
	spec, ok := r.Spec.(*types.ClusterConfigSpecEx)
	if !ok {
		return nil
	}
	var members []types.ManagedObjectReference
	for _, rule := range spec.RulesSpec {
		if info, ok := rule.Info.(*types.ClusterAntiAffinityRuleSpec); ok {
			if len(info.Vm) < 2 {
				return &types.InvalidArgument{InvalidProperty: "spec.rulesSpec.info.vm"}
			}
			members = append(members, info.Vm...)
		}
	}
	for _, group := range spec.GroupSpec {
		if info, ok := group.Info.(*types.ClusterVmGroup); ok {
			members = append(members, info.Vm...)
		}
	}
	for _, ref := range members {
		if ctx.Map.Get(ref) == nil {
			return &types.ManagedObjectNotFound{Obj: ref}
		}
	}
	return nil
}

// members takes VMs that go out of the rules and groups of their clusters, as a vCenter
// does.
type members struct{}

// Reference is what the simulator knows the handler by.
func (members) Reference() types.ManagedObjectReference {
	return types.ManagedObjectReference{Type: "Members", Value: "members"}
}

// PutObject is told of what is new.
func (members) PutObject(*simulator.Context, mo.Reference) {}

// UpdateObject is told of changes.
func (members) UpdateObject(*simulator.Context, mo.Reference, []types.PropertyChange) {}

// RemoveObject is told of what goes.
func (members) RemoveObject(ctx *simulator.Context, ref types.ManagedObjectReference) {
	if ref.Type != "VirtualMachine" {
		return
	}
	gone := func(other types.ManagedObjectReference) bool { return other == ref }
	for _, entity := range ctx.Map.All("ClusterComputeResource") {
		cluster, ok := entity.(*simulator.ClusterComputeResource)
		if !ok {
			continue
		}
		config, ok := cluster.ConfigurationEx.(*types.ClusterConfigInfoEx)
		if !ok {
			continue
		}
		ctx.WithLock(cluster, func() {
			rules, groups := slices.Clone(config.Rule), slices.Clone(config.Group) // others may be reading the old ones
			for i, r := range rules {
				if rule, ok := r.(*types.ClusterAntiAffinityRuleSpec); ok {
					left := *rule
					left.Vm = slices.DeleteFunc(slices.Clone(rule.Vm), gone)
					rules[i] = &left
				}
			}
			for i, g := range groups {
				if group, ok := g.(*types.ClusterVmGroup); ok {
					left := *group
					left.Vm = slices.DeleteFunc(slices.Clone(group.Vm), gone)
					groups[i] = &left
				}
			}
			config.Rule, config.Group = rules, groups
		})
	}
}

// solver is the placement solver of the simulator, to which every datastore serves every
// storage policy.
type solver struct {
	pbmsim.PlacementSolver

	v *VCenter
}

// PbmCheckRequirements returns the datastores that are asked about and serve.
func (s *solver) PbmCheckRequirements(_ *simulator.Context, r *pbmtypes.PbmCheckRequirements) soap.HasFault {
	body := &pbmmethods.PbmCheckRequirementsBody{Res: &pbmtypes.PbmCheckRequirementsResponse{}}
	for _, hub := range r.HubsToSearch {
		result := pbmtypes.PbmPlacementCompatibilityResult{Hub: hub}
		if s.v.gate.unsuited(hub.HubId) {
			result.Error = []types.LocalizedMethodFault{{Fault: &types.InvalidArgument{}, LocalizedMessage: "not compatible"}}
		}
		body.Res.Returnval = append(body.Res.Returnval, result)
	}
	return body
}

// Unsuit lets a datastore serve no storage policy.
func (v *VCenter) Unsuit(ref types.ManagedObjectReference) {
	v.gate.mu.Lock()
	defer v.gate.mu.Unlock()
	v.gate.unsuitable[ref.Value] = true
}

func (g *gate) unsuited(datastore string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.unsuitable[datastore]
}
