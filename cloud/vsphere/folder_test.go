package vsphere_test

import (
	"context"
	"testing"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/cloudtest"
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
