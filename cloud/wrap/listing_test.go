package wrap_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/wrap"
)

// three yields three VMs.
func three(yield func(cloud.Resource, error) bool) {
	for i := range 3 {
		r := cloud.Resource{
			Kind: cloud.KindVM, ID: fmt.Sprint(i), VM: &cloud.VM{ID: fmt.Sprint(i)},
			Tags: map[string]string{"a": "b"},
		}
		if !yield(r, nil) {
			return
		}
	}
}

func TestListingIsShared(t *testing.T) {
	t.Parallel()
	clk, bare := newClock(), &account{list: three}
	a := wrap.SharedListing(wrap.ListingAge(10*time.Second), wrap.Clock{Now: clk.Now})(info(), bare)
	one := cloud.Class{Name: "a", Owner: "o", Region: "r"}
	list := func(ctx context.Context, c cloud.Class, want int, reason string) {
		t.Helper()
		all, err := listAll(ctx, a, c)
		if err != nil || len(all) != 3 || bare.made("list") != want {
			t.Errorf("got %d resources, %v, after %d listings, want 3 after %d; reason: %s", len(all), err, bare.made("list"),
				want, reason)
		}
	}
	list(t.Context(), one, 1, "the first reads")
	list(t.Context(), one, 1, "the second shares")
	list(t.Context(), cloud.Class{Name: "b", Owner: "o", Region: "r"}, 1, "another class with the same tags shares")
	list(t.Context(), cloud.Class{Name: "a", Owner: "p", Region: "r"}, 2, "other tags are another listing")
	list(t.Context(), cloud.Class{Name: "a", Owner: "o", Region: "s"}, 3, "so is another region")
	clk.pass(11 * time.Second)
	list(t.Context(), one, 4, "an old listing is read again")
	list(cloud.NotBefore(t.Context(), clk.Now()), one, 5, "what was read at that very moment may be older")
	clk.pass(time.Second)
	list(cloud.NotBefore(t.Context(), clk.Now().Add(-time.Second/2)), one, 6, "nothing from before that time")
	clk.pass(time.Second)
	list(cloud.NotBefore(t.Context(), clk.Now().Add(-1500*time.Millisecond)), one, 6,
		"what was read after that time will do")
}

func TestListingIsCopied(t *testing.T) {
	t.Parallel()
	a := wrap.SharedListing(0, wrap.Clock{Now: newClock().Now})(info(), &account{list: three})
	for range 2 {
		all, _ := listAll(t.Context(), a, cloud.Class{})
		if all[0].VM.ID != "0" || all[0].Tags["a"] != "b" {
			t.Fatalf("got %+v, %+v: somebody else's change", all[0].VM, all[0].Tags)
		}
		all[0].VM.ID, all[0].Tags["a"] = "changed", "changed"
	}
}

func TestFailedListingIsNotKept(t *testing.T) {
	t.Parallel()
	fails := true
	bare := &account{list: func(yield func(cloud.Resource, error) bool) {
		if fails {
			_ = yield(cloud.Resource{ID: "half"}, nil) && yield(cloud.Resource{}, cloud.Errorf(cloud.Unavailable, "list",
				"Broken", "page 2"))
			return
		}
		three(yield)
	}}
	a := wrap.SharedListing(0, wrap.Clock{Now: newClock().Now})(info(), bare)
	if all, err := listAll(t.Context(), a, cloud.Class{}); cloud.CodeOf(err) != cloud.Unavailable || len(all) != 0 {
		t.Errorf("got %v, %v, want nothing and the error", all, err)
	}
	fails = false
	if all, err := listAll(t.Context(), a, cloud.Class{}); err != nil || len(all) != 3 {
		t.Errorf("after a failure: got %v, %v, want a new listing", all, err)
	}
}

func TestListingLeftEarlyIsKept(t *testing.T) {
	t.Parallel()
	bare := &account{list: three}
	a := wrap.SharedListing(0, wrap.Clock{Now: newClock().Now})(info(), bare)
	for range a.List(t.Context(), cloud.Class{}) {
		break
	}
	if all, err := listAll(t.Context(), a, cloud.Class{}); err != nil || len(all) != 3 || bare.made("list") != 1 {
		t.Errorf("got %v, %v after %d listings, want all 3 after 1", all, err, bare.made("list"))
	}
}

func TestListingSingleFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		bare := &account{list: func(yield func(cloud.Resource, error) bool) {
			time.Sleep(time.Second) // of the bubble's time
			three(yield)
		}}
		a := wrap.SharedListing(-1, wrap.Clock{})(info(), bare)
		for range 10 {
			go func() {
				if all, err := listAll(t.Context(), a, cloud.Class{}); err != nil || len(all) != 3 {
					t.Errorf("got %v, %v, want all", all, err)
				}
			}()
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		synctest.Wait()
		if _, err := listAll(ctx, a, cloud.Class{}); !errors.Is(err, context.DeadlineExceeded) ||
			cloud.CodeOf(err) != cloud.Unavailable {
			t.Errorf("a caller that gives up: got %v, want its context's error", err)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if n := bare.made("list"); n != 1 {
			t.Errorf("%d listings for ten callers at once, want 1", n)
		}
		if _, _ = listAll(t.Context(), a, cloud.Class{}); bare.made("list") != 2 {
			t.Errorf("%d listings, want another one: with an age below 0 nothing is kept", bare.made("list"))
		}
	})
}

// TestListingReaderGivesUp: the caller who began a listing may leave; the
// listing goes on for those who wait for it.
func TestListingReaderGivesUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		first, giveUp := context.WithCancel(t.Context())
		bare := &account{list: func(yield func(cloud.Resource, error) bool) {
			time.Sleep(time.Second)
			three(yield)
		}}
		a := wrap.SharedListing(0, wrap.Clock{})(info(), bare)
		var left error
		go func() { _, left = listAll(first, a, cloud.Class{}) }()
		synctest.Wait()
		go func() {
			if all, err := listAll(t.Context(), a, cloud.Class{}); err != nil || len(all) != 3 {
				t.Errorf("whoever waits when the first caller gives up: got %v, %v, want all", all, err)
			}
		}()
		synctest.Wait()
		giveUp()
		synctest.Wait()
		if !errors.Is(left, context.Canceled) {
			t.Errorf("the caller that gives up: got %v, want its context's error at once", left)
		}
		time.Sleep(time.Minute)
		if n := bare.made("list"); n != 1 {
			t.Errorf("%d listings, want 1", n)
		}
	})
}

func TestListingPanicReleasesOthers(t *testing.T) {
	t.Parallel()
	panics := true
	bare := &account{list: func(yield func(cloud.Resource, error) bool) {
		if panics {
			panic("driver")
		}
		three(yield)
	}}
	a := wrap.SharedListing(0, wrap.Clock{})(info(), bare)
	func() {
		defer func() { _ = recover() }()
		_, _ = listAll(t.Context(), a, cloud.Class{})
	}()
	panics = false
	if all, err := listAll(t.Context(), a, cloud.Class{}); err != nil || len(all) != 3 {
		t.Errorf("after a panic: got %v, %v, want a new listing", all, err)
	}
}
