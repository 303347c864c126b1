package vm

import (
	"context"
	"errors"
	"iter"
	"testing"
	"time"

	testingclock "k8s.io/utils/clock/testing"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

var (
	start  = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	traits = cloud.Traits{Name: "test", Settle: 10 * time.Second}
)

// noFormerLeader is the engine of a process of which there never was another.
func noFormerLeader() time.Duration { return 0 }

// account answers each call with what the test put there.
type account struct {
	create func(cloud.CreateRequest) (cloud.VM, error)
	get    func(cloud.Ref) (cloud.VM, error)
	del    func(cloud.Ref) (cloud.Deletion, error)
	tokens []string
}

func (a *account) Create(_ context.Context, r cloud.CreateRequest) (cloud.VM, error) {
	a.tokens = append(a.tokens, r.Token)
	return a.create(r)
}
func (a *account) Get(_ context.Context, r cloud.Ref) (cloud.VM, error)          { return a.get(r) }
func (a *account) Delete(_ context.Context, r cloud.Ref) (cloud.Deletion, error) { return a.del(r) }
func (a *account) List(context.Context, cloud.Class, ...cloud.Kind) iter.Seq2[cloud.Resource, error] {
	return func(func(cloud.Resource, error) bool) {}
}

func (a *account) Capacity(context.Context, cloud.Class) (cloud.Capacity, error) {
	return cloud.Capacity{}, nil
}

func tokenUsed(cloud.CreateRequest) (cloud.VM, error) {
	return cloud.VM{}, cloud.Errorf(cloud.TokenUsed, "run", "IdempotentParameterMismatch", "token was used")
}

func notFound(cloud.Ref) (cloud.VM, error) {
	return cloud.VM{}, cloud.Errorf(cloud.NotFound, "get", "NotFound", "no VM")
}

func wanted(next func(context.Context, int) error) want {
	return want{Attempt: 1, Next: next, Request: cloud.CreateRequest{Ref: cloud.Ref{Name: "m", OwnerID: "owner"}}}
}

func TestToken(t *testing.T) {
	t.Parallel()
	if first, again := Token("a", 1), Token("a", 1); first != again {
		t.Error("a repeated call must send the same token, else the cloud makes a second VM")
	}
	seen := map[string]bool{}
	for _, token := range []string{Token("a", 1), Token("a", 2), Token("b", 1), Token("a/1", 1)} {
		if seen[token] || len(token) > 64 {
			t.Errorf("token %q is taken or too long", token)
		}
		seen[token] = true
	}
}

func TestEnsureBeginsANewAttemptOnlyAfterTheSettleTime(t *testing.T) {
	t.Parallel()
	clock := testingclock.NewFakePassiveClock(start)
	e := New(clock, noFormerLeader, nil)
	a := &account{create: tokenUsed, get: notFound}
	attempts := []int{}
	w := wanted(func(_ context.Context, n int) error { attempts = append(attempts, n); return nil })

	_, err := e.ensure(t.Context(), a, traits, w)
	if cloud.CodeOf(err) != cloud.TokenUsed || len(attempts) != 0 {
		t.Fatalf("attempts %v, error %v: the VM of the first attempt may still appear", attempts, err)
	}
	clock.SetTime(start.Add(9 * time.Second))
	if _, err = e.ensure(t.Context(), a, traits, w); len(attempts) != 0 {
		t.Fatalf("attempts %v after 9 s, settle time is 10 s: %v", attempts, err)
	}
	clock.SetTime(start.Add(11 * time.Second))
	if _, err = e.ensure(t.Context(), a, traits, w); len(attempts) != 1 || attempts[0] != 2 {
		t.Fatalf("attempts %v, want the second to be recorded: %v", attempts, err)
	}
	w.Attempt = 2
	a.create = func(cloud.CreateRequest) (cloud.VM, error) { return cloud.VM{ID: "i"}, nil }
	made, err := e.ensure(t.Context(), a, traits, w)
	if err != nil || made.ID != "i" {
		t.Fatalf("second attempt: %v, %v", made, err)
	}
	if first, last := a.tokens[0], a.tokens[len(a.tokens)-1]; first == last {
		t.Error("the second attempt must use another token")
	}
}

func TestEnsureAdoptsWhatTheUsedTokenMade(t *testing.T) {
	t.Parallel()
	e := New(testingclock.NewFakePassiveClock(start), noFormerLeader, nil)
	a := &account{create: tokenUsed, get: func(cloud.Ref) (cloud.VM, error) { return cloud.VM{ID: "first"}, nil }}
	w := wanted(func(context.Context, int) error { t.Error("no attempt may follow: there is a VM"); return nil })
	if made, err := e.ensure(t.Context(), a, traits, w); err != nil || made.ID != "first" {
		t.Errorf("Ensure() = %v, %v, want the VM that is there", made, err)
	}
}

func TestEnsureDoesNothingUnderAnAttemptThatCouldNotBeRecorded(t *testing.T) {
	t.Parallel()
	clock := testingclock.NewFakePassiveClock(start)
	e := New(clock, noFormerLeader, nil)
	a := &account{create: tokenUsed, get: notFound}
	boom := errors.New("conflict")
	w := wanted(func(context.Context, int) error { return boom })
	w.Spent = true
	_, _ = e.ensure(t.Context(), a, traits, w)
	clock.SetTime(start.Add(time.Minute))
	if _, err := e.ensure(t.Context(), a, traits, w); !errors.Is(err, boom) {
		t.Errorf("error %v, want that of the write", err)
	}
	if len(a.tokens) != 0 {
		t.Errorf("Create was called with %v: a spent attempt must not be used", a.tokens)
	}
}

func TestAnAbsenceEndsWithACreateThatMayHaveWorked(t *testing.T) {
	t.Parallel()
	clock := testingclock.NewFakePassiveClock(start)
	e := New(clock, noFormerLeader, nil)
	a := &account{create: tokenUsed, get: notFound, del: func(cloud.Ref) (cloud.Deletion, error) {
		return cloud.Deletion{Done: true}, nil
	}}
	w := wanted(func(_ context.Context, n int) error {
		t.Errorf("attempt %d begins while the VM of the first may appear", n)
		return nil
	})
	_, _ = e.ensure(t.Context(), a, traits, w) // nothing there at 0 s

	clock.SetTime(start.Add(9 * time.Second)) // what the token was used with is asked for again
	a.create = func(cloud.CreateRequest) (cloud.VM, error) {
		return cloud.VM{}, cloud.Errorf(cloud.Unavailable, "run", "Timeout", "no answer")
	}
	_, _ = e.ensure(t.Context(), a, traits, w)

	clock.SetTime(start.Add(11 * time.Second))
	if d, err := e.remove(t.Context(), a, traits, w.Request.Ref); err != nil || d.Done {
		t.Errorf("Remove() = %+v, %v: the VM of a lost answer 2 s ago may not be shown yet", d, err)
	}
	a.create = tokenUsed
	_, _ = e.ensure(t.Context(), a, traits, w)
}

// TestCreateAfterARemoval: a machine that changes its class removes what was refused, and
// goes on. When it is deleted later, its node is drained.
func TestCreateAfterARemoval(t *testing.T) {
	t.Parallel()
	e := New(testingclock.NewFakePassiveClock(start), noFormerLeader, nil)
	a := &account{
		del:    func(cloud.Ref) (cloud.Deletion, error) { return cloud.Deletion{}, nil },
		create: func(cloud.CreateRequest) (cloud.VM, error) { return cloud.VM{ProviderID: "p"}, nil },
	}
	w := wanted(func(context.Context, int) error { return nil })
	_, _ = e.remove(t.Context(), a, traits, w.Request.Ref)
	if !e.Deleting(w.Request.OwnerID) {
		t.Error("a removal that the cloud has accepted is not remembered")
	}
	_, _ = e.ensure(t.Context(), a, traits, w)
	if e.Deleting(w.Request.OwnerID) {
		t.Error("a VM that was made since counts as being deleted")
	}
}

// TestSlowAnswersAreAsOldAsTheirQuestions: what a cloud does not show is judged
// by when it was asked, and what it was asked to make may be as young as its answer.
func TestSlowAnswersAreAsOldAsTheirQuestions(t *testing.T) {
	t.Parallel()
	const slow = time.Minute
	cases := map[string]struct {
		reason         string
		create, remove time.Duration // that the calls take
		created        bool          // the VM's id is known
		want           bool          // it is believed to be gone
	}{
		"Quick":      {"Nothing was asked for long enough after the VM was made.", 0, 0, true, false},
		"SlowAnswer": {"The answer is from before the cloud showed the VM, however late it is.", 0, slow, true, false},
		"SlowCreate": {"The VM may have come about when the call that made it ended.", slow, 0, true, false},
		"Unknown":    {"The first look at a VM whose id is not known is never enough.", 0, slow, false, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := testingclock.NewFakePassiveClock(start)
			e := New(clock, noFormerLeader, nil)
			a := &account{
				create: func(cloud.CreateRequest) (cloud.VM, error) {
					clock.SetTime(clock.Now().Add(tc.create))
					return cloud.VM{ID: "i"}, nil
				},
				del: func(cloud.Ref) (cloud.Deletion, error) {
					clock.SetTime(clock.Now().Add(tc.remove))
					return cloud.Deletion{Done: true}, nil
				},
			}
			w := wanted(nil)
			if _, err := e.ensure(t.Context(), a, traits, w); err != nil {
				t.Fatal(err)
			}
			ref := w.Request.Ref
			if tc.created {
				ref.ProviderID = "test:///i"
			}
			d, err := e.remove(t.Context(), a, traits, ref)
			if err != nil || d.Done != tc.want {
				t.Errorf("Remove() = %+v, %v, want done %v: %s", d, err, tc.want, tc.reason)
			}
			clock.SetTime(clock.Now().Add(traits.Settle + time.Second))
			if d, err = e.remove(t.Context(), a, traits, ref); err != nil || !d.Done {
				t.Errorf("Remove() = %+v, %v after the settle time, want done", d, err)
			}
		})
	}
}

// TestEnsureAfterARefusalThatSticks: a cloud that repeats its refusals for one token would never make the
// VM, and a new attempt for a refusal that is only remembered would cost a write and a token each time.
func TestEnsureAfterARefusalThatSticks(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		sticky, remembered bool
		want               int // attempts that follow
	}{
		"Sticky":     {sticky: true, want: 1},
		"Remembered": {sticky: true, remembered: true},
		"NotSticky":  {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := testingclock.NewFakePassiveClock(start)
			e, attempts := New(clock, noFormerLeader, nil), 0
			a := &account{get: notFound, create: func(cloud.CreateRequest) (cloud.VM, error) {
				return cloud.VM{}, &cloud.Error{
					Code: cloud.Exhausted, Op: "create VM", Remembered: tc.remembered, Err: errors.New("no capacity"),
				}
			}}
			w := wanted(func(context.Context, int) error { attempts++; return nil })
			traits := cloud.Traits{Settle: 10 * time.Second, StickyKeys: tc.sticky}
			for range 3 {
				if _, err := e.ensure(t.Context(), a, traits, w); err == nil {
					t.Fatal("a VM without capacity")
				}
				clock.SetTime(clock.Now().Add(11 * time.Second))
			}
			if attempts != tc.want {
				t.Errorf("%d new attempts, want %d", attempts, tc.want)
			}
		})
	}
}
