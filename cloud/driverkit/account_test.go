package driverkit_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// cloudlet is a cloud without idempotency keys that shows VMs late.
type cloudlet struct {
	now      time.Time
	vms      []cloud.VM
	hidden   []cloud.VM // made, not shown yet
	requests int
	lose     bool  // the next answer
	refuse   error // the next request
}

func (c *cloudlet) make(r cloud.CreateRequest) func(context.Context) (cloud.VM, error) {
	return func(context.Context) (cloud.VM, error) {
		c.requests++
		if err := c.refuse; err != nil {
			c.refuse = nil
			return cloud.VM{}, err
		}
		vm := cloud.VM{ID: "vm-" + string(rune('0'+c.requests)), ProviderID: "x", Name: r.Name}
		c.hidden = append(c.hidden, vm)
		if c.lose {
			c.lose = false
			return cloud.VM{}, driverkit.BrokenAnswer("op", "lost")
		}
		return vm, nil
	}
}

// process is one that creates VMs with a memory of its own; state is shared.
func (c *cloudlet) process(t *testing.T, state *string) func(r cloud.CreateRequest) (cloud.VM, error) {
	t.Helper()
	attempts := driverkit.NewAttempts(time.Minute, func() time.Time { return c.now })
	return func(r cloud.CreateRequest) (cloud.VM, error) {
		r.State = *state
		r.Checkpoint = func(_ context.Context, s string) error { *state = s; return nil }
		return driverkit.Creation{
			Find:     func(context.Context) ([]cloud.VM, error) { return c.vms, nil },
			Make:     c.make(r),
			Attempts: attempts,
		}.Do(t.Context(), "op", r)
	}
}

func request() cloud.CreateRequest {
	return cloud.CreateRequest{Ref: cloud.Ref{Name: "m", OwnerID: "o"}, Token: "t"}
}

func TestALostAnswerIsWaitedFor(t *testing.T) {
	t.Parallel()
	for name, another := range map[string]bool{"SameProcess": false, "AnotherProcess": true} {
		c, state := &cloudlet{now: time.Unix(1000, 0), lose: true}, ""
		create := c.process(t, &state)
		if _, err := create(request()); !driverkit.Uncertain(err) {
			t.Fatalf("%s: got %v, want an uncertain error", name, err)
		}
		if another {
			create = c.process(t, &state)
		}
		_, err := create(request())
		e, _ := errors.AsType[*cloud.Error](err)
		if e == nil || e.Code != cloud.Unavailable || e.RetryAfter <= 0 || c.requests != 1 {
			t.Fatalf("%s: got %v after %d requests, want a wait", name, err, c.requests)
		}
		c.vms = c.hidden
		if vm, err := create(request()); err != nil || vm.ID != "vm-1" || c.requests != 1 {
			t.Errorf("%s: got %v, %v after %d requests, want the VM that appeared", name, vm.ID, err, c.requests)
		}
	}
}

func TestAfterTheSettleTimeItIsAskedAgain(t *testing.T) {
	t.Parallel()
	c, state := &cloudlet{now: time.Unix(1000, 0), lose: true}, ""
	create := c.process(t, &state)
	_, _ = create(request())
	c.now = c.now.Add(59 * time.Second)
	if _, err := create(request()); err == nil || c.requests != 1 {
		t.Errorf("within the settle time: got %v after %d requests", err, c.requests)
	}
	c.now = c.now.Add(time.Second)
	if vm, err := create(request()); err != nil || vm.ID != "vm-2" {
		t.Errorf("after the settle time: got %v, %v, want another request", vm.ID, err)
	}
}

func TestARefusalIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	c, state := &cloudlet{now: time.Unix(1000, 0), refuse: cloud.Errorf(cloud.Exhausted, "op", "Stock", "none")}, ""
	create := c.process(t, &state)
	if _, err := create(request()); cloud.CodeOf(err) != cloud.Exhausted {
		t.Fatal(err)
	}
	if vm, err := create(request()); err != nil || vm.ID != "vm-2" {
		t.Errorf("got %v, %v, want another request at once", vm.ID, err)
	}
}

func TestAnotherAttemptIsFree(t *testing.T) {
	t.Parallel()
	c, state := &cloudlet{now: time.Unix(1000, 0), lose: true}, ""
	create := c.process(t, &state)
	_, _ = create(request())
	next := request()
	next.Token = "u"
	if vm, err := create(next); err != nil || vm.ID != "vm-2" {
		t.Errorf("got %v, %v, want a request: the first attempt was given up", vm.ID, err)
	}
}

func TestAVMThatWasShownAndHasGone(t *testing.T) {
	t.Parallel()
	c, state := &cloudlet{now: time.Unix(1000, 0)}, ""
	create := c.process(t, &state)
	_, _ = create(request())
	c.vms = c.hidden
	_, _ = create(request())
	c.vms = nil
	if vm, err := create(request()); err != nil || vm.ID != "vm-2" {
		t.Errorf("got %v, %v, want another request at once", vm.ID, err)
	}
	recorded := request()
	recorded.ProviderID = "x"
	if _, err := create(recorded); cloud.CodeOf(err) != cloud.NotFound || c.requests != 2 {
		t.Errorf("recorded: got %v after %d requests, want NotFound", err, c.requests)
	}
}

func TestAnAcceptedVMIsPending(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	a := driverkit.NewAttempts(time.Minute, func() time.Time { return now })
	r, state := request(), ""
	r.Checkpoint = func(_ context.Context, s string) error { state = s; return nil }
	a.Accepted(t.Context(), "op", r, "vm-1")
	r.State = state
	vm, err := driverkit.Creation{
		Find:     func(context.Context) ([]cloud.VM, error) { return nil, nil },
		Attempts: a,
	}.Do(t.Context(), "op", r)
	if err != nil || vm.ID != "vm-1" || vm.ProviderID != "" || vm.RetryAfter <= 0 || vm.State != cloud.StatePending {
		t.Errorf("got %+v, %v", vm, err)
	}
}

func TestNoCheckpointNoRequest(t *testing.T) {
	t.Parallel()
	c := &cloudlet{now: time.Unix(1000, 0)}
	a := driverkit.NewAttempts(time.Minute, func() time.Time { return c.now })
	r := request()
	r.Checkpoint = func(context.Context, string) error { return errors.New("conflict") }
	_, err := driverkit.Creation{
		Find: func(context.Context) ([]cloud.VM, error) { return nil, nil }, Make: c.make(r), Attempts: a,
	}.Do(t.Context(), "op", r)
	if cloud.CodeOf(err) != cloud.Unavailable || c.requests != 0 {
		t.Errorf("got %v after %d requests, want none", err, c.requests)
	}
}

func TestCreationWithAKeyFinishes(t *testing.T) {
	t.Parallel()
	c := &cloudlet{}
	wait := time.Second
	creation := driverkit.Creation{
		Find: func(context.Context) ([]cloud.VM, error) { return c.vms, nil }, Make: c.make(request()),
		Finish: func(ctx context.Context, _ cloud.VM) (time.Duration, error) {
			never := func(context.Context) (time.Duration, error) { return 0, errors.New("too early") }
			done := func(context.Context) (time.Duration, error) { return 0, nil }
			if wait == 0 {
				return driverkit.Steps(ctx, done, done)
			}
			return driverkit.Steps(ctx, done, func(context.Context) (time.Duration, error) { return wait, nil }, never)
		},
	}
	if vm, err := creation.Do(t.Context(), "op", request()); err != nil || vm.RetryAfter != time.Second {
		t.Errorf("got %+v, %v", vm, err)
	}
	c.vms, wait = c.hidden, 0
	if vm, err := creation.Do(t.Context(), "op", request()); err != nil || vm.RetryAfter != 0 || c.requests != 1 {
		t.Errorf("got %+v, %v after %d requests", vm, err, c.requests)
	}
}

func TestRemove(t *testing.T) {
	t.Parallel()
	var removed []string
	part := func(kind cloud.Kind, id string, gone bool) driverkit.Part {
		return driverkit.Part{Kind: kind, ID: id, Remove: func(context.Context) (bool, error) {
			removed = append(removed, id)
			return gone, nil
		}}
	}
	vms := []driverkit.Part{part(cloud.KindVM, "b", false), {Kind: cloud.KindVM, ID: "a"}}
	nics := []driverkit.Part{part(cloud.KindInterface, "n", true)}
	steps := func() []driverkit.RemoveStep {
		return []driverkit.RemoveStep{
			{Find: func(context.Context) ([]driverkit.Part, error) { return vms, nil }, RetryAfter: time.Minute},
			{Find: func(context.Context) ([]driverkit.Part, error) { return nics, nil }, RetryAfter: time.Second},
		}
	}
	d, err := driverkit.Remove(t.Context(), steps()...)
	want := cloud.Deletion{RetryAfter: time.Minute, Remaining: []string{"vm a", "vm b"}}
	if diff := cmp.Diff(want, d); diff != "" || err != nil || !slices.Equal(removed, []string{"b"}) {
		t.Errorf("got %v, removed %v (-want +got):\n%s", err, removed, diff)
	}
	vms = nil
	if d, err := driverkit.Remove(t.Context(), steps()...); !d.Done || err != nil {
		t.Errorf("got %+v, %v, want done: the interface goes at once", d, err)
	}
	failing := driverkit.RemoveStep{Find: func(context.Context) ([]driverkit.Part, error) {
		return []driverkit.Part{{Remove: func(context.Context) (bool, error) { return false, errors.New("no") }}}, nil
	}}
	if d, err := driverkit.Remove(t.Context(), failing); d.Done || err == nil {
		t.Errorf("got %+v, %v, want the error", d, err)
	}
}

func TestOne(t *testing.T) {
	t.Parallel()
	running, going := cloud.VM{ID: "r", State: cloud.StateRunning}, cloud.VM{ID: "g", State: cloud.StateDeleting}
	other := cloud.VM{ID: "a", State: cloud.StateStopped}
	for name, c := range map[string]struct {
		found []cloud.VM
		id    string
		code  cloud.Code
	}{
		"None":        {code: cloud.NotFound},
		"One":         {found: []cloud.VM{running}, id: "r"},
		"OneIsGoing":  {found: []cloud.VM{going, running}, id: "r"},
		"AllAreGoing": {found: []cloud.VM{going, going}, id: "g"},
		"Several":     {found: []cloud.VM{running, going, other}, code: cloud.Unknown},
	} {
		vm, err := driverkit.One("op", cloud.Ref{Name: "m"}, c.found)
		if vm.ID != c.id || (err == nil) != (c.id != "") || err != nil && cloud.CodeOf(err) != c.code {
			t.Errorf("%s: got %q, %v", name, vm.ID, err)
		}
		if name == "Several" && !strings.Contains(err.Error(), `"m" has 2 VMs: a, r;`) {
			t.Errorf("%s: got %v, want the ids", name, err)
		}
	}
}

func TestIsOf(t *testing.T) {
	t.Parallel()
	both := cloud.Ref{Name: "m", OwnerID: "o"}
	for _, c := range []struct {
		r           cloud.Ref
		owner, name string
		want        bool
	}{
		{both, "o", "m", true},
		{both, "o", "restored", true},
		{both, "p", "m", false},
		{both, "", "m", true},
		{both, "", "n", false},
		{cloud.Ref{Name: "m"}, "p", "m", true},
		{cloud.Ref{Name: "m"}, "p", "n", false},
		{cloud.Ref{ProviderID: "x"}, "p", "n", true},
	} {
		if got := driverkit.IsOf(c.r, c.owner, c.name); got != c.want {
			t.Errorf("%+v: got %v", c, got)
		}
	}
	keys := []string{"a", "b"}
	if !driverkit.Carries(map[string]string{"a": "", "b": "", "c": ""}, keys) ||
		driverkit.Carries(map[string]string{"a": ""}, keys) || driverkit.Carries(map[string]string{"a": ""}, nil) {
		t.Error("Carries does not ask for all of at least one key")
	}
}

func TestPagesAndList(t *testing.T) {
	t.Parallel()
	asked := 0
	pages := func(fail bool) driverkit.KindList {
		all := driverkit.Pages(t.Context(), func(_ context.Context, token string) ([]int, string, error) {
			asked++
			switch token {
			case "":
				return []int{1, 2}, "two", nil
			case "two":
				if fail {
					return nil, "", cloud.Errorf(cloud.Invalid, "op", "R", "no")
				}
				return nil, "three", nil
			}
			return []int{3}, "", nil
		})
		return driverkit.KindList{Kind: cloud.KindVM, All: driverkit.Select(all, func(i int) (cloud.Resource, bool, error) {
			vm := cloud.VM{ID: string(rune('0' + i)), Name: "m", OwnerID: "o"}
			return driverkit.VMResource(vm, nil), i != 2, nil
		})}
	}
	items, err := driverkit.Collect(driverkit.List(nil, pages(false)))
	if err != nil || len(items) != 2 || items[0].ID != "1" || items[1].VM.ID != "3" || items[0].MachineName != "m" ||
		asked != 3 {
		t.Errorf("got %+v, %v after %d pages", items, err, asked)
	}
	if _, err := driverkit.Collect(driverkit.List(nil, pages(true))); cloud.CodeOf(err) != cloud.Unknown {
		t.Errorf("got %v, want a code that List may return", err)
	}
	asked = 0
	for _, err := range driverkit.List(nil, pages(false)) {
		if err != nil {
			t.Error(err)
		}
		break
	}
	if asked != 1 {
		t.Errorf("%d pages for the first item", asked)
	}
	failed := driverkit.KindList{Kind: cloud.KindDisk, All: driverkit.Failed[cloud.Resource](errors.New("no"))}
	if _, err := driverkit.Collect(driverkit.List([]cloud.Kind{cloud.KindVM}, failed)); err != nil {
		t.Errorf("got %v, want kinds that were not asked for to be left alone", err)
	}
	if _, err := driverkit.Collect(driverkit.List(nil, failed)); err == nil {
		t.Error("want the error")
	}
}
