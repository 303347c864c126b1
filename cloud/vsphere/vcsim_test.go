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
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/cloudtest"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/vcentertest"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/vsphere"
)

const markKey = "mcm.cluster.x-k8s.io"

// vcsim is the simulated vCenter behind the fault proxy.
type vcsim struct {
	*vcentertest.VCenter
	base   *http.Transport
	proxy  *cloudtest.Proxy
	seeded int
	disks  map[string]string // id of volumes and their files

	mu    sync.Mutex
	tasks map[string]bool // asked for through the proxy and perhaps unfinished
}

// start returns a vCenter with a folder and a template.
func start(t testing.TB) *vcsim {
	t.Helper()
	v, err := vcentertest.Start(t.Context())
	must(t, err)
	t.Cleanup(v.Close)
	const connections = 250 // as many as calls at once, so that none needs a handshake of its own
	s := &vcsim{VCenter: v, disks: map[string]string{}, tasks: map[string]bool{}}
	s.base = &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, MaxIdleConns: connections,
		MaxIdleConnsPerHost: connections,
	}
	t.Cleanup(s.base.CloseIdleConnections)
	s.proxy = cloudtest.NewProxy(watcher{s}, classify)
	must(t, v.Define(t.Context(), "kubernetes.io/cluster/c1", "kubernetes.io/role/node"))
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
	if gone, err := w.setsFieldOfNothing(r); gone || err != nil {
		return &http.Response{
			StatusCode: http.StatusInternalServerError, Header: http.Header{"Content-Type": {"text/xml"}}, Request: r,
			Body: io.NopCloser(strings.NewReader(notFoundFault)),
		}, err
	}
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

const notFoundFault = `<?xml version="1.0"?><Envelope xmlns="http://schemas.xmlsoap.org/soap/envelope/"><Body><Fault>` +
	`<faultcode>ServerFaultCode</faultcode><faultstring>The object has already been deleted</faultstring><detail>` +
	`<ManagedObjectNotFoundFault xmlns="urn:vim25" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" ` +
	`xsi:type="ManagedObjectNotFound"/></detail></Fault></Body></Envelope>`

var fieldOf = regexp.MustCompile(`<SetField .*<entity[^>]*>([^<]+)</entity>`)

// setsFieldOfNothing reports whether r sets a field of a VM that has gone: vCenter
// refuses that, and the simulator panics with a lock held.
func (w watcher) setsFieldOfNothing(r *http.Request) (bool, error) {
	if r.Body == nil {
		return false, nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return false, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	m := fieldOf.FindSubmatch(body)
	if m == nil {
		return false, nil
	}
	return !w.s.Exists(string(m[1])), nil
}

// advance waits until the tasks have ended that the driver asked for.
func (s *vcsim) advance(t testing.TB, _ time.Duration) {
	t.Helper()
	s.mu.Lock()
	ids := slices.Collect(maps.Keys(s.tasks))
	s.mu.Unlock()
	for _, id := range ids {
		s.Wait(id)
		s.mu.Lock()
		delete(s.tasks, id)
		s.mu.Unlock()
	}
}

var soapOp = regexp.MustCompile(`<(?:soapenv:|soap:)?Body[^>]*><(\w+)`)

// restLogin opens a session of the REST API.
const restLogin = "POST /rest/com/vmware/cis/session"

// classify names the call that a request makes. Those without which there is no
// session count as the login.
func classify(r *http.Request, body []byte) cloudtest.Call {
	if r != nil && strings.HasPrefix(r.URL.Path, "/rest/") {
		op := r.Method + " " + strings.TrimRight(r.URL.Path+" "+r.URL.Query().Get("~action"), " ")
		login := strings.HasPrefix(op, restLogin) || r.Method == http.MethodDelete
		return cloudtest.Call{Op: op, Login: login, Mutates: strings.Contains(op, " attach")}
	}
	op := ""
	if m := soapOp.FindSubmatch(body); m != nil {
		op = string(m[1])
	}
	login := op == "Login" || op == "Logout" || strings.HasSuffix(op, "RetrieveServiceContent")
	mutates := strings.HasSuffix(op, "_Task") || op == "AddCustomFieldDef" || op == "SetField"
	return cloudtest.Call{Op: op, Login: login, Mutates: mutates}
}

// all returns every VM.
func (s *vcsim) all(t testing.TB) []mo.VirtualMachine {
	t.Helper()
	vms, err := s.VMs(t.Context())
	must(t, err)
	return vms
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
		ds, err := s.Finder.Datastore(t.Context(), "LocalDS_0")
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
	vm, err := s.VM(t.Context(), id)
	must(t, err)
	return vm
}

// owned are the ownership tags of a class.
func owned(t testing.TB, c cloud.Class) map[string]string {
	t.Helper()
	words := strings.Split(c.Owner, " ")
	n := len(words)
	return map[string]string{"kubernetes.io/cluster/" + words[n-2]: "1", "kubernetes.io/role/" + words[n-1]: "1"}
}

// seed makes a resource as we do, when it has an owner, and else as MCM does.
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
	task, err := s.Folder.CreateVM(t.Context(), config, s.Pool, nil)
	must(t, err)
	info, err := task.WaitForResult(t.Context())
	must(t, err)
	if len(config.ExtraConfig) == 0 {
		s.setFields(t, info.Result.(types.ManagedObjectReference), tags)
	}
	return id
}

// occupy makes a VM of somebody else with that name in the folder of the class.
func (s *vcsim) occupy(t testing.TB, name string) (free func()) {
	id := uuid.NewString()
	task, err := s.Folder.CreateVM(t.Context(), types.VirtualMachineConfigSpec{
		Name: name, Uuid: id, GuestId: "otherLinux64Guest", Files: &types.VirtualMachineFileInfo{VmPathName: "[LocalDS_0]"},
	}, s.Pool, nil)
	must(t, err)
	must(t, task.Wait(t.Context()))
	return func() {
		task, err := s.handle(t, id).Destroy(t.Context())
		must(t, err)
		must(t, task.Wait(t.Context()))
	}
}

// setFields tags a VM with custom attributes.
func (s *vcsim) setFields(t testing.TB, vm types.ManagedObjectReference, tags map[string]string) {
	t.Helper()
	manager, err := object.GetCustomFieldsManager(s.Client.Client)
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
	ds, err := s.Finder.Datastore(t.Context(), "LocalDS_0")
	must(t, err)
	dc, err := s.Finder.DefaultDatacenter(t.Context())
	must(t, err)
	_ = object.NewFileManager(s.Client.Client).MakeDirectory(t.Context(), "[LocalDS_0] kubevols", dc, true)
	file := fmt.Sprintf("kubevols/volume-%d.vmdk", s.seeded)
	manager := object.NewVirtualDiskManager(s.Client.Client)
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
	task, err = vm.Reconfigure(t.Context(),
		types.VirtualMachineConfigSpec{DeviceChange: []types.BaseVirtualDeviceConfigSpec{
			&types.VirtualDeviceConfigSpec{Operation: types.VirtualDeviceConfigSpecOperationAdd, Device: disk},
		}})
	must(t, err)
	must(t, task.Wait(t.Context()))
	return id
}

// expire ends all sessions but the owner's.
func (s *vcsim) expire(t testing.TB) {
	t.Helper()
	must(t, s.Expire(t.Context()))
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
func (s *vcsim) power(act func(*object.VirtualMachine, context.Context) (*object.Task, error)) func(testing.TB,
	string) {
	return func(t testing.TB, id string) {
		t.Helper()
		task, err := act(s.handle(t, id), t.Context())
		must(t, err)
		must(t, task.Wait(t.Context()))
	}
}

// boot is when a VM was powered on last.
func (s *vcsim) boot(t testing.TB, id string) string {
	t.Helper()
	var vm mo.VirtualMachine
	handle := s.handle(t, id)
	must(t, handle.Properties(t.Context(), handle.Reference(), []string{"summary.runtime.bootTime"}, &vm))
	return fmt.Sprint(vm.Summary.Runtime.BootTime)
}

// orphan lets a VM lose its host.
func (s *vcsim) orphan(t testing.TB, id string) {
	t.Helper()
	must(t, s.Orphan(t.Context(), id))
}

func (s *vcsim) driver() *vsphere.Driver { return vsphere.NewDriver(time.Now, transport{s}) }

func (s *vcsim) credentials() cloud.Credentials {
	return cloud.Credentials{
		"vsphereHost": []byte(s.Host()), "vsphereUsername": []byte(vcentertest.User),
		"vspherePassword":    []byte(vcentertest.Password),
		"vsphereInsecureSSL": []byte("true"), "userData": []byte("#cloud-config"),
	}
}
