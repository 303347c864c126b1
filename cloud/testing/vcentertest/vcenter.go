package vcentertest

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/google/uuid"
	"github.com/vmware/govmomi"
	"github.com/vmware/govmomi/find"
	"github.com/vmware/govmomi/object"
	pbmsim "github.com/vmware/govmomi/pbm/simulator"
	"github.com/vmware/govmomi/property"
	"github.com/vmware/govmomi/session"
	"github.com/vmware/govmomi/simulator"
	_ "github.com/vmware/govmomi/vapi/simulator" // as a vCenter has it
	"github.com/vmware/govmomi/view"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
)

// What a VCenter begins with, besides govmomi's default inventory.
const (
	User     = "mcm@vsphere.local"
	Password = "s3cret/of+mcm=user"

	Datacenter = "DC0"
	Datastore  = "LocalDS_0"
	Pool       = "DC0_C0/Resources"
	Network    = "VM Network"
	Folder     = "mcm"            // empty
	Template   = "DC0_C0_RP0_VM0" // of one CPU and 32 MiB
)

// VCenter is a running simulator, as its owner sees it.
type VCenter struct {
	Client *govmomi.Client // the owner's
	Finder *find.Finder    // in Datacenter
	Folder *object.Folder
	Pool   *object.ResourcePool

	model   *simulator.Model
	turns   *turns
	gate    *gate
	tokens  *tokens
	rest    *restAPI
	parent  *object.Folder // of Folder
	server  *simulator.Server
	vms     *view.ContainerView
	revoked atomic.Bool
}

// starting is held while a simulator starts: it sets variables of its packages.
var starting sync.Mutex

// Start starts a simulator. Close ends it.
func Start(ctx context.Context) (*VCenter, error) {
	starting.Lock()
	defer starting.Unlock()
	v := &VCenter{model: simulator.VPX(), turns: newTurns(), tokens: newTokens()}
	v.gate = newGate(v.turns)
	if err := v.model.Create(); err != nil {
		v.model.Remove()
		return nil, fmt.Errorf("make the inventory: %w", err)
	}
	if itself, ok := v.model.Map().Get(vim25.ServiceInstance).(*simulator.ServiceInstance); ok {
		itself.Content.About.InstanceUuid = uuid.NewString() // the simulator gives all the same
	}
	v.model.Service.TLS = new(tls.Config)
	v.model.Service.RegisterEndpoints = true
	v.model.Service.Listen = &url.URL{User: url.UserPassword(User, Password)}
	v.model.Map().AddHandler(v.turns)
	v.model.Map().AddHandler(members{})
	v.model.Map().Handler = v.gate.handle
	v.model.Map().Put(v.tokens)
	collects := &collector{}
	collects.Self = v.model.ServiceContent.PropertyCollector
	v.model.Map().Put(collects)
	index := &search{root: v.model.ServiceContent.RootFolder, turns: v.turns}
	index.Self = *v.model.ServiceContent.SearchIndex
	v.model.Map().Put(index)
	v.model.Map().SessionManager().ValidLogin = func(l *types.Login) bool {
		return !v.revoked.Load() && l.UserName == User && l.Password == Password
	}
	v.server = v.model.Service.NewServer()
	v.model.Service.RegisterSDK(v.policies()) // in place of what the simulator has registered
	if err := v.prepare(ctx); err != nil {
		v.Close()
		return nil, fmt.Errorf("prepare the inventory: %w", err)
	}
	return v, nil
}

// policies is the service of the storage policies.
func (v *VCenter) policies() *simulator.Registry {
	r := pbmsim.New()
	for _, o := range r.AllReference("PbmPlacementSolver") {
		r.Put(&solver{pbmsim.PlacementSolver{ManagedObjectReference: o.Reference()}, v})
	}
	return r
}

// Close ends the simulator, after the tasks that still run: one whose files vanish
// makes it panic.
func (v *VCenter) Close() {
	v.server.Close()
	v.turns.between(v.model.Remove)
}

// prepare makes the folder and the template.
func (v *VCenter) prepare(ctx context.Context) (err error) {
	if v.Client, err = govmomi.NewClient(ctx, v.server.URL, true); err != nil {
		return err
	}
	me, err := session.NewManager(v.Client.Client).UserSession(ctx)
	if err != nil {
		return err
	}
	v.gate.owner = me.Key
	root := v.Client.ServiceContent.RootFolder
	if v.vms, err = view.NewManager(v.Client.Client).CreateContainerView(ctx, root, []string{"VirtualMachine"},
		true); err != nil {
		return err
	}
	v.Finder = find.NewFinder(v.Client.Client)
	dc, err := v.Finder.Datacenter(ctx, Datacenter)
	if err != nil {
		return err
	}
	v.Finder.SetDatacenter(dc)
	parent, err := v.Finder.DefaultFolder(ctx)
	if err != nil {
		return err
	}
	v.parent = parent
	if v.Folder, err = parent.CreateFolder(ctx, Folder); err != nil {
		return err
	}
	if err := v.serveREST(ctx); err != nil {
		return err
	}
	if v.Pool, err = v.Finder.ResourcePool(ctx, Pool); err != nil {
		return err
	}
	template, err := v.Finder.VirtualMachine(ctx, Template)
	if err != nil {
		return err
	}
	if err := wait(ctx, template.PowerOff); err != nil {
		return err
	}
	return template.MarkAsTemplate(ctx)
}

// wait asks for a task and waits for its end.
func wait(ctx context.Context, ask func(context.Context) (*object.Task, error)) error {
	task, err := ask(ctx)
	if err != nil {
		return err
	}
	return task.Wait(ctx)
}

// Host is where the vCenter listens, with the port.
func (v *VCenter) Host() string { return v.server.URL.Host }

// Certificate is the server's, signed by itself.
func (v *VCenter) Certificate() *x509.Certificate { return v.server.Certificate() }

// Thumbprint is the SHA-256 of Certificate.
func (v *VCenter) Thumbprint() string {
	sum := sha256.Sum256(v.Certificate().Raw)
	return hex.EncodeToString(sum[:])
}

// Revoke makes User's password invalid. Open sessions last.
func (v *VCenter) Revoke() { v.revoked.Store(true) }

// Expire ends all sessions but the owner's.
func (v *VCenter) Expire(ctx context.Context) error {
	var m mo.SessionManager
	manager := *v.Client.ServiceContent.SessionManager
	err := property.DefaultCollector(v.Client.Client).RetrieveOne(ctx, manager, []string{"sessionList", "currentSession"},
		&m)
	if err != nil {
		return err
	}
	v.rest.expire()
	for _, x := range m.SessionList {
		if x.Key != m.CurrentSession.Key {
			_ = session.NewManager(v.Client.Client).TerminateSession(ctx, []string{x.Key}) // it has ended by itself
		}
	}
	return nil
}

// VMs returns every VM, the template too, with name, configuration and power
// state.
func (v *VCenter) VMs(ctx context.Context) ([]mo.VirtualMachine, error) {
	var vms []mo.VirtualMachine
	paths := []string{"name", "config.uuid", "config.extraConfig", "config.hardware", "runtime.powerState", "resourcePool"}
	if err := v.vms.Retrieve(ctx, []string{"VirtualMachine"}, paths, &vms); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(vms, func(vm mo.VirtualMachine) bool { return vm.Config == nil }), nil
}

// Exists reports whether there is a VM of that managed object id.
func (v *VCenter) Exists(id string) bool {
	return v.model.Map().Get(types.ManagedObjectReference{Type: "VirtualMachine", Value: id}) != nil
}

// Guest is a VM as it sees itself.
type Guest struct {
	ID       string // BIOS UUID
	Name     string
	On       bool
	CPUs     int32
	UserData []byte // what it boots with, decoded
	Metadata []byte // of cloud-init's data source, decoded
	Pool     string // the name of its resource pool

	// Guestinfo is what it reads from its extra configuration, as it is, by keys that begin so.
	Guestinfo map[string]string
}

// Guests returns the VMs in Folder.
func (v *VCenter) Guests(ctx context.Context) ([]Guest, error) {
	var folder mo.Folder
	collector := property.DefaultCollector(v.Client.Client)
	if err := collector.RetrieveOne(ctx, v.Folder.Reference(), []string{"childEntity"}, &folder); err != nil {
		return nil, err
	}
	vms, err := v.VMs(ctx)
	if err != nil {
		return nil, err
	}
	var guests []Guest
	for _, vm := range vms {
		if !slices.Contains(folder.ChildEntity, vm.Self) {
			continue
		}
		g := Guest{
			ID: vm.Config.Uuid, Name: vm.Name, On: vm.Runtime.PowerState == types.VirtualMachinePowerStatePoweredOn,
			CPUs: vm.Config.Hardware.NumCPU, Guestinfo: map[string]string{},
		}
		for _, o := range vm.Config.ExtraConfig {
			entry := o.GetOptionValue()
			if strings.HasPrefix(entry.Key, "guestinfo.") {
				g.Guestinfo[entry.Key] = fmt.Sprint(entry.Value)
			}
			switch entry.Key {
			case "guestinfo.userdata":
				g.UserData, _ = base64.StdEncoding.DecodeString(fmt.Sprint(entry.Value))
			case "guestinfo.metadata":
				g.Metadata, _ = base64.StdEncoding.DecodeString(fmt.Sprint(entry.Value))
			}
		}
		if vm.ResourcePool != nil {
			if pool, ok := v.model.Map().Get(*vm.ResourcePool).(mo.Entity); ok {
				g.Pool = pool.Entity().Name
			}
		}
		guests = append(guests, g)
	}
	return guests, nil
}

// AddPools makes resource pools in Pool.
func (v *VCenter) AddPools(ctx context.Context, names ...string) error {
	for _, name := range names {
		if _, err := v.Pool.Create(ctx, name, types.DefaultResourceConfigSpec()); err != nil {
			return err
		}
	}
	return nil
}

// VM returns the VM of that BIOS UUID.
func (v *VCenter) VM(ctx context.Context, id string) (*object.VirtualMachine, error) {
	ref, err := object.NewSearchIndex(v.Client.Client).FindByUuid(ctx, nil, id, true, nil)
	if err != nil {
		return nil, err
	}
	if ref == nil {
		return nil, fmt.Errorf("there is no VM %s", id)
	}
	return object.NewVirtualMachine(v.Client.Client, ref.Reference()), nil
}

// Destroy takes a VM away, as somebody at the vCenter would.
func (v *VCenter) Destroy(ctx context.Context, id string) error {
	vm, err := v.VM(ctx, id)
	if err != nil {
		return err
	}
	return errors.Join(wait(ctx, vm.PowerOff), wait(ctx, vm.Destroy))
}

// Orphan lets a VM lose its host.
func (v *VCenter) Orphan(ctx context.Context, id string) error {
	handle, err := v.VM(ctx, id)
	if err != nil {
		return err
	}
	inside := v.model.Service.Context
	vm, ok := inside.Map.Get(handle.Reference()).(*simulator.VirtualMachine)
	if !ok {
		return fmt.Errorf("VM %s has gone", id)
	}
	inside.WithLock(vm, func() {
		inside.Update(vm, []types.PropertyChange{{
			Name: "runtime.connectionState",
			Val:  types.VirtualMachineConnectionStateOrphaned,
		}})
	})
	return nil
}

// Wait returns when a task has ended, whether well or not.
func (v *VCenter) Wait(id string) {
	ref := types.ManagedObjectReference{Type: "Task", Value: id}
	if task, ok := v.model.Map().Get(ref).(*simulator.Task); ok {
		task.Wait()
	}
}

// FailTask lets the next task of a kind fail, e.g. "VirtualMachine.cloneVm".
func (v *VCenter) FailTask(kind string, fault types.BaseMethodFault) {
	v.turns.mu.Lock()
	defer v.turns.mu.Unlock()
	v.turns.fails[kind] = fault
}

// Define makes custom attributes of VMs.
func (v *VCenter) Define(ctx context.Context, names ...string) error {
	manager, err := object.GetCustomFieldsManager(v.Client.Client)
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, err := manager.Add(ctx, name, "VirtualMachine", nil, nil); err != nil {
			return err
		}
	}
	return nil
}
