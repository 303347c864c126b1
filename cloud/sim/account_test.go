package sim_test

import (
	"testing"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
)

// open returns an account at the env's cloud, in process, and a parsed class.
func (s *env) open(edits spec) (cloud.Account, cloud.Class) {
	s.Helper()
	d := s.Driver()
	c, problems := d.Parse(class("c", edits))
	if err := cloud.Worst("parse", problems, cloud.BlocksCreate); err != nil {
		s.Fatal(err)
	}
	a, err := d.Open(s.Context(), c, credentials())
	if err != nil {
		s.Fatal(err)
	}
	return a, c
}

// names returns the name tags of the VMs that are there.
func (s *env) names() map[string]int {
	out := map[string]int{}
	for _, vm := range s.VMs() {
		out[vm.Name()]++
	}
	return out
}

func TestCreateKnownVM(t *testing.T) {
	t.Parallel()
	s := newEnv(t, func(o *sim.Settings) { o.BootTime = sim.Duration(4 * time.Second) })
	a, c := s.open(full())
	r := cloud.CreateRequest{Ref: cloud.Ref{Name: "a", OwnerID: "o", Class: c}, Token: "t"}
	vm, err := a.Create(t.Context(), r)
	if err != nil || vm.RetryAfter != 4*time.Second {
		t.Fatalf("create: %v, come back in %v, want the boot time: forwarding needs a running VM", err, vm.RetryAfter)
	}
	s.clock.Advance(4 * time.Second)
	r.ProviderID, r.Token = vm.ProviderID, "another"
	if again, err := a.Create(t.Context(), r); err != nil || again.ID != vm.ID || again.RetryAfter != 0 {
		t.Errorf("finish: got %s, %v, come back in %v, want %s and nothing left to do", again.ID, err, again.RetryAfter,
			vm.ID)
	}
	if got := s.VMs(); len(got) != 1 || !got[0].VM.Forwarding || len(got[0].VM.NICs) != 2 || len(got[0].VM.Disks) != 3 {
		t.Errorf("VMs: %+v, want one with forwarding, 2 interfaces and 3 disks", got)
	}
	s.Terminate(vm.ID, "Terminated")
	for _, providerID := range []string{vm.ProviderID, vm.NodeProviderID, "sim:///sim-1/vm-none", "aws:///x/i-1"} {
		r.ProviderID = providerID
		if _, err := a.Create(t.Context(), r); cloud.CodeOf(err) != cloud.NotFound {
			t.Errorf("create with the providerID %s of nothing: got %v, want NotFound", providerID, err)
		}
	}
	if left := s.Live(); len(left) > 0 {
		t.Errorf("a VM that is gone was made again: %+v", left)
	}
}

// TestDeleteOneOfSeveral deletes the VM that the providerID names, and no other
// of the machine: the other one may be in use.
func TestDeleteOneOfSeveral(t *testing.T) {
	t.Parallel()
	for name, owner := range map[string]string{"Owned": "o", "OfMCM": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newEnv(t, nil)
			a, c := s.open(nil)
			var made []cloud.VM
			for _, token := range []string{"1", "2"} {
				vm, err := a.Create(t.Context(), cloud.CreateRequest{
					Ref:   cloud.Ref{Name: "a", OwnerID: owner, Class: c},
					Token: token,
				})
				if err != nil {
					t.Fatal(err)
				}
				made = append(made, vm)
			}
			ref := cloud.Ref{Name: "a", OwnerID: owner, ProviderID: made[1].ProviderID, Class: c}
			if d, err := a.Delete(t.Context(), ref); err != nil || !d.Done {
				t.Errorf("delete: %+v, %v, want done", d, err)
			}
			if left := s.VMs(); len(left) != 1 || left[0].ID != made[0].ID {
				t.Errorf("left: %+v, want %s only", left, made[0].ID)
			}
			ref.ProviderID = ""
			if vm, err := a.Get(t.Context(), ref); err != nil || vm.ID != made[0].ID {
				t.Errorf("get by name: %s, %v, want the one that is left", vm.ID, err)
			}
		})
	}
}

// TestDeleteSaysWhatRemains follows a deletion that takes time.
func TestDeleteSaysWhatRemains(t *testing.T) {
	t.Parallel()
	s := newEnv(t, func(o *sim.Settings) { o.DeleteTime = sim.Duration(6 * time.Second) })
	a, c := s.open(nil)
	ref := cloud.Ref{Name: "a", OwnerID: "o", Class: c}
	vm, err := a.Create(t.Context(), cloud.CreateRequest{Ref: ref, Token: "t"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		d, err := a.Delete(t.Context(), ref)
		if err != nil || d.Done || d.RetryAfter != 6*time.Second || len(d.Remaining) != 3 || d.Remaining[2] != "vm "+vm.ID {
			t.Errorf("call %d: %+v, %v, want 6s and a disk, an interface and the VM", i, d, err)
		}
	}
	if n := s.Calls(sim.OpDeleteVM); n != 1 {
		t.Errorf("DeleteVM was called %d times for one VM", n)
	}
	s.clock.Advance(6 * time.Second)
	if d, err := a.Delete(t.Context(), ref); err != nil || !d.Done || d.RetryAfter != 0 {
		t.Errorf("when it is gone: %+v, %v, want done", d, err)
	}
}

// TestCreateIsOneCall keeps what a VM costs: the cloud budget is one call.
func TestCreateIsOneCall(t *testing.T) {
	t.Parallel()
	s := newEnv(t, nil)
	a, c := s.open(nil)
	for _, name := range []string{"a", "b", "c"} {
		if _, err := a.Create(t.Context(), cloud.CreateRequest{
			Ref:   cloud.Ref{Name: name, Class: c},
			Token: name,
		}); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.Calls("*"); got != 3 || len(s.names()) != 3 {
		t.Errorf("3 VMs cost %d calls: %v", got, s.Counts())
	}
}

// TestOwner tells apart classes whose listings differ.
func TestOwner(t *testing.T) {
	t.Parallel()
	d := sim.NewDriver(nil)
	owner := func(edits spec) string {
		c, _ := d.Parse(class("c", edits))
		return c.Owner
	}
	same := owner(nil)
	for name, edits := range map[string]spec{
		"type": {"instanceType": "large"}, "zone": {"zone": "sim-1b"},
		"slash": {"endpoint": endpoint + "/"},
	} {
		if owner(edits) != same {
			t.Errorf("another %s changes whose resources a class lists", name)
		}
	}
	for name, edits := range map[string]spec{
		"region": {"region": "sim-2"}, "cluster": owned("c2", "node"),
		"endpoint": {"endpoint": "http://other"},
	} {
		if owner(edits) == same {
			t.Errorf("another %s does not change whose resources a class lists", name)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, edits := range []spec{nil, full(), owned("c", "r"), {"disks": "x"}, {"tags": []any{1}}} {
		f.Add([]byte(newSpec(edits)))
	}
	f.Add([]byte("null"))
	f.Add([]byte(`{"disks":[null,{}],"networks":[[]],"tags":{"kubernetes.io/role/":null}}`))
	d := sim.NewDriver(nil)
	f.Fuzz(func(t *testing.T, raw []byte) {
		c, problems := d.Parse(cloud.ClassInput{Spec: raw})
		if c.Spec == nil {
			t.Error("no class")
		}
		for _, p := range problems {
			if p.Field == "" || p.Message == "" {
				t.Errorf("problem %+v", p)
			}
		}
	})
}

// TestDeleteAttachedLater takes a disk that carries the machine's tags although
// the VM leaves it behind, and leaves one without them alone.
func TestDeleteAttachedLater(t *testing.T) {
	t.Parallel()
	s := newEnv(t, nil)
	a, c := s.open(nil)
	ref := cloud.Ref{Name: "a", OwnerID: "o", Class: c}
	vm, err := a.Create(t.Context(), cloud.CreateRequest{Ref: ref, Token: "t"})
	if err != nil {
		t.Fatal(err)
	}
	var kept string
	for _, tags := range []map[string]string{s.VMs()[0].Tags, {"pvc": "x"}} {
		disk, err := s.CreateDisk(s.who, "sim-1", sim.DiskInput{SizeGiB: 1, Tags: tags})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.AttachDisk(s.who, "sim-1", disk.ID, vm.ID); err != nil {
			t.Fatal(err)
		}
		kept = disk.ID
	}
	if d, err := a.Delete(t.Context(), ref); err != nil || !d.Done {
		t.Errorf("delete: %+v, %v, want done", d, err)
	}
	if left := s.Live(); len(left) != 1 || left[0].ID != kept || left[0].Disk.VM != "" {
		t.Errorf("left: %+v, want the foreign disk %s, detached", left, kept)
	}
}
