package vcentertest

import (
	"sync"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
)

// gate refuses what a vCenter refuses and the simulator accepts. It sees every call
// before the simulator does.
type gate struct {
	mu     sync.Mutex
	faults map[string]types.BaseMethodFault // of calls that a test lets fail, by their name
}

func newGate() *gate { return &gate{faults: map[string]types.BaseMethodFault{}} }

// handle returns what is wrong with a call; nil lets it pass.
func (g *gate) handle(ctx *simulator.Context, m *simulator.Method) (mo.Reference, types.BaseMethodFault) {
	g.mu.Lock()
	fault := g.faults[m.Name]
	g.mu.Unlock()
	if fault != nil {
		return nil, fault
	}
	if body, ok := m.Body.(*types.PlaceVm); ok {
		return nil, drsOff(ctx, body)
	}
	return nil, nil
}

// drsOff refuses to recommend a host of a cluster whose DRS is off.
func drsOff(ctx *simulator.Context, r *types.PlaceVm) types.BaseMethodFault {
	cluster, ok := ctx.Map.Get(r.This).(*simulator.ClusterComputeResource)
	if !ok {
		return nil
	}
	config, ok := cluster.ConfigurationEx.(*types.ClusterConfigInfoEx)
	if !ok || config.DrsConfig.Enabled == nil || *config.DrsConfig.Enabled {
		return nil
	}
	f := &types.InvalidState{}
	f.FaultMessage = said("vim.cluster.DrsDisabled", "DRS is not enabled on the cluster")
	return f
}

// said is a message as vCenter puts it into a fault.
func said(key, message string) []types.LocalizableMessage {
	return []types.LocalizableMessage{{Key: key, Message: message}}
}

// Refuse lets every call of that name fail, e.g. "PlaceVm". A nil fault ends it.
func (v *VCenter) Refuse(call string, fault types.BaseMethodFault) {
	v.gate.mu.Lock()
	defer v.gate.mu.Unlock()
	v.gate.faults[call] = fault
}
