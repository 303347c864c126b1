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
	turns  *turns
	owner  string                           // key of the owner's session, to whom all is allowed
	faults map[string]types.BaseMethodFault // of calls that a test lets fail, by their name
	denied map[string]bool                  // privileges that User lacks

	unsuitable map[string]bool // datastores that serve no storage policy
}

func newGate(t *turns) *gate {
	return &gate{
		turns: t, faults: map[string]types.BaseMethodFault{}, denied: map[string]bool{}, unsuitable: map[string]bool{},
	}
}

// handle returns what is wrong with a call; nil lets it pass.
func (g *gate) handle(ctx *simulator.Context, m *simulator.Method) (mo.Reference, types.BaseMethodFault) {
	if ctx.Session == nil {
		return nil, anonymous(m)
	}
	g.mu.Lock()
	fault, byOwner := g.faults[m.Name], ctx.Session.Key == g.owner
	privilege := privileges[m.Name]
	denied := g.denied[privilege]
	g.mu.Unlock()
	switch {
	case byOwner:
		return nil, nil
	case fault != nil:
		return nil, fault
	case denied:
		return nil, &types.NoPermission{Object: &m.This, PrivilegeId: privilege}
	}
	switch r := m.Body.(type) {
	case *types.ReconfigVM_Task:
		setUnits(r.Spec.DeviceChange)
	case *types.CloneVM_Task:
		if r.Spec.Config != nil {
			setUnits(r.Spec.Config.DeviceChange)
		}
	}
	var found types.BaseMethodFault
	switch m.Body.(type) {
	case *types.PlaceVm, *types.CloneVM_Task, *types.ReconfigVM_Task, *types.AddCustomFieldDef, *types.SetField,
		*types.ReconfigureComputeResource_Task:
		g.turns.between(func() { found = wrong(ctx, m) }) // tasks change what it reads
	}
	return nil, found
}

// anonymous refuses to show anything but the service itself without a session. The
// simulator shows objects without their properties.
func anonymous(m *simulator.Method) types.BaseMethodFault {
	r, ok := m.Body.(*types.RetrievePropertiesEx)
	if !ok {
		return nil
	}
	for _, spec := range r.SpecSet {
		for _, o := range spec.ObjectSet {
			if o.Obj.Type != "ServiceInstance" {
				return &types.NotAuthenticated{NoPermission: types.NoPermission{Object: &o.Obj, PrivilegeId: "System.View"}}
			}
		}
	}
	return nil
}

// privileges are what a caller needs at least, by the call.
var privileges = map[string]string{
	"CloneVM_Task": "VirtualMachine.Provisioning.DeployTemplate", "PlaceVm": "Host.Inventory.EditCluster",
	"ReconfigVM_Task": "VirtualMachine.Config.Settings", "Destroy_Task": "VirtualMachine.Inventory.Delete",
	"PowerOnVM_Task": "VirtualMachine.Interact.PowerOn", "PowerOffVM_Task": "VirtualMachine.Interact.PowerOff",
	"AddCustomFieldDef": "Global.ManageCustomFields", "SetField": "Global.SetCustomField",
	"RecommendDatastores": "Datastore.AllocateSpace", "ReconfigureComputeResource_Task": "Host.Inventory.EditCluster",
}

// Refuse lets every call of that name fail, e.g. "PlaceVm". A nil fault ends it.
func (v *VCenter) Refuse(call string, fault types.BaseMethodFault) {
	v.gate.mu.Lock()
	defer v.gate.mu.Unlock()
	v.gate.faults[call] = fault
}

// denies reports whether User lacks a privilege.
func (v *VCenter) denies(privilege string) bool {
	v.gate.mu.Lock()
	defer v.gate.mu.Unlock()
	return v.gate.denied[privilege]
}

// Privileges are those that Deny knows.
func Privileges() map[string]string { return privileges }

// Deny takes a privilege from User until it is allowed again.
func (v *VCenter) Deny(privilege string, denied bool) {
	v.gate.mu.Lock()
	defer v.gate.mu.Unlock()
	v.gate.denied[privilege] = denied
}
