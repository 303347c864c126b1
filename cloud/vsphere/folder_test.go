package vsphere_test

import (
	"context"
	"testing"

	"github.com/vmware/govmomi/vim25/types"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/cloudtest"
)

// TestFullFolder looks for one machine among 10 000 VMs of others.
func TestFullFolder(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.Fill(10000)
	a, c := s.open(t, class("small", nil))
	calls := func(what string, most int, do func()) {
		t.Helper()
		s.proxy.Forget()
		do()
		if n := len(s.proxy.Calls()); n > most {
			ops := map[string]int{}
			for _, call := range s.proxy.Calls() {
				ops[call.Op]++
			}
			t.Errorf("%s takes %d calls, want at most %d: %v", what, n, most, ops)
		}
	}
	r := ask("m", c)
	missing := func() {
		if _, err := a.Get(t.Context(), r.Ref); cloud.CodeOf(err) != cloud.NotFound {
			t.Errorf("got %v, want NotFound", err)
		}
	}
	calls("the first look for what is not there", 5, missing)
	calls("a look for what is not there", 4, missing)
	calls("the request for a clone", 14, func() { _, err := a.Create(t.Context(), *r); must(t, err) })
	vm, err := s.finish(t, a, r)
	must(t, err)
	calls("a look by name", 3, func() {
		if got, err := a.Get(t.Context(), r.Ref); err != nil || got.ID != vm.ID {
			t.Errorf("got %q, %v, want %q", got.ID, err, vm.ID)
		}
	})
	again := *r
	again.State = ""
	calls("a create that finds the VM", 3, func() { _, err := a.Create(t.Context(), again); must(t, err) })
	other := r.Ref
	other.Name = "restored"
	calls("a look by owner id", 5, func() {
		if got, err := a.Get(t.Context(), other); err != nil || got.ID != vm.ID {
			t.Errorf("by owner id: got %q, %v, want %q", got.ID, err, vm.ID)
		}
	})
	calls("the begin of the deletion", 5, func() { _, err := a.Delete(t.Context(), r.Ref); must(t, err) })
	s.gone(t, a, r.Ref)
}

// TestFolderNotShown: a look-up of the folder or of the template that vCenter answers with
// a fault does not mean that there is no VM.
func TestFolderNotShown(t *testing.T) {
	t.Parallel()
	s := start(t)
	known, c := s.open(t, class("small", nil))
	r := ask("m", c)
	_, err := s.finish(t, known, r)
	must(t, err)
	adopted := r.Ref // whose checkpoint another manager has
	adopted.State, adopted.ProviderID = "", ""
	lost := adopted // a clone whose answer was lost
	lost.Name, lost.OwnerID, lost.State = "other", "owner-other", `{"clone":true}`
	for _, fault := range []types.BaseMethodFault{
		&types.InvalidArgument{}, &types.NotSupported{}, &types.InvalidRequest{}, &types.NotFound{}, &types.InvalidType{},
	} {
		s.Refuse("FindByInventoryPath", fault)
		a, _ := s.open(t, class("small", nil))
		if _, err := a.Get(t.Context(), adopted); err == nil || cloud.CodeOf(err) == cloud.NotFound {
			t.Errorf("%T: get: got %v, want an error that leaves open whether there is a VM", fault, err)
		}
		for name, ref := range map[string]cloud.Ref{"adopted": adopted, "lost": lost} {
			if d, err := a.Delete(t.Context(), ref); err == nil {
				t.Errorf("%T: delete %s: got %+v, want an error", fault, name, d)
			}
		}
		var last error
		for _, last = range a.List(t.Context(), c) {
		}
		if last == nil {
			t.Errorf("%T: the listing ends without an error", fault)
		}
	}
	s.Refuse("FindByInventoryPath", nil)
	s.gone(t, known, adopted)
}

// TestAbandonedListing: a listing that is left early is cancelled at vCenter.
func TestAbandonedListing(t *testing.T) {
	t.Parallel()
	s := start(t)
	a, c := s.open(t, class("small", nil))
	s.seed(t, cloudtest.Seed{Kind: cloud.KindVM, Class: c, Name: "m", OwnerID: "o"})
	s.Fill(300)
	for range a.List(t.Context(), c) {
		break
	}
	if n := s.OpenListings(); n != 0 {
		t.Errorf("after a listing that nobody wanted the rest of: %d are open, want none", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	s.proxy.Inject(cloudtest.Fault{
		Kind: cloudtest.Delay, Match: cloudtest.Op("ContinueRetrievePropertiesEx"), Met: func(cloudtest.Call) { cancel() },
	})
	var last error
	for _, last = range a.List(ctx, c) {
	}
	if cloud.CodeOf(last) != cloud.Unavailable {
		t.Errorf("a listing that was given up: got %v, want Unavailable", last)
	}
	if n := s.OpenListings(); n != 0 {
		t.Errorf("after a listing that was given up: %d are open, want none", n)
	}
	for _, err := range a.List(t.Context(), c) {
		must(t, err)
	}
	if n := s.OpenListings(); n != 0 {
		t.Errorf("after a whole listing: %d are open, want none", n)
	}
}
