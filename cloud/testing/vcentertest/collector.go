package vcentertest

import (
	"fmt"
	"sync"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// collector is the property collector of the simulator, which keeps what a caller
// does not fetch for ever, and knows no way to abandon it. The simulator makes one of
// it for each session, so what it knows stands elsewhere.
type collector struct{ simulator.PropertyCollector }

// tokens are the listings of which something is left to fetch, and their sessions.
type tokens struct {
	mo.ExtensibleManagedObject // the simulator keeps managed objects only

	mu   sync.Mutex
	open map[string]string
	late map[string]bool // kinds of tasks whose end no caller sees yet
}

// tokensRef is what the simulator knows the tokens by.
var tokensRef = types.ManagedObjectReference{Type: "Tokens", Value: "tokens"}

func newTokens() *tokens {
	t := &tokens{open: map[string]string{}, late: map[string]bool{}}
	t.Self = tokensRef
	return t
}

func tokensOf(ctx *simulator.Context) *tokens { return ctx.Map.Get(tokensRef).(*tokens) }

// swap takes note that a token was used up, and of the next one.
func (t *tokens) swap(ctx *simulator.Context, used, next string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.open, used)
	if next != "" && ctx.Session != nil {
		t.open[next] = ctx.Session.Key
	}
}

// delay shows tasks of late kinds as running.
func (t *tokens) delay(objects []types.ObjectContent) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, o := range objects {
		for i, p := range o.PropSet {
			if info, ok := p.Val.(types.TaskInfo); ok && t.late[info.DescriptionId] {
				info.State, info.Result, info.Error, info.CompleteTime = types.TaskInfoStateRunning, nil, nil, nil
				o.PropSet[i].Val = info
			}
		}
	}
}

// of reports whether a token was given to the caller's session and not yet used up.
func (t *tokens) of(ctx *simulator.Context, token string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	session, ok := t.open[token]
	return ok && ctx.Session != nil && session == ctx.Session.Key
}

// RetrievePropertiesEx begins a listing.
func (c *collector) RetrievePropertiesEx(ctx *simulator.Context, r *types.RetrievePropertiesEx) soap.HasFault {
	body := c.PropertyCollector.RetrievePropertiesEx(ctx, r)
	if b, ok := body.(*methods.RetrievePropertiesExBody); ok && b.Res != nil && b.Res.Returnval != nil {
		tokensOf(ctx).swap(ctx, "", b.Res.Returnval.Token)
		tokensOf(ctx).delay(b.Res.Returnval.Objects)
	}
	return body
}

// ContinueRetrievePropertiesEx goes on with a listing of the same session.
func (c *collector) ContinueRetrievePropertiesEx(ctx *simulator.Context,
	r *types.ContinueRetrievePropertiesEx,
) soap.HasFault {
	if !tokensOf(ctx).of(ctx, r.Token) {
		return &methods.ContinueRetrievePropertiesExBody{Fault_: badToken()}
	}
	body := c.PropertyCollector.ContinueRetrievePropertiesEx(ctx, r)
	if b, ok := body.(*methods.ContinueRetrievePropertiesExBody); ok && b.Res != nil {
		tokensOf(ctx).swap(ctx, r.Token, b.Res.Returnval.Token)
	}
	return body
}

// CancelRetrievePropertiesEx abandons a listing of the same session.
func (c *collector) CancelRetrievePropertiesEx(ctx *simulator.Context,
	r *types.CancelRetrievePropertiesEx,
) soap.HasFault {
	body := &methods.CancelRetrievePropertiesExBody{}
	if !tokensOf(ctx).of(ctx, r.Token) {
		body.Fault_ = badToken()
		return body
	}
	tokensOf(ctx).swap(ctx, r.Token, "")
	body.Res = &types.CancelRetrievePropertiesExResponse{}
	return body
}

func badToken() *soap.Fault {
	return simulator.Fault("The token is not known in this session", &types.InvalidPropertyFault{Name: "token"})
}

// Delay keeps tasks of a kind from being seen to end, e.g. "VirtualMachine.cloneVm",
// until the returned function is called. What they make is seen before.
func (v *VCenter) Delay(kind string) (end func()) {
	set := func(late bool) {
		v.tokens.mu.Lock()
		defer v.tokens.mu.Unlock()
		v.tokens.late[kind] = late
	}
	set(true)
	return func() { set(false) }
}

// Fill puts n VMs into Folder that have nothing but a name and ids, faster than by
// creating them.
func (v *VCenter) Fill(n int) {
	inside := v.model.Service.Context
	folder := inside.Map.Get(v.Folder.Reference()).(*simulator.Folder)
	var added []types.ManagedObjectReference
	for i := range n {
		vm := &simulator.VirtualMachine{}
		vm.Name = fmt.Sprintf("filling-%d", i)
		vm.Config = &types.VirtualMachineConfigInfo{Name: vm.Name, Uuid: fmt.Sprintf("00000000-0000-0000-0000-%012d", i)}
		vm.Runtime.ConnectionState = types.VirtualMachineConnectionStateConnected
		vm.Runtime.PowerState = types.VirtualMachinePowerStatePoweredOff
		added = append(added, inside.Map.PutEntity(folder, inside.Map.NewEntity(vm)).Reference())
	}
	inside.WithLock(folder, func() { folder.ChildEntity = append(folder.ChildEntity, added...) })
}

// OpenListings returns how many listings of open sessions somebody neither fetched to
// the end nor abandoned.
func (v *VCenter) OpenListings() int {
	v.tokens.mu.Lock()
	defer v.tokens.mu.Unlock()
	return len(v.tokens.open)
}
