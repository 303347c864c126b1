package gcp_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/gcp"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/cloudtest"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/gcptest"
)

// open returns an account of a new process.
func (w *env) open(in cloud.ClassInput, creds cloud.Credentials) (cloud.Account, cloud.Class) {
	w.t.Helper()
	d := w.driver()
	c, problems := d.Parse(in)
	if err := cloud.Worst("parse", problems, cloud.BlocksCreate); err != nil {
		w.t.Fatal(err)
	}
	a, err := d.Open(w.t.Context(), c, creds)
	if err != nil {
		w.t.Fatal(err)
	}
	return a, c
}

// machine is what is remembered of a machine between calls.
type machine struct{ cloud.CreateRequest }

func newMachine(name string, c cloud.Class) *machine {
	m := &machine{cloud.CreateRequest{
		Ref: cloud.Ref{Name: name, OwnerID: "22222222-2222-4222-8222-222222222222", Class: c}, Token: "11111111",
		UserData: []byte("#cloud-config\n"), Tags: map[string]string{cloud.ClusterIDTag: "c-1"},
	}}
	m.Checkpoint = func(_ context.Context, state string) error {
		m.State = state
		return nil
	}
	return m
}

// create calls Create until it fails or is finished.
func (w *env) create(a cloud.Account, m *machine) (cloud.VM, error) {
	for range 100 {
		vm, err := a.Create(w.t.Context(), m.CreateRequest)
		if err != nil || vm.RetryAfter == 0 {
			return vm, err
		}
		w.clock.Advance(vm.RetryAfter)
	}
	return cloud.VM{}, errors.New("not finished after 100 calls")
}

// remove calls Delete until it fails or is done.
func (w *env) remove(a cloud.Account, r cloud.Ref) error {
	for range 100 {
		d, err := a.Delete(w.t.Context(), r)
		if err != nil || d.Done {
			return err
		}
		w.clock.Advance(d.RetryAfter)
	}
	return errors.New("not done after 100 calls")
}

func (w *env) calls() (all []string) {
	for _, c := range w.proxy.Calls() {
		if !c.Login {
			all = append(all, c.Op[:strings.IndexByte(c.Op, ' ')])
		}
	}
	return all
}

// TestTwoCalls: projects share their quota of calls, so that a VM has to cost no more than the
// request and one look at what came of it.
func TestTwoCalls(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	a, c := w.open(class(nil), credentials())
	w.proxy.Forget()
	if _, err := w.create(a, newMachine("m-1", c)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{http.MethodPost, http.MethodGet}, w.calls()); diff != "" {
		t.Errorf("calls, -want +got:\n%s", diff)
	}
}

// TestOperationFails: a shortage shows in the operation only, after the request was accepted. The
// next process learns of it by the checkpoint, and tries again with disks of other names.
func TestOperationFails(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.FailNext("ZONE_RESOURCE_POOL_EXHAUSTED", "The zone does not have enough resources available.")
	a, c := w.open(class(nil), credentials())
	m := newMachine("m-1", c)
	if vm, err := a.Create(t.Context(), m.CreateRequest); err != nil || vm.RetryAfter == 0 {
		t.Fatalf("create: got %+v, %v, want a VM that is waited for", vm, err)
	}
	next, _ := w.open(class(nil), credentials())
	_, err := w.create(next, m)
	e, _ := errors.AsType[*cloud.Error](err)
	want := cloud.Offering{
		Region: gcptest.Region, Zone: zone, InstanceType: "n2-standard-2", CapacityType: "on-demand",
	}
	if e == nil || e.Code != cloud.Exhausted || e.Offering == nil || *e.Offering != want {
		t.Fatalf("create: got %v, want Exhausted of %v", err, want)
	}
	if left := w.Things(); len(left) != 0 {
		t.Errorf("left behind: %+v", left)
	}
	if _, err := w.create(next, m); err != nil {
		t.Errorf("create again: %v", err)
	}
	var disks []string
	for _, call := range w.proxy.Calls() {
		if _, name, ok := strings.Cut(string(call.Body), `"diskName":"`); ok {
			disks = append(disks, name[:strings.IndexByte(name, '"')])
		}
	}
	if len(disks) != 2 || disks[0] == disks[1] {
		t.Errorf("the disks have the names %v, want two different ones", disks)
	}
}

// TestSpotShortage: what is short on the spot market says nothing about other VMs.
func TestSpotShortage(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.FailNext("ZONE_RESOURCE_POOL_EXHAUSTED", "no")
	a, c := w.open(class(spec{"scheduling": spec{"onHostMaintenance": "TERMINATE", "preemptible": true}}), credentials())
	_, err := w.create(a, newMachine("m-1", c))
	if e, _ := errors.AsType[*cloud.Error](err); e == nil || e.Offering == nil || e.Offering.CapacityType != "spot" {
		t.Errorf("create: got %v, want an offering of the spot market", err)
	}
}

// TestNameTaken: an instance of somebody else that has the machine's name is not taken, and stays.
func TestNameTaken(t *testing.T) {
	t.Parallel()
	for what, seed := range map[string]gcptest.SeedVM{
		"another cluster": {Tags: []string{"kubernetes-io-cluster-d", "kubernetes-io-role-node"}},
		"no tags":         {},
		"another owner": {
			Tags:   []string{"kubernetes-io-cluster-c", "kubernetes-io-role-node"},
			Labels: map[string]string{gcptest.Prefix + "owner-id": "o", gcptest.Prefix + "machine": "m-1"},
		},
	} {
		w := newEnv(t)
		seed.Zone, seed.Name = zone, "m-1"
		at := w.AddVM(seed)
		a, c := w.open(class(nil), credentials())
		m := newMachine("m-1", c)
		_, err := w.create(a, m)
		if e, _ := errors.AsType[*cloud.Error](err); e == nil || e.Code != cloud.Unknown || e.Reason != "NameTaken" {
			t.Errorf("%s: create: got %v, want NameTaken", what, err)
		}
		if err := w.remove(a, m.Ref); err != nil {
			t.Errorf("%s: delete: %v", what, err)
		}
		if left := w.Things(); len(left) != 1 || left[0].ID != at {
			t.Errorf("%s: the project has %+v, want the VM of somebody else", what, left)
		}
	}
}

// TestLongTag: a tag that does not fit into a label is kept whole, and shown by a listing.
func TestLongTag(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	a, c := w.open(class(nil), credentials())
	m := newMachine("m-1", c)
	const key = cloud.TagPrefix + "cluster-name"
	m.Tags[key] = strings.Repeat("a.", 31) + "b"
	vm, err := w.create(a, m)
	if err != nil {
		t.Fatal(err)
	}
	if got := w.Metadata(vm.ID)[gcptest.Prefix+"cluster-name"]; got != m.Tags[key] {
		t.Errorf("the metadata has %q, want %q", got, m.Tags[key])
	}
	for r, err := range a.List(t.Context(), c, cloud.KindVM) {
		if err != nil || r.Tags[key] != m.Tags[key] {
			t.Errorf("list: got the tag %q, %v, want %q", r.Tags[key], err, m.Tags[key])
		}
	}
}

// TestPartialListing: a page that lacks a zone looks as if the VMs there were gone. Trouble in another
// region is none of the class's.
func TestPartialListing(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		reason  string
		trouble func(*gcptest.Cloud)
		want    cloud.Code
	}{
		"a warning of a zone": {
			"the zone shows nothing", func(c *gcptest.Cloud) { c.Warn("UNREACHABLE") }, cloud.Unavailable,
		},
		"a zone that is not reached": {
			"it is named beside the zones", func(c *gcptest.Cloud) { c.Unreachable(gcptest.Region + "-c") }, cloud.Unavailable,
		},
		"a zone of another region": {
			"no VM of the class is there", func(c *gcptest.Cloud) { c.Unreachable("us-east1-b") }, cloud.Unknown,
		},
	} {
		w := newEnv(t)
		a, c := w.open(class(nil), credentials())
		m := newMachine("m-1", c)
		if _, err := w.create(a, m); err != nil {
			t.Fatal(err)
		}
		row.trouble(w.Cloud)
		for _, kind := range []cloud.Kind{cloud.KindVM, cloud.KindDisk} {
			var last error
			seen := 0
			for _, last = range a.List(t.Context(), c, kind) {
				seen++
			}
			switch {
			case row.want != cloud.Unknown && cloud.CodeOf(last) != row.want:
				t.Errorf("%s: list %s: got %v, want %s\nbecause: %s", name, kind, last, row.want, row.reason)
			case row.want == cloud.Unknown && (last != nil || seen == 0 && kind == cloud.KindVM):
				t.Errorf("%s: list %s: got %d, %v, want what is there\nbecause: %s", name, kind, seen, last, row.reason)
			}
		}
	}
}

// TestShieldedAsTheClassSays: Google turns on the virtual TPM and the integrity monitoring by itself.
// What the class does not set is not sent: false would turn it off.
func TestShieldedAsTheClassSays(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		reason     string
		class      spec
		want, lack string
	}{
		"secure boot alone": {
			"the defaults of the rest stay",
			spec{"secureBoot": true},
			`"shieldedInstanceConfig":{"enableSecureBoot":true}`, "enableVtpm",
		},
		"turned off": {
			"the class says so",
			spec{"vtpm": false, "integrityMonitoring": false},
			`"shieldedInstanceConfig":{"enableIntegrityMonitoring":false,"enableVtpm":false}`, "enableSecureBoot",
		},
		"nothing set": {"MCM sends an empty one as well", spec{}, `"shieldedInstanceConfig":{}`, "enableVtpm"},
	} {
		w := newEnv(t)
		a, c := w.open(class(spec{"shieldedInstanceConfiguration": row.class}), credentials())
		w.proxy.Forget()
		if _, err := w.create(a, newMachine("m-1", c)); err != nil {
			t.Fatal(err)
		}
		body := ""
		for _, call := range w.proxy.Calls() {
			body += string(call.Body)
		}
		if !strings.Contains(body, row.want) || strings.Contains(body, row.lack) {
			t.Errorf("%s: sent %s\nwant %s without %s\nbecause: %s", name, body, row.want, row.lack, row.reason)
		}
	}
}

// TestDisksThatStay: who asks for disks that outlive their VMs gets them, and a listing shows them.
func TestDisksThatStay(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	a, c := w.open(class(spec{"disks": []any{bootDisk(spec{"autoDelete": false})}}), credentials())
	m := newMachine("m-1", c)
	if _, err := w.create(a, m); err != nil {
		t.Fatal(err)
	}
	if err := w.remove(a, m.Ref); err != nil {
		t.Fatal(err)
	}
	var kinds []cloud.Kind
	for r, err := range a.List(t.Context(), c) {
		if err != nil {
			t.Fatal(err)
		}
		kinds = append(kinds, r.Kind)
	}
	if !slices.Equal(kinds, []cloud.Kind{cloud.KindDisk}) {
		t.Errorf("list yields %v, want the disk", kinds)
	}
}

// TestUserData: what reads the user data of a guest depends on what it is. MCM's rule for scripts
// and cloud-configs stays.
func TestUserData(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"#cloud-config\n": {"user-data"}, `{"ignition":{}}`: {"user-data"}, "#!/bin/sh\n": {"startup-script"},
		"## template: jinja\n#cloud-config\n": {"user-data"}, "MIME-Version: 1.0\n": {"user-data"},
		"\x1f\x8b": {"user-data", "user-data-encoding"}, "": nil,
	} {
		w := newEnv(t)
		a, c := w.open(class(nil), credentials())
		m := newMachine("m-1", c)
		m.UserData = []byte(text)
		vm, err := w.create(a, m)
		if got := w.Names(vm.ID); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q is in %v, %v, want %v", text, got, err, want)
		}
	}
}

// TestDoubleScript: Compute Engine takes a key of the metadata once, so that a script beside
// another one is refused before anything is made.
func TestDoubleScript(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	a, c := w.open(class(spec{"metadata": []any{spec{"key": "startup-script", "value": "date"}}}), credentials())
	m := newMachine("m-1", c)
	m.UserData = []byte("#!/bin/sh\n")
	_, err := w.create(a, m)
	if cloud.CodeOf(err) != cloud.Invalid || len(w.calls()) > 0 {
		t.Errorf("create: got %v after %v, want Invalid and no call", err, w.calls())
	}
}

// TestBinaryTooLong: base64 makes user data longer than the cloud takes it.
func TestBinaryTooLong(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	a, c := w.open(class(nil), credentials())
	m := newMachine("m-1", c)
	m.UserData = []byte(strings.Repeat("\xff", 200<<10))
	if _, err := w.create(a, m); cloud.CodeOf(err) != cloud.Invalid {
		t.Errorf("create: got %v, want Invalid", err)
	}
}

// TestThrottled: quotas of calls are counted by the minute, so that a call is repeated when the
// next one begins. A quota of concurrent operations is none of machines.
func TestThrottled(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	a, c := w.open(class(nil), credentials())
	w.proxy.Inject(cloudtest.Fault{
		Kind: cloudtest.Answer, Match: cloudtest.Mutating, Times: cloudtest.Forever,
		Reply: refused(http.StatusForbidden, "CONCURRENT_OPERATIONS_QUOTA_EXCEEDED", "Quota exceeded"),
	})
	_, err := w.create(a, newMachine("m-1", c))
	const rest = 40 * time.Second // of the minute
	if e, _ := errors.AsType[*cloud.Error](err); e == nil || e.Code != cloud.Throttled || e.RetryAfter != rest {
		t.Errorf("create: got %v, want Throttled for %v", err, rest)
	}
}

// TestWorkloadIdentity: the token of the workload is exchanged for one of the service account, and
// again when that has ended.
func TestWorkloadIdentity(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	a, c := w.open(class(nil), cloud.Credentials{
		"credentialsConfig": gcptest.Federation(), "projectID": []byte(gcptest.Project),
	})
	m := newMachine("m-1", c)
	if _, err := w.create(a, m); err != nil {
		t.Fatal(err)
	}
	w.Expire()
	if _, err := a.Get(t.Context(), m.Ref); err != nil {
		t.Errorf("get after the token ended: %v", err)
	}
}

// TestShapes: GPUs and architecture are those of the machine type, and GPUs also of the class.
func TestShapes(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	for name, want := range map[string]struct{ gpu, architecture string }{
		"t2a-standard-1": {"0", "arm64"}, "g2-standard-4": {"1", "amd64"},
	} {
		a, c := w.open(class(spec{"machineType": name}), credentials())
		got, err := a.Capacity(t.Context(), c)
		if err != nil || got.Resources["gpu"] != want.gpu || got.Architecture != want.architecture {
			t.Errorf("%s: got %+v, %v, want %+v", name, got, err, want)
		}
	}
	a, c := w.open(class(spec{
		"gpu": spec{"acceleratorType": "nvidia-tesla-t4", "count": 2}, "scheduling": spec{"onHostMaintenance": "TERMINATE"},
	}), credentials())
	if got, err := a.Capacity(t.Context(), c); err != nil || got.Resources["gpu"] != "2" {
		t.Errorf("GPUs of the class: got %+v, %v, want 2", got, err)
	}
}

// TestEndpoint: projects that reach Google's APIs by an address of their own name it, and the
// driver calls no other.
func TestEndpoint(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	var hosts []string
	d := gcp.NewDriver(gcp.Options{
		Now: w.clock.Now, Endpoint: "https://compute-psc.p.googleapis.com/compute/v1/",
		Transport: seen(func(r *http.Request) (*http.Response, error) {
			hosts = append(hosts, r.URL.Host)
			return w.proxy.RoundTrip(r)
		}),
	})
	c, _ := d.Parse(class(nil))
	a, err := d.Open(t.Context(), c, credentials())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Capacity(t.Context(), c); err != nil {
		t.Error(err)
	}
	if want := []string{"oauth2.googleapis.com", "compute-psc.p.googleapis.com"}; !slices.Equal(hosts, want) {
		t.Errorf("the driver calls %v, want %v", hosts, want)
	}
}

// seen is a transport.
type seen func(*http.Request) (*http.Response, error)

// RoundTrip calls the function.
func (s seen) RoundTrip(r *http.Request) (*http.Response, error) { return s(r) }
