package vsphere_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/vmware/govmomi/vim25/types"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/cloudtest"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/vsphere"
)

// open opens an account for a class.
func (s *vcsim) open(t *testing.T, in cloud.ClassInput) (cloud.Account, cloud.Class) {
	t.Helper()
	d := s.driver()
	c, _ := d.Parse(in)
	a, err := d.Open(t.Context(), c, s.credentials())
	must(t, err)
	t.Cleanup(func() { _ = a.(io.Closer).Close() })
	return a, c
}

// ask returns a request for a machine that keeps its checkpoints.
func ask(name string, c cloud.Class) *cloud.CreateRequest {
	r := &cloud.CreateRequest{Ref: cloud.Ref{Name: name, OwnerID: "owner-" + name, Class: c}, Token: "token-" + name}
	r.Checkpoint = func(_ context.Context, state string) error { r.State = state; return nil }
	return r
}

// finish calls Create until it is finished or fails.
func (s *vcsim) finish(t *testing.T, a cloud.Account, r *cloud.CreateRequest) (cloud.VM, error) {
	t.Helper()
	for range 20 {
		vm, err := a.Create(t.Context(), *r)
		if err != nil || vm.RetryAfter == 0 {
			return vm, err
		}
		s.advance(t, vm.RetryAfter)
	}
	t.Fatal("not finished after 20 calls")
	return cloud.VM{}, nil
}

// gone calls Delete until it is done.
func (s *vcsim) gone(t *testing.T, a cloud.Account, r cloud.Ref) {
	t.Helper()
	for range 20 {
		d, err := a.Delete(t.Context(), r)
		must(t, err)
		if d.Done {
			return
		}
		s.advance(t, d.RetryAfter)
	}
	t.Fatal("not done after 20 calls")
}

func TestForeignName(t *testing.T) {
	t.Parallel()
	s := start(t)
	a, c := s.open(t, class("small", nil))
	task, err := s.Folder.CreateVM(t.Context(), types.VirtualMachineConfigSpec{
		Name: "taken", GuestId: "otherLinux64Guest", Files: &types.VirtualMachineFileInfo{VmPathName: "[LocalDS_0]"},
	}, s.Pool, nil)
	must(t, err)
	must(t, task.Wait(t.Context()))
	_, err = s.finish(t, a, ask("taken", c))
	e, _ := errors.AsType[*cloud.Error](err)
	if e == nil || e.Code != cloud.Invalid || len(e.Problems) != 1 || e.Problems[0].Field != "metadata.name" {
		t.Errorf("create under the name of a foreign VM: got %v, want Invalid and the field", err)
	}
	before := len(s.all(t))
	s.gone(t, a, ask("taken", c).Ref)
	if got := len(s.all(t)); got != before {
		t.Errorf("delete takes the foreign VM: %d VMs, want %d", got, before)
	}
}

// TestProviderIDComesWithTheConfiguration follows a creation call by call, as the
// controllers make it: once they know the providerID they send it, and no boot
// data.
func TestProviderIDComesWithTheConfiguration(t *testing.T) {
	t.Parallel()
	s := start(t)
	a, c := s.open(t, class("small", nil))
	r := ask("m", c)
	r.UserData = []byte("#cloud-config\n")
	for i := 0; ; i++ {
		vm, err := a.Create(t.Context(), *r)
		must(t, err)
		if i == 0 && vm.ProviderID != "" {
			t.Errorf("while the VM is being cloned: got providerID %q, want none, so that a clone that fails is repeated",
				vm.ProviderID)
		}
		if vm.ProviderID != "" {
			r.ProviderID, r.UserData = vm.ProviderID, nil
		}
		if vm.RetryAfter == 0 {
			break
		}
		s.advance(t, vm.RetryAfter)
	}
	id := strings.TrimPrefix(r.ProviderID, "vsphere://region-1/")
	if !strings.Contains(r.State, `"task":"task-`) {
		t.Errorf("got checkpoint %s, want the task of the clone in it", r.State)
	}
	if got := string(s.userData(t, id)); got != "#cloud-config\n" {
		t.Errorf("the VM boots with %q, want what the first request had", got)
	}
	s.gone(t, a, r.Ref)
}

// TestCloneThatFails: a failed clone is told once with its fault, and made again.
func TestCloneThatFails(t *testing.T) {
	t.Parallel()
	s := start(t)
	a, c := s.open(t, class("small", nil))
	r := ask("m", c)
	s.FailTask("VirtualMachine.cloneVm", &types.NoDiskSpace{Datastore: "LocalDS_0"})
	_, err := s.finish(t, a, r)
	e, _ := errors.AsType[*cloud.Error](err)
	if e == nil || e.Code != cloud.Exhausted || e.Reason != "NoDiskSpace" || e.Offering == nil ||
		e.Offering.InstanceType == "" {
		t.Errorf("a clone that finds no space: got %+v, want Exhausted with the offering", err)
	}
	if vm, err := s.finish(t, a, r); err != nil || vm.State != cloud.StateRunning {
		t.Errorf("again: got %v, %v, want a running VM", vm.State, err)
	}
	s.gone(t, a, r.Ref)
}

// TestNeverConfigured: a VM whose boot data is lost is not started without it.
func TestNeverConfigured(t *testing.T) {
	t.Parallel()
	s := start(t)
	a, c := s.open(t, class("small", nil))
	r := ask("m", c)
	fault := s.proxy.Inject(cloudtest.Fault{
		Kind: cloudtest.DropRequest, Match: cloudtest.Op("ReconfigVM_Task"),
		Times: cloudtest.Forever,
	})
	_, _ = s.finish(t, a, r)
	fault.Undo()
	half, err := a.Get(t.Context(), r.Ref)
	must(t, err)
	r.ProviderID = half.ProviderID
	_, err = s.finish(t, a, r)
	if e, _ := errors.AsType[*cloud.Error](err); e == nil || e.Reason != "NeverConfigured" {
		t.Errorf("create without boot data: got %v, want NeverConfigured", err)
	}
	if vm, err := a.Get(t.Context(), r.Ref); err != nil || vm.State != cloud.StatePending {
		t.Errorf("afterwards: got %v, %v, want it to be off", vm.State, err)
	}
	s.gone(t, a, r.Ref)
}

// TestSpecialNames asks for VMs whose names vCenter stores escaped, and finds
// them. The simulator cannot make files of such names, so they are renamed.
func TestSpecialNames(t *testing.T) {
	t.Parallel()
	s := start(t)
	a, c := s.open(t, class("small", nil))
	for name, stored := range map[string]string{
		"a%b": "a%25b", "a/b": "a%2fb", `a\b`: "a%5cb", "a%2fb": "a%252fb",
		"a.b": "a.b", "[a]": "[a]",
	} {
		s.proxy.Forget()
		fault := s.proxy.Inject(cloudtest.Fault{Kind: cloudtest.DropRequest, Match: cloudtest.Op("CloneVM_Task")})
		_, _ = s.finish(t, a, ask(name, c))
		fault.Undo()
		calls := s.proxy.Calls()
		if last := calls[len(calls)-1]; !bytes.Contains(last.Body, []byte("<name>"+stored+"</name>")) {
			t.Errorf("%q: the clone is not asked for as %q: %s", name, stored, last.Body)
		}
		id := s.seed(t, cloudtest.Seed{Kind: cloud.KindVM, Class: c, Name: "c12"})
		task, err := s.handle(t, id).Rename(t.Context(), stored)
		must(t, err)
		must(t, task.Wait(t.Context()))
		if got, err := a.Get(t.Context(), ask(name, c).Ref); err != nil || got.ID != id || got.Name != name ||
			got.NodeName != name {
			t.Errorf("%q by name: got %q of %q, %v, want %q", name, got.ID, got.Name, err, id)
		}
		s.gone(t, a, ask(name, c).Ref)
	}
}

// TestWrongReferences tries what a class can name wrongly: one problem with the
// field, and nothing is made.
func TestWrongReferences(t *testing.T) {
	t.Parallel()
	s := start(t)
	before := len(s.all(t))
	for field, edits := range map[string]spec{
		"datacenter": {"datacenter": "none"}, "folder": {"folder": "none"}, "templateVM": {"templateVM": "none"},
		"network": {"network": "none"}, "datastore": {"datastore": "none"}, "resourcePool": {"resourcePool": "none"},
		"hostSystem": {"hostSystem": "none"}, "computeCluster": {"computeCluster": "none", "resourcePool": nil},
		"datastoreCluster": {"datastoreCluster": "none"}, "customization": {"customization": "none"},
		"switchUuid": {"switchUuid": "none", "network": "DC0_DVPG0"}, "systemDisk.size": {"systemDisk": spec{"size": 1}},
		"vapp.properties[a]": {"vapp": spec{"properties": spec{"a": "b"}}},
	} {
		a, c := s.open(t, class("wrong", edits))
		r := ask("m", c)
		_, err := s.finish(t, a, r)
		e, _ := errors.AsType[*cloud.Error](err)
		if e == nil || e.Code != cloud.Invalid || len(e.Problems) != 1 || e.Problems[0].Field != "providerSpec."+field {
			t.Errorf("wrong %s: got %v, want Invalid and the field", field, err)
		}
		if _, err := a.Get(t.Context(), r.Ref); cloud.CodeOf(err) != cloud.NotFound {
			t.Errorf("wrong %s: get: got %v, want NotFound", field, err)
		}
		s.gone(t, a, r.Ref)
	}
	if got := len(s.all(t)); got != before {
		t.Errorf("%d VMs are left, want %d", got, before)
	}
}

// TestPlaces makes a VM at each kind of place.
func TestPlaces(t *testing.T) {
	t.Parallel()
	s := start(t)
	for name, edits := range map[string]spec{
		"compute cluster": {"computeCluster": "DC0_C0", "resourcePool": nil},
		"host":            {"hostSystem": "DC0_H0/DC0_H0", "resourcePool": nil},
		"relative":        {"resourcePool": "*/Resources", "hostSystem": "/DC0/host/DC0_C0/DC0_C0_H0"},
		"no datacenter":   {"datacenter": nil, "folder": "/DC0/vm/mcm"},
		"switch":          {"network": "DC0_DVPG0", "switchUuid": s.switchUUID(t)},
	} {
		a, c := s.open(t, class("place", edits))
		r := ask("place-"+strings.ReplaceAll(name, " ", "-"), c)
		if vm, err := s.finish(t, a, r); err != nil || vm.State != cloud.StateRunning {
			t.Errorf("%s: got %v, %v, want a running VM", name, vm.State, err)
		}
		s.gone(t, a, r.Ref)
	}
}

func (s *vcsim) switchUUID(t *testing.T) string {
	t.Helper()
	n, err := s.Finder.Network(t.Context(), "DC0_DVPG0")
	must(t, err)
	backing, err := n.EthernetCardBackingInfo(t.Context())
	must(t, err)
	return strings.ToUpper(backing.(*types.VirtualEthernetCardDistributedVirtualPortBackingInfo).Port.SwitchUuid)
}

// TestAttributesAreMade begins without the custom attributes of the tags.
func TestAttributesAreMade(t *testing.T) {
	t.Parallel()
	s := start(t)
	edits := spec{"tags": spec{"mcm.gardener.cloud/cluster": "c9", "mcm.gardener.cloud/role": "node", "team": "a"}}
	a, c := s.open(t, class("new", edits))
	lost := s.proxy.Inject(cloudtest.Fault{Kind: cloudtest.DropResponse, Match: cloudtest.Op("AddCustomFieldDef")})
	r := ask("m", c)
	if _, err := s.finish(t, a, r); cloud.CodeOf(err) != cloud.Unavailable || lost.Fired() != 1 {
		t.Errorf("with a lost answer: got %v, want Unavailable", err)
	}
	if _, err := s.finish(t, a, r); err != nil {
		t.Errorf("again: %v", err)
	}
	other, c2 := s.open(t, class("other spelling", tags("c9", "node")))
	found := 0
	for res, err := range other.List(t.Context(), c2) {
		must(t, err)
		found++
		if res.Tags["team"] != "a" {
			t.Errorf("listed with tags %v, want team=a among them", res.Tags)
		}
	}
	if found != 1 {
		t.Errorf("a class with the other spelling of the tags lists %d VMs, want 1", found)
	}
	s.gone(t, a, r.Ref)
}

// TestTrust opens accounts over TLS without the proxy.
func TestTrust(t *testing.T) {
	t.Parallel()
	s := start(t)
	cert := s.Certificate()
	sum := sha256.Sum256(cert.Raw)
	print256 := strings.ToUpper(hex.EncodeToString(sum[:]))
	ca := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw}))
	other := strings.Repeat("ab", len(sum))
	for _, c := range []struct {
		name, insecure, ca, thumbprint string
		works                          bool
	}{
		{name: "insecure", insecure: "true", works: true},
		{name: "nothing"},
		{name: "authority", ca: ca, works: true},
		{name: "thumbprint", thumbprint: print256, works: true},
		{name: "wrong thumbprint", thumbprint: other},
		{name: "wrong thumbprint, insecure", insecure: "true", thumbprint: other},
	} {
		d := vsphere.NewDriver(time.Now, nil)
		class, _ := d.Parse(class("small", nil))
		creds := s.credentials()
		creds["vsphereInsecureSSL"], creds["vsphereCABundle"], creds["vsphereThumbprint"] = []byte(
			c.insecure), []byte(c.ca), []byte(c.thumbprint)
		a, err := d.Open(t.Context(), class, creds)
		if (err == nil) != c.works {
			t.Errorf("%s: got %v, want it to work: %v", c.name, err, c.works)
		}
		if err != nil {
			if e, _ := errors.AsType[*cloud.Error](err); e == nil || e.Code != cloud.Unavailable ||
				e.Reason != "CertificateUntrusted" {
				t.Errorf("%s: got %+v, want CertificateUntrusted", c.name, e)
			}
			continue
		}
		for _, err := range a.List(t.Context(), class) {
			must(t, err)
		}
		must(t, a.(io.Closer).Close())
	}
}

// TestNoLockOut tries wrong credentials again and again.
func TestNoLockOut(t *testing.T) {
	t.Parallel()
	s := start(t)
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	d := vsphere.NewDriver(func() time.Time { return now }, transport{s})
	c, _ := d.Parse(class("small", nil))
	wrong := s.credentials()
	wrong["vspherePassword"] = []byte("wrong-password")
	logins := func() (n int) {
		for _, call := range s.proxy.Calls() {
			if call.Op == "Login" {
				n++
			}
		}
		return n
	}
	for range 10 {
		if _, err := d.Open(t.Context(), c, wrong); cloud.CodeOf(err) != cloud.Denied {
			t.Errorf("open with a wrong password: got %v, want Denied", err)
		}
	}
	if n := logins(); n != 1 {
		t.Errorf("10 attempts make %d logins, want 1: vCenter locks the user after five", n)
	}
	if a, err := d.Open(t.Context(), c, s.credentials()); err != nil {
		t.Errorf("open with other credentials: %v", err)
	} else {
		_ = a.(io.Closer).Close()
	}
	now = now.Add(11 * time.Minute)
	_, _ = d.Open(t.Context(), c, wrong)
	if n := logins(); n != 3 {
		t.Errorf("%d logins after a while, want 3", n)
	}
}

// TestCredentialsStayOut looks at what is read of VMs.
func TestCredentialsStayOut(t *testing.T) {
	t.Parallel()
	s := start(t)
	a, c := s.open(t, class("small", nil))
	r := ask("m", c)
	r.UserData = []byte("#cloud-config\n# canary-in-user-data\n")
	_, err := s.finish(t, a, r)
	must(t, err)
	for _, call := range s.proxy.Calls() {
		if call.Op == "RetrievePropertiesEx" && bytes.Contains(call.Reply, []byte("guestinfo.userdata")) {
			t.Error("a look at the VM fetches what it boots with")
		}
	}
	s.gone(t, a, r.Ref)
}
