package azure_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/azure"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/azuretest"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/cloudtest"
)

// room is a cloud whose first zone has none, and a request for a VM there.
type room struct {
	*azuretest.Cloud

	now     *clock
	proxy   *cloudtest.Proxy
	driver  cloud.Driver
	account cloud.Account
	request cloud.CreateRequest
}

func newRoom(t *testing.T, change func(s *azuretest.Settings)) *room {
	t.Helper()
	s := settings(t)
	s.Capacity = map[string]int{"1/" + smallSize: 0}
	if change != nil {
		change(&s)
	}
	now := newClock()
	r := &room{Cloud: azuretest.New(s, now.Now), now: now}
	r.proxy = cloudtest.NewProxy(cloudtest.HandlerTransport(http.Handler(r.Cloud)), classify)
	d := azure.NewDriver(azure.Options{Transport: r.proxy, Endpoint: "http://azure.invalid", Now: now.Now})
	r.driver = d
	c, _ := d.Parse(with(spec{"zone": nil, "zones": []int{1, 2}}))
	var err error
	if r.account, err = d.Open(t.Context(), c, credentials()); err != nil {
		t.Fatal(err)
	}
	r.request = cloud.CreateRequest{
		Ref: cloud.Ref{Name: "m-1", OwnerID: "11111111-1111-4111-8111-111111111111", Class: c}, Token: "1", Zone: "1",
		Checkpoint: func(context.Context, string) error { return nil },
	}
	return r
}

// asked is how many requests of a method for something there were.
func (r *room) asked(method, what string) (n int) {
	for _, c := range r.proxy.Calls() {
		if c.Op == method+" "+what {
			n++
		}
	}
	return n
}

// refused lets the VM of the request be accepted, and then find no room.
func (r *room) refused(t *testing.T) {
	t.Helper()
	vm, err := r.account.Create(t.Context(), r.request)
	if err != nil || vm.RetryAfter <= 0 || vm.ProviderID != "" {
		t.Fatalf("create: got %+v, %v, want a VM that is not to be recorded yet", vm, err)
	}
	r.now.Advance(time.Minute)
	_, err = r.account.Create(t.Context(), r.request)
	e, ok := errors.AsType[*cloud.Error](err)
	if !ok || e.Code != cloud.Exhausted || e.Offering == nil || *e.Offering != (cloud.Offering{
		Region: "westeurope", Zone: "1", InstanceType: smallSize, CapacityType: "on-demand",
	}) {
		t.Fatalf("create without room: got %v, want the size in the zone exhausted", err)
	}
}

// TestNoRoom: Azure accepts a VM and says later that it has no room. Such a VM blocks its
// name, so it goes, and the machine gets another in a zone that has room.
func TestNoRoom(t *testing.T) {
	t.Parallel()
	r := newRoom(t, nil)
	r.refused(t)
	r.request.Zone = "2"
	if _, err := r.account.Create(t.Context(), r.request); cloud.CodeOf(err) != cloud.Unavailable {
		t.Errorf("create while the name is not free: got %v, want Unavailable", err)
	}
	r.now.Advance(time.Minute)
	if _, err := r.account.Create(t.Context(), r.request); err != nil {
		t.Fatalf("create where there is room: %v", err)
	}
	r.now.Advance(time.Minute)
	vm, err := r.account.Create(t.Context(), r.request)
	if err != nil || vm.State != cloud.StateRunning || vm.ProviderID == "" || vm.Zone != "2" {
		t.Errorf("create where there is room: got %+v, %v, want a VM that runs in zone 2", vm, err)
	}
	if all := r.Ledger(); len(all) != 3 {
		t.Errorf("there are %d resources, want a VM, a disk and an interface: %+v", len(all), all)
	}
}

// TestReservedInterface: the interface of a VM that found no room stays reserved for a
// while. Delete says when to come back, and leaves nothing in the end.
func TestReservedInterface(t *testing.T) {
	t.Parallel()
	const reserved = 3 * time.Minute
	r := newRoom(t, func(s *azuretest.Settings) { s.Reserved = reserved })
	r.refused(t)
	r.now.Advance(time.Minute)
	_, err := r.account.Delete(t.Context(), r.request.Ref)
	if e, ok := errors.AsType[*cloud.Error](err); !ok || e.Code != cloud.Unavailable || e.RetryAfter != reserved {
		t.Errorf("delete a reserved interface: got %v, want Unavailable for %v", err, reserved)
	}
	r.now.Advance(reserved)
	if _, err := r.account.Delete(t.Context(), r.request.Ref); err != nil {
		t.Errorf("delete: %v", err)
	}
	if d, err := r.account.Delete(t.Context(), r.request.Ref); err != nil || !d.Done || len(r.Ledger()) > 0 {
		t.Errorf("delete: got %+v, %v and %+v is there, want done", d, err, r.Ledger())
	}
}

// TestRecordedFailure: a VM that is recorded and has failed stays: it may have run, and only
// its machine decides that it goes.
func TestRecordedFailure(t *testing.T) {
	t.Parallel()
	r := newRoom(t, func(s *azuretest.Settings) { s.Capacity = nil })
	if _, err := r.account.Create(t.Context(), r.request); err != nil {
		t.Fatal(err)
	}
	r.now.Advance(time.Minute)
	vm, err := r.account.Create(t.Context(), r.request)
	if err != nil {
		t.Fatal(err)
	}
	r.request.ProviderID = vm.ProviderID
	r.Edit("m-1", func(x *azuretest.Resource) { x.FailedOf = "AllocationFailed" })
	if _, err := r.account.Create(t.Context(), r.request); cloud.CodeOf(err) != cloud.Exhausted {
		t.Errorf("create a VM that is recorded: got %v, want Exhausted", err)
	}
	if x := r.Look("m-1"); x.Name == "" || !x.Deleted.IsZero() {
		t.Errorf("create deletes a VM that is recorded: %+v", x)
	}
}

// TestListedAddresses: Cluster API waits for addresses of machines, and the manager looks
// at many machines by one listing, whose VMs Azure shows without them.
func TestListedAddresses(t *testing.T) {
	t.Parallel()
	r := newRoom(t, func(s *azuretest.Settings) { s.Capacity = nil })
	if _, err := r.account.Create(t.Context(), r.request); err != nil {
		t.Fatal(err)
	}
	r.now.Advance(time.Minute)
	made, err := r.account.Create(t.Context(), r.request)
	if err != nil || len(made.Addresses) != 1 {
		t.Fatalf("create: got %+v, %v, want an address", made, err)
	}
	for found, err := range r.account.List(t.Context(), r.request.Class, cloud.KindVM) {
		if err != nil || !slices.Equal(found.VM.Addresses, made.Addresses) || found.VM.State != cloud.StateRunning {
			t.Errorf("list: got %+v, %v, want a VM that runs at %v", found.VM, err, made.Addresses)
		}
	}
}

// TestCallsOfAListing: the addresses of VMs and the interfaces of a class come from the same listing, which is read
// once, as far as it is needed. One that is denied leaves addresses unknown, and fails where interfaces are wanted.
func TestCallsOfAListing(t *testing.T) {
	t.Parallel()
	const interfaces = "GET Microsoft.Network"
	for name, c := range map[string]struct {
		reason string
		kinds  []cloud.Kind
		denied bool
		calls  int
		found  int
		fails  bool
	}{
		"all":        {"scans for orphans want all kinds", nil, false, 2, 36, false},
		"VMs":        {"addresses are shown", []cloud.Kind{cloud.KindVM}, false, 2, 12, false},
		"interfaces": {"nothing else is read", []cloud.Kind{cloud.KindInterface}, false, 2, 12, false},
		"disks":      {"nothing else is read", []cloud.Kind{cloud.KindDisk}, false, 0, 12, false},
		"denied":     {"what is not shown is not taken for gone", nil, true, 1, 12, true},
	} {
		r := newRoom(t, func(s *azuretest.Settings) { s.Capacity = nil })
		for i := range 12 { // more than a page
			r.request.Name, r.request.OwnerID = fmt.Sprintf("m-%d", i), fmt.Sprintf("11111111-1111-4111-8111-%012d", i)
			if _, err := r.account.Create(t.Context(), r.request); err != nil {
				t.Fatal(err)
			}
		}
		r.now.Advance(time.Minute)
		if c.denied {
			r.answerTo(interfaces, http.StatusForbidden, "AuthorizationFailed", "no")
		}
		r.proxy.Forget()
		found, failed := 0, error(nil)
		for x, err := range r.account.List(t.Context(), r.request.Class, c.kinds...) {
			if failed = err; err == nil {
				found++
			}
			if x.Kind == cloud.KindVM && len(x.VM.Addresses) == 0 && !c.denied {
				t.Errorf("%s: VM %s has no address", name, x.ID)
			}
		}
		calls := 0
		for _, call := range r.proxy.Calls() {
			if call.Op == interfaces {
				calls++
			}
		}
		if calls != c.calls || found != c.found || (failed != nil) != c.fails {
			t.Errorf("%s, as %s: %d pages of interfaces, %d resources, %v; want %d, %d, an error: %v", name, c.reason, calls,
				found, failed, c.calls, c.found, c.fails)
		}
	}
}
