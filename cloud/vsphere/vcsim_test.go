package vsphere_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

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
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/cloudtest"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/vsphere"
)

const (
	user     = "mcm@vsphere.local"
	password = "s3cret/of+mcm=user"
	markKey  = "mcm.cluster.x-k8s.io"
)

// vcsim is govmomi's simulator behind the fault proxy.
type vcsim struct {
	model   *simulator.Model
	server  *simulator.Server
	base    *http.Transport
	proxy   *cloudtest.Proxy
	admin   *govmomi.Client
	vms     *view.ContainerView
	finder  *find.Finder
	folder  *object.Folder
	pool    *object.ResourcePool
	revoked atomic.Bool
	seeded  int
	disks   map[string]string // id of volumes and their files

	mu    sync.Mutex
	tasks map[string]bool // asked for through the proxy and perhaps unfinished
}

// starting is held while a simulator starts: it sets variables of its packages.
var starting sync.Mutex

// start returns a simulator with a folder and a template.
func start(t testing.TB) *vcsim {
	t.Helper()
	s := &vcsim{model: simulator.VPX(), disks: map[string]string{}, tasks: map[string]bool{}}
	starting.Lock()
	defer starting.Unlock()
	must(t, s.model.Create())
	t.Cleanup(s.model.Remove)
	s.model.Service.TLS = new(tls.Config)
	s.model.Service.RegisterEndpoints = true
	s.model.Service.RegisterSDK(pbmsim.New())
	s.model.Service.Listen = &url.URL{User: url.UserPassword(user, password)}
	s.model.Map().SessionManager().ValidLogin = func(l *types.Login) bool {
		return !s.revoked.Load() && l.UserName == user && l.Password == password
	}
	s.server = s.model.Service.NewServer()
	t.Cleanup(s.server.Close)
	s.base = &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, MaxIdleConnsPerHost: 50} //nolint:gosec // the simulator signs its certificate itself
	t.Cleanup(s.base.CloseIdleConnections)
	s.proxy = cloudtest.NewProxy(watcher{s}, classify)
	var err error
	s.admin, err = govmomi.NewClient(t.Context(), s.server.URL, true)
	must(t, err)
	s.vms, err = view.NewManager(s.admin.Client).CreateContainerView(t.Context(), s.admin.ServiceContent.RootFolder, []string{"VirtualMachine"}, true)
	must(t, err)
	s.finder = find.NewFinder(s.admin.Client)
	dc, err := s.finder.DefaultDatacenter(t.Context())
	must(t, err)
	s.finder.SetDatacenter(dc)
	parent, err := s.finder.DefaultFolder(t.Context())
	must(t, err)
	s.folder, err = parent.CreateFolder(t.Context(), "mcm")
	must(t, err)
	s.pool, err = s.finder.ResourcePool(t.Context(), "DC0_C0/Resources")
	must(t, err)
	template, err := s.finder.VirtualMachine(t.Context(), "DC0_C0_RP0_VM0")
	must(t, err)
	task, err := template.PowerOff(t.Context())
	must(t, err)
	must(t, task.Wait(t.Context()))
	must(t, template.MarkAsTemplate(t.Context()))
	s.define(t, "kubernetes.io/cluster/c1", "kubernetes.io/role/node")
	return s
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// transport is the proxy, whose connections can be closed.
type transport struct{ s *vcsim }

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t.s.proxy.RoundTrip(r) }

func (t transport) CloseIdleConnections() { t.s.base.CloseIdleConnections() }

// watcher takes note of the tasks that the driver asks for.
type watcher struct{ s *vcsim }

var taskRef = regexp.MustCompile(`<returnval type="Task">([^<]+)</returnval>`)

func (w watcher) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := w.s.base.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	resp.Body = io.NopCloser(bytes.NewReader(body))
	if m := taskRef.FindSubmatch(body); m != nil {
		w.s.mu.Lock()
		w.s.tasks[string(m[1])] = true
		w.s.mu.Unlock()
	}
	return resp, err
}

// advance waits until the tasks have ended that the driver asked for.
func (s *vcsim) advance(t testing.TB, _ time.Duration) {
	t.Helper()
	s.mu.Lock()
	ids := slices.Collect(maps.Keys(s.tasks))
	s.mu.Unlock()
	for _, id := range ids {
		for {
			var task mo.Task
			ref := types.ManagedObjectReference{Type: "Task", Value: id}
			err := property.DefaultCollector(s.admin.Client).RetrieveOne(t.Context(), ref, []string{"info.state"}, &task)
			if err != nil || task.Info.State == types.TaskInfoStateSuccess || task.Info.State == types.TaskInfoStateError {
				break
			}
		}
		s.mu.Lock()
		delete(s.tasks, id)
		s.mu.Unlock()
	}
}

var soapOp = regexp.MustCompile(`<(?:soapenv:|soap:)?Body[^>]*><(\w+)`)

// classify names the call that a request makes. Those without which there is no
// session count as the login.
func classify(_ *http.Request, body []byte) cloudtest.Call {
	op := ""
	if m := soapOp.FindSubmatch(body); m != nil {
		op = string(m[1])
	}
	login := op == "Login" || op == "Logout" || op == "RetrieveServiceContent"
	mutates := strings.HasSuffix(op, "_Task") || op == "AddCustomFieldDef" || op == "SetField"
	return cloudtest.Call{Op: op, Login: login, Mutates: mutates}
}

// all returns every VM.
func (s *vcsim) all(t testing.TB) []mo.VirtualMachine {
	t.Helper()
	var vms []mo.VirtualMachine
	must(t, s.vms.Retrieve(t.Context(), []string{"VirtualMachine"}, []string{"name", "config.uuid", "config.extraConfig"}, &vms))
	return slices.DeleteFunc(vms, func(vm mo.VirtualMachine) bool { return vm.Config == nil })
}

// extra returns an entry of the extra configuration.
func extra(vm mo.VirtualMachine, key string) string {
	for _, o := range vm.Config.ExtraConfig {
		if v := o.GetOptionValue(); v.Key == key {
			return fmt.Sprint(v.Value)
		}
	}
	return ""
}

type mark struct {
	Machine string            `json:"machine,omitempty"`
	Owner   string            `json:"owner,omitempty"`
	Phase   string            `json:"phase,omitempty"`
	Tags    map[string]string `json:"tags,omitempty"`
}

func (s *vcsim) ledger(t testing.TB) []cloud.Resource {
	t.Helper()
	var out []cloud.Resource
	for _, vm := range s.all(t) {
		r := cloud.Resource{Kind: cloud.KindVM, ID: vm.Config.Uuid, MachineName: vm.Name}
		var m mark
		if json.Unmarshal([]byte(extra(vm, markKey)), &m) == nil {
			r.MachineName, r.OwnerID = m.Machine, m.Owner
		}
		out = append(out, r)
	}
	for id, file := range s.disks {
		ds, err := s.finder.Datastore(t.Context(), "LocalDS_0")
		must(t, err)
		if _, err := ds.Stat(t.Context(), file); err == nil {
			out = append(out, cloud.Resource{Kind: cloud.KindDisk, ID: id})
		}
	}
	return out
}

// handle returns the VM of that BIOS UUID.
func (s *vcsim) handle(t testing.TB, id string) *object.VirtualMachine {
	t.Helper()
	ref, err := object.NewSearchIndex(s.admin.Client).FindByUuid(t.Context(), nil, id, true, nil)
	must(t, err)
	if ref == nil {
		t.Fatalf("there is no VM %s", id)
	}
	return object.NewVirtualMachine(s.admin.Client, ref.Reference())
}

// owned are the ownership tags of a class.
func owned(t testing.TB, c cloud.Class) map[string]string {
	t.Helper()
	words := strings.Split(c.Owner, " ")
	n := len(words)
	return map[string]string{"kubernetes.io/cluster/" + words[n-2]: "1", "kubernetes.io/role/" + words[n-1]: "1"}
}

// seed makes a thing as we do, when it has an owner, and else as MCM does.
func (s *vcsim) seed(t testing.TB, seed cloudtest.Seed) string {
	t.Helper()
	s.seeded++
	if seed.Kind == cloud.KindDisk {
		return s.seedDisk(t, seed)
	}
	tags := map[string]string{}
	if !seed.Untagged {
		tags = owned(t, seed.Class)
	}
	name := fmt.Sprintf("seed-%d", s.seeded)
	id := uuid.NewString()
	config := types.VirtualMachineConfigSpec{
		Uuid: id, GuestId: "otherLinux64Guest", Files: &types.VirtualMachineFileInfo{VmPathName: "[LocalDS_0]"},
	}
	byMCM := seed.OwnerID == "" && !seed.Untagged && strings.HasPrefix(seed.Name, "c12")
	if byMCM {
		name = seed.Name
	} else if seed.Name != "" || seed.OwnerID != "" {
		text, _ := json.Marshal(mark{Machine: seed.Name, Owner: seed.OwnerID, Tags: tags, Phase: "started"})
		config.ExtraConfig = []types.BaseOptionValue{&types.OptionValue{Key: markKey, Value: string(text)}}
	}
	config.Name = name
	task, err := s.folder.CreateVM(t.Context(), config, s.pool, nil)
	must(t, err)
	info, err := task.WaitForResult(t.Context())
	must(t, err)
	if len(config.ExtraConfig) == 0 {
		s.setFields(t, info.Result.(types.ManagedObjectReference), tags)
	}
	return id
}

// define makes custom attributes, so that the first VM costs as many calls as
// any other. TestAttributesAreMade does without.
func (s *vcsim) define(t testing.TB, names ...string) {
	t.Helper()
	manager, err := object.GetCustomFieldsManager(s.admin.Client)
	must(t, err)
	for _, name := range names {
		_, err := manager.Add(t.Context(), name, "VirtualMachine", nil, nil)
		must(t, err)
	}
}

// setFields tags a VM with custom attributes.
func (s *vcsim) setFields(t testing.TB, vm types.ManagedObjectReference, tags map[string]string) {
	t.Helper()
	manager, err := object.GetCustomFieldsManager(s.admin.Client)
	must(t, err)
	for name, value := range tags {
		key, err := manager.FindKey(t.Context(), name)
		if err != nil {
			def, err := manager.Add(t.Context(), name, "VirtualMachine", nil, nil)
			must(t, err)
			key = def.Key
		}
		must(t, manager.Set(t.Context(), vm, key, value))
	}
}

// seedDisk makes a volume, as the in-tree plugin has them.
func (s *vcsim) seedDisk(t testing.TB, seed cloudtest.Seed) string {
	t.Helper()
	ds, err := s.finder.Datastore(t.Context(), "LocalDS_0")
	must(t, err)
	dc, err := s.finder.DefaultDatacenter(t.Context())
	must(t, err)
	_ = object.NewFileManager(s.admin.Client).MakeDirectory(t.Context(), "[LocalDS_0] kubevols", dc, true)
	file := fmt.Sprintf("kubevols/volume-%d.vmdk", s.seeded)
	manager := object.NewVirtualDiskManager(s.admin.Client)
	task, err := manager.CreateVirtualDisk(t.Context(), ds.Path(file), dc, &types.FileBackedVirtualDiskSpec{
		VirtualDiskSpec: types.VirtualDiskSpec{DiskType: "thin", AdapterType: "lsiLogic"}, CapacityKb: 1024,
	})
	must(t, err)
	must(t, task.Wait(t.Context()))
	id := fmt.Sprintf("volume-%d", s.seeded)
	s.disks[id] = file
	if seed.AttachTo == "" {
		return id
	}
	vm := s.handle(t, seed.AttachTo)
	devices, err := vm.Device(t.Context())
	must(t, err)
	controller, err := devices.FindDiskController("")
	must(t, err)
	ref := ds.Reference()
	disk := devices.CreateDisk(controller, ref, ds.Path(file))
	task, err = vm.Reconfigure(t.Context(), types.VirtualMachineConfigSpec{DeviceChange: []types.BaseVirtualDeviceConfigSpec{
		&types.VirtualDeviceConfigSpec{Operation: types.VirtualDeviceConfigSpecOperationAdd, Device: disk},
	}})
	must(t, err)
	must(t, task.Wait(t.Context()))
	return id
}

// expire ends all sessions but the owner's.
func (s *vcsim) expire(t testing.TB) {
	t.Helper()
	var m mo.SessionManager
	manager := *s.admin.ServiceContent.SessionManager
	must(t, property.DefaultCollector(s.admin.Client).RetrieveOne(t.Context(), manager, []string{"sessionList", "currentSession"}, &m))
	for _, x := range m.SessionList {
		if x.Key != m.CurrentSession.Key {
			_ = session.NewManager(s.admin.Client).TerminateSession(t.Context(), []string{x.Key})
		}
	}
}

func (s *vcsim) userData(t testing.TB, id string) []byte {
	t.Helper()
	for _, vm := range s.all(t) {
		if vm.Config.Uuid == id {
			data, err := base64.StdEncoding.DecodeString(extra(vm, "guestinfo.userdata"))
			must(t, err)
			return data
		}
	}
	t.Fatalf("there is no VM %s", id)
	return nil
}

// power brings a VM into a state.
func (s *vcsim) power(act func(*object.VirtualMachine, context.Context) (*object.Task, error)) func(testing.TB, string) {
	return func(t testing.TB, id string) {
		t.Helper()
		task, err := act(s.handle(t, id), t.Context())
		must(t, err)
		must(t, task.Wait(t.Context()))
	}
}

// orphan lets a VM lose its host.
func (s *vcsim) orphan(t testing.TB, id string) {
	t.Helper()
	ctx := s.model.Service.Context
	vm := ctx.Map.Get(s.handle(t, id).Reference())
	ctx.WithLock(vm, func() {
		ctx.Update(vm.(*simulator.VirtualMachine), []types.PropertyChange{{Name: "runtime.connectionState", Val: types.VirtualMachineConnectionStateOrphaned}})
	})
}

func (s *vcsim) driver() *vsphere.Driver { return vsphere.NewDriver(time.Now, transport{s}) }

func (s *vcsim) credentials() cloud.Credentials {
	return cloud.Credentials{
		"vsphereHost": []byte(s.server.URL.Host), "vsphereUsername": []byte(user), "vspherePassword": []byte(password),
		"vsphereInsecureSSL": []byte("true"), "userData": []byte("#cloud-config"),
	}
}
