package vsphere

import (
	"encoding/base64"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// TestFaultCodes tries every row of the error table, as a fault of a call and as
// one of a task.
func TestFaultCodes(t *testing.T) {
	t.Parallel()
	lookup := types.TypeFunc()
	codes := map[string]cloud.Code{}
	for _, row := range faults() {
		for _, name := range row.Codes {
			codes[name] = row.Means
		}
	}
	for name, want := range codes {
		if strings.ToLower(name) == name {
			continue // of the REST API
		}
		kind, known := lookup(name)
		if !known {
			t.Errorf("the error table names %s, which vCenter does not", name)
			continue
		}
		f := reflect.New(kind).Interface()
		base, ok := f.(types.BaseMethodFault)
		if !ok {
			t.Errorf("%s is no fault", name)
			continue
		}
		for _, err := range []error{taskError{fault: base}, fmt.Errorf("more: %w", soap.WrapVimFault(base))} {
			e, _ := errors.AsType[*cloud.Error](fail("try", err))
			if e == nil || e.Code != want || e.Reason != name {
				t.Errorf("%s as %T: got %v, want %v", name, err, e, want)
			}
		}
	}
}

// TestFamilies tries faults that are not in the table and belong to a family.
func TestFamilies(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		fault  types.BaseMethodFault
		want   cloud.Code
		reason string
	}{
		{&types.ReplicationDiskConfigFault{}, cloud.Unknown, "nobody knows what to do about it"},
		{&types.VmPowerOnDisabled{}, cloud.Unavailable, "it is a kind of InvalidState"},
		{&types.InvalidDrsBehaviorForFtVm{}, cloud.Invalid, "it is a kind of InvalidArgument"},
		{&types.HostNotConnected{}, cloud.Unavailable, "the host may come back"},
	} {
		if e := failFault("try", c.fault, ""); e.Code != c.want {
			t.Errorf("%T: got %v, want %v, because %s", c.fault, e.Code, c.want, c.reason)
		}
	}
}

// TestMessages: an error has what vCenter says, wherever vCenter puts it.
func TestMessages(t *testing.T) {
	t.Parallel()
	inner := &types.InvalidState{}
	inner.FaultMessage = []types.LocalizableMessage{{Key: "k", Message: "DRS is off."}}
	outer := types.InvalidArgument{InvalidProperty: "spec.pool"}
	outer.FaultCause = &types.LocalizedMethodFault{Fault: inner, LocalizedMessage: "The cause."}
	call := &soap.Fault{String: "A parameter\n was not correct. "}
	call.Detail.Fault = outer
	unnamed := &soap.Fault{String: "no"}
	for want, err := range map[string]error{
		"try: vCenter answered InvalidArgument of spec.pool: A parameter was not correct; The cause; DRS is off": soap.
			WrapSoapFault(call),
		"try: vCenter answered with an unnamed fault: no": soap.WrapSoapFault(unnamed),
		"try: vCenter answered NoDiskSpace of ds: Full": taskErrorOf(&types.LocalizedMethodFault{
			Fault: &types.NoDiskSpace{Datastore: "ds"}, LocalizedMessage: "Full.",
		}),
		"try: vCenter answered InvalidState: DRS is off": soap.WrapVimFault(inner),
	} {
		if got := fail("try", err).Error(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if got := joined([]string{strings.Repeat("é", messageMax)}); len(got) > messageMax+len("…") ||
		!strings.HasSuffix(got, "é…") {
		t.Errorf("a long message: got %d bytes, want it cut", len(got))
	}
}

// config is a VM with a disk of 10 GiB, an interface and these vApp properties.
func config(properties ...string) *types.VirtualMachineConfigInfo {
	c := &types.VirtualMachineConfigInfo{
		Version: "vmx-13", ChangeVersion: "v1", Files: types.VirtualMachineFileInfo{VmPathName: "[ds] m/m.vmx"},
		Hardware: types.VirtualHardware{NumCPU: 1, MemoryMB: 512, Device: []types.BaseVirtualDevice{
			diskOf("[ds] m/m.vmdk", "u1", 10<<20), &types.VirtualVmxnet3{},
		}},
	}
	if len(properties) > 0 {
		var all []types.VAppPropertyInfo
		for i, id := range properties {
			all = append(all, types.VAppPropertyInfo{Key: int32(i), Id: id})
		}
		c.VAppConfig = &types.VmConfigInfo{Property: all}
	}
	return c
}

func diskOf(file, id string, kib int64) *types.VirtualDisk {
	backing := &types.VirtualDiskFlatVer2BackingInfo{Uuid: id}
	backing.FileName = file
	return &types.VirtualDisk{VirtualDevice: types.VirtualDevice{Backing: backing}, CapacityInKB: kib}
}

func request(data string) cloud.CreateRequest {
	return cloud.CreateRequest{Ref: cloud.Ref{Name: "m"}, Token: "t", UserData: []byte(data)}
}

// values are what a boot sets, by property or entry.
func values(b boot) map[string]string {
	all := map[string]string{}
	for k, v := range b.extra {
		all["extra "+k] = v
	}
	for _, e := range b.edits {
		all["vapp "+e.Info.Id] = e.Info.Value
	}
	return all
}

func TestBoot(t *testing.T) {
	t.Parallel()
	b64 := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	for _, c := range []struct {
		name, reason string
		spec         spec
		data         string
		properties   []string
		want         map[string]string
		problem      string
	}{
		{
			name: "vApp template", reason: "MCM's way for cloud-init", data: "#cloud-config\n",
			properties: []string{"hostname", "user-data"},
			want:       map[string]string{"vapp hostname": "m", "vapp user-data": b64("#cloud-config\n")},
		},
		{
			name: "own properties", reason: "then MCM injects nothing",
			spec: spec{VApp: &vApp{map[string]string{"a": "b"}}, SSHKeys: []string{"k"}},
			data: "x", properties: []string{"a", "user-data"}, want: map[string]string{"vapp a": "b"},
		},
		{
			name: "unknown property", reason: "vCenter would refuse it after the clone",
			spec:       spec{VApp: &vApp{map[string]string{"a": "b"}}},
			properties: []string{"user-data"}, problem: "providerSpec.vapp.properties[a]",
		},
		{
			name: "long property", reason: "vCenter would refuse it after the clone", data: strings.Repeat("a", 60000),
			properties: []string{"user-data"},
			problem:    "secret.userData",
		},
		{
			name: "keys twice", reason: "MCM refuses it", spec: spec{SSHKeys: []string{"k"}},
			data: "#cloud-config\nssh_authorized_keys: []\n", problem: "providerSpec.sshKeys",
		},
		{
			name: "keys with MIME", reason: "MCM appends them to any text", spec: spec{SSHKeys: []string{"k"}},
			data: "MIME-Version: 1.0\n", properties: []string{"user-data"},
			want: map[string]string{"vapp user-data": b64("MIME-Version: 1.0\n\nssh_authorized_keys: [\"k\"]\n")},
		},
		{
			name: "keys with a template", reason: "it is a cloud-config", spec: spec{SSHKeys: []string{"k"}},
			data: "## template: jinja\n#cloud-config\n", properties: []string{"user-data"},
			want: map[string]string{
				"vapp user-data": b64("## template: jinja\n#cloud-config\n\nssh_authorized_keys: [\"k\"]\n"),
			},
		},
		{
			name: "keys with gzip", reason: "they would break it", spec: spec{SSHKeys: []string{"k"}},
			data: "\x1f\x8b\x08", problem: "providerSpec.sshKeys",
		},
		{
			name: "keys with addresses", reason: "cloud-init would take them for one", spec: spec{SSHKeys: []string{"k"}},
			data: "#include\nhttps://example.org\n", problem: "providerSpec.sshKeys",
		},
		{
			name: "keys in a comment", reason: "MCM refuses the field, not the word", spec: spec{SSHKeys: []string{"k"}},
			data: "#cloud-config\n# no ssh_authorized_keys\n", properties: []string{"user-data"},
			want: map[string]string{
				"vapp user-data": b64("#cloud-config\n# no ssh_authorized_keys\n\nssh_authorized_keys: [\"k\"]\n"),
			},
		},
		{
			name: "no properties of its own", reason: "MCM injects nothing where the class has vapp", spec: spec{VApp: &vApp{}},
			data: "x", properties: []string{"user-data"}, want: map[string]string{},
		},
		{
			name: "keys", reason: "they are appended", spec: spec{SSHKeys: []string{"k"}}, data: "#cloud-config\na: b",
			properties: []string{"user-data"},
			want:       map[string]string{"vapp user-data": b64("#cloud-config\na: b\nssh_authorized_keys: [\"k\"]\n")},
		},
	} {
		b, err := c.spec.boot(request(c.data), config(c.properties...))
		if c.problem != "" {
			e, _ := errors.AsType[*cloud.Error](err)
			if e == nil || e.Code != cloud.Invalid || len(e.Problems) != 1 || e.Problems[0].Field != c.problem {
				t.Errorf("%s: got %v, want a problem with %s, because %s", c.name, err, c.problem, c.reason)
			}
			continue
		}
		if diff := cmp.Diff(c.want, values(b)); diff != "" || err != nil {
			t.Errorf("%s: %v %s, because %s", c.name, err, diff, c.reason)
		}
	}
}

func TestScriptWithKeys(t *testing.T) {
	t.Parallel()
	s := spec{SSHKeys: []string{"k"}}
	out, err := s.withKeys([]byte("#!/bin/sh\necho\n"))
	text := string(out)
	if err != nil || !strings.HasPrefix(text, "#cloud-config\nssh_authorized_keys: [\"k\"]\n") ||
		!strings.Contains(text, base64.StdEncoding.EncodeToString([]byte("#!/bin/sh\necho\n"))) {
		t.Errorf("got %q, %v, want a cloud-config with the keys and the script", text, err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestChange(t *testing.T) {
	t.Parallel()
	s := spec{
		NumCPUs: 4, MemoryMB: 4096, SystemDisk: &systemDisk{20},
		ExtraConfig: map[string]string{"a": "b", markKey: "forged"},
	}
	network := []types.BaseVirtualDeviceBackingInfo{&types.VirtualEthernetCardNetworkBackingInfo{}}
	change, err := s.change(request(""), config(), network, nil)
	must(t, err)
	if change.NumCPUs != 4 || change.MemoryMB != 4096 || change.ChangeVersion != "v1" || !*change.Flags.DiskUuidEnabled ||
		change.ScheduledHardwareUpgradeInfo.VersionKey != "vmx-15" {
		t.Errorf("got %+v", change)
	}
	m := markOf(change.ExtraConfig[len(change.ExtraConfig)-1].GetOptionValue().Value)
	if m == nil || m.Phase != phaseConfigured || !slices.Equal(m.Disks, []string{"u1"}) {
		t.Errorf("got mark %+v, want that of a configured VM with its disk", m)
	}
	disk := change.DeviceChange[1].GetVirtualDeviceConfigSpec().Device.(*types.VirtualDisk)
	if disk.CapacityInKB != 20<<20 {
		t.Errorf("got a disk of %d KiB, want 20 GiB", disk.CapacityInKB)
	}
	none := config()
	none.Hardware.Device = none.Hardware.Device[:1]
	added := interfaceChanges(none, network)[0].GetVirtualDeviceConfigSpec()
	if added.Operation != types.VirtualDeviceConfigSpecOperationAdd {
		t.Errorf("a template without interface: got %v, want one to be added", added.Operation)
	}
	small := spec{SystemDisk: &systemDisk{5}}
	if err := small.fits(request(""), configured{config: config()}); cloud.CodeOf(err) != cloud.Invalid {
		t.Errorf("a disk that would shrink: got %v, want Invalid", err)
	}
	if upgrade("vmx-19") != nil || upgrade("") != nil {
		t.Error("hardware that is new enough, or not known, is upgraded")
	}
}

func TestCameWith(t *testing.T) {
	t.Parallel()
	volume := diskOf("[ds] m/fcd.vmdk", "u9", 1)
	volume.VDiskId = &types.ID{Id: "v"}
	ours, byMCM := &seen{mark: &mark{Disks: []string{"u1"}}}, &seen{}
	for _, c := range []struct {
		reason string
		vm     *seen
		disk   *types.VirtualDisk
		want   bool
	}{
		{"it is on the list", ours, diskOf("[ds] m/m.vmdk", "u1", 1), true},
		{"it was moved with the VM and is on the list", ours, diskOf("[ds2] m/m.vmdk", "u1", 1), true},
		{
			"a volume that was moved into the VM's directory is not on the list", ours, diskOf("[ds] m/volume.vmdk", "u2", 1),
			false,
		},
		{"a first class disk is somebody's own", ours, volume, false},
		{"MCM keeps no list; it is in the VM's directory", byMCM, diskOf("[ds] m/m.vmdk", "u1", 1), true},
		{"MCM keeps no list; it is elsewhere", byMCM, diskOf("[ds] kubevols/v.vmdk", "u2", 1), false},
		{"a longer directory is another", byMCM, diskOf("[ds] m2/v.vmdk", "u2", 1), false},
	} {
		if got := c.vm.cameWith(config(), c.disk); got != c.want {
			t.Errorf("got %v, want %v, because %s", got, c.want, c.reason)
		}
	}
}

func TestFailureIsToldOnce(t *testing.T) {
	t.Parallel()
	failed := func(key, kind string) types.TaskInfo {
		return types.TaskInfo{
			Key: key, DescriptionId: kind, State: types.TaskInfoStateError,
			Error: &types.LocalizedMethodFault{Fault: &types.NoDiskSpace{}},
		}
	}
	vm := &seen{tasks: []types.TaskInfo{failed("1", "VirtualMachine.powerOn"), failed("2", "Drm.ExecuteVmPowerOnLRO")}}
	r := newReports()
	if err := r.failure(vm, "reconfigure"); err != nil {
		t.Errorf("another kind of task: got %v, want none", err)
	}
	if err := r.failure(vm, "powerOn"); cloud.CodeOf(fail("start", err)) != cloud.Exhausted {
		t.Errorf("first look: got %v, want the failure", err)
	}
	if err := r.failure(vm, "powerOn"); err != nil {
		t.Errorf("second look: got %v, want none, so that it is tried again", err)
	}
	vm.tasks = append(vm.tasks, failed("3", "VirtualMachine.powerOn"))
	if err := r.failure(vm, "powerOn"); err == nil {
		t.Error("the next failure is not told")
	}
}

func TestStates(t *testing.T) {
	t.Parallel()
	const off, on = types.VirtualMachinePowerStatePoweredOff, types.VirtualMachinePowerStatePoweredOn
	for _, c := range []struct {
		reason string
		vm     seen
		want   cloud.State
	}{
		{"half configured", seen{power: off, mark: &mark{Phase: phaseCloned}}, cloud.StatePending},
		{"configured, not yet on", seen{power: off, mark: &mark{Phase: phaseConfigured}}, cloud.StatePending},
		{"somebody switched it off", seen{power: off, mark: &mark{Phase: phaseStarted}}, cloud.StateStopped},
		{"MCM made it, somebody switched it off", seen{power: off}, cloud.StateStopped},
		{"it is on, whatever was written down", seen{power: on, mark: &mark{Phase: phaseConfigured}}, cloud.StateRunning},
		{"its files are gone", seen{power: on, connection: types.VirtualMachineConnectionStateInvalid}, cloud.StateFailed},
		{
			"its host is away",
			seen{power: on, connection: types.VirtualMachineConnectionStateDisconnected},
			cloud.StateUnknown,
		},
		{"vCenter shows nothing yet", seen{}, cloud.StatePending},
		{"it is going", seen{power: off, tasks: []types.TaskInfo{{
			DescriptionId: "VirtualMachine.destroy",
			State:         types.TaskInfoStateRunning,
		}}}, cloud.StateDeleting},
	} {
		if got, reason := stateOf(&c.vm); got != c.want || reason == "" {
			t.Errorf("got %v (%s), want %v, because %s", got, reason, c.want, c.reason)
		}
	}
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	vm := &seen{ip: "10.0.0.5", mark: &mark{Machine: "m"}, net: []types.GuestNicInfo{
		{DeviceConfigId: 4001, IpAddress: []string{"fe80::1", "2001:db8::1", "192.168.0.1"}},
		{DeviceConfigId: 4000, IpAddress: []string{"10.0.0.5", "junk", "169.254.1.1"}},
	}}
	want := []cloud.Address{
		{Kind: "Hostname", Value: "m"},
		{Kind: "InternalIP", Value: "10.0.0.5"},
		{Kind: "InternalIP", Value: "192.168.0.1"},
		{Kind: "InternalIP", Value: "2001:db8::1"},
	}
	if diff := cmp.Diff(want, addresses(vm)); diff != "" {
		t.Error(diff)
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"plain", `a/b\c`, "100%", "%2f", "%25"} {
		if got := unescape(escape(name)); got != name {
			t.Errorf("%q comes back as %q", name, got)
		}
	}
}
