package wrap_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/wrap"
)

// going is a cloud in which a VM goes until it is told that it is gone.
type going struct {
	account
	answer cloud.Deletion
	err    error
}

func paced(g *going) (cloud.Account, *clock) {
	clk := newClock()
	g.delete = func(context.Context, cloud.Ref) (cloud.Deletion, error) { return g.answer, g.err }
	return wrap.PacedDeletions(wrap.Clock{Now: clk.Now})(info(), g), clk
}

func TestADeletionIsNotAskedAboutTooSoon(t *testing.T) {
	t.Parallel()
	g := &going{answer: cloud.Deletion{RetryAfter: 500 * time.Millisecond, Remaining: []string{"vm 1"}}}
	a, clk := paced(g)
	remove := func(r cloud.Ref, done bool, want int, reason string) cloud.Deletion {
		t.Helper()
		d, err := a.Delete(t.Context(), r)
		if err != nil || d.Done != done || g.made("delete") != want {
			t.Errorf("got %+v, %v after %d calls, want done %v after %d: %s", d, err, g.made("delete"), done, want, reason)
		}
		return d
	}
	one, two := cloud.Ref{Name: "one", OwnerID: "1"}, cloud.Ref{Name: "two", OwnerID: "2"}
	clk.pass(130 * time.Millisecond)
	if d := remove(one, false, 1, "the first asks"); d.RetryAfter != 870*time.Millisecond {
		t.Errorf("asked to come back after %s, want 870ms: the next whole step, a second later", d.RetryAfter)
	}
	clk.pass(300 * time.Millisecond)
	d := remove(one, false, 1, "the cloud said to come back later")
	if d.RetryAfter != 570*time.Millisecond || !slices.Equal(d.Remaining, []string{"vm 1"}) {
		t.Errorf("got %+v, want the time that is left, and what remains", d)
	}
	if d := remove(two, false, 2, "another machine"); d.RetryAfter != 570*time.Millisecond {
		t.Errorf("asked to come back after %s, want 570ms: when the other one asks too", d.RetryAfter)
	}
	known := one
	known.ProviderID = "sim:///r/vm-1"
	remove(known, false, 3, "its id is known now")
	clk.pass(570 * time.Millisecond)
	g.answer = cloud.Deletion{Done: true}
	remove(one, true, 4, "the time has come")
	remove(one, true, 5, "the cloud alone says that it is gone")
}

func TestADeletionThatFailedIsRepeated(t *testing.T) {
	t.Parallel()
	g := &going{err: cloud.Errorf(cloud.Unavailable, "delete", "Broken", "no answer")}
	a, _ := paced(g)
	for range 3 {
		if _, err := a.Delete(t.Context(), cloud.Ref{Name: "one"}); cloud.CodeOf(err) != cloud.Unavailable {
			t.Errorf("got %v, want the error", err)
		}
	}
	g.err, g.answer = nil, cloud.Deletion{}
	for range 2 { // without a hint the caller decides
		if d, err := a.Delete(t.Context(), cloud.Ref{Name: "one"}); err != nil || d.Done || d.RetryAfter != 0 {
			t.Errorf("got %+v, %v, want the cloud's answer", d, err)
		}
	}
	if n := g.made("delete"); n != 5 {
		t.Errorf("%d calls, want 5: nothing was accepted for a time", n)
	}
}

// TestACreationForgetsDeletions: what was said before a VM was made says nothing
// about that VM.
func TestACreationForgetsDeletions(t *testing.T) {
	t.Parallel()
	for name, ref := range map[string]cloud.Ref{
		"SameName": {Name: "one"}, "SameOwner": {Name: "two", OwnerID: "1"},
	} {
		g := &going{answer: cloud.Deletion{RetryAfter: time.Minute}}
		a, _ := paced(g)
		one := cloud.Ref{Name: "one", OwnerID: "1"}
		_, _ = a.Delete(t.Context(), one)
		_, _ = a.Create(t.Context(), cloud.CreateRequest{Ref: ref})
		_, _ = a.Delete(t.Context(), one)
		if n := g.made("delete"); n != 2 {
			t.Errorf("%s: %d deletions reach the cloud, want 2", name, n)
		}
	}
}
