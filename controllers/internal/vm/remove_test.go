package vm

import (
	"testing"
	"time"

	testingclock "k8s.io/utils/clock/testing"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/internal/fence"
)

func TestRemoveBelieves(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		ref    cloud.Ref
		at     time.Duration // of the second call; the first is at 0
		done   [2]bool
	}{
		"UnknownIDWaits": {
			reason: "A create whose answer was lost may have made a VM that is not shown yet.",
			ref:    cloud.Ref{OwnerID: "o", Created: start.Add(-time.Hour)}, at: 9 * time.Second, done: [2]bool{false, false},
		},
		"UnknownIDAfterSettle": {
			reason: "Nothing there for the settle time is nothing there.",
			ref:    cloud.Ref{OwnerID: "o", Created: start.Add(-time.Hour)}, at: 11 * time.Second, done: [2]bool{false, true},
		},
		"VMOfTheProcessBefore": {
			reason: "The process before may have made a VM for an old machine just before it ended.",
			ref:    cloud.Ref{OwnerID: "o", ProviderID: "p", Created: start.Add(-time.Hour)}, at: 9 * time.Second,
			done: [2]bool{false, false},
		},
		"VMOfTheProcessBeforeAfterSettle": {
			reason: "A VM that was made longer ago is shown if it exists.",
			ref:    cloud.Ref{OwnerID: "o", ProviderID: "p", Created: start.Add(-time.Hour)}, at: 11 * time.Second,
			done: [2]bool{false, true},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := testingclock.NewFakePassiveClock(start)
			e := New(clock, noFormerLeader, nil)
			a := &account{del: func(cloud.Ref) (cloud.Deletion, error) { return cloud.Deletion{Done: true}, nil }}
			for i, at := range []time.Duration{0, tc.at} {
				clock.SetTime(start.Add(at))
				d, err := e.remove(t.Context(), a, traits, tc.ref)
				if err != nil || d.Done != tc.done[i] {
					t.Errorf("call %d: done %v, want %v, error %v: %s", i, d.Done, tc.done[i], err, tc.reason)
				}
				if !d.Done && d.RetryAfter <= 0 {
					t.Errorf("call %d does not say when to come back", i)
				}
			}
		})
	}
}

// TestRemoveReckonsWithFormerLeader: a leader that was replaced may have requested a
// VM of which nothing is recorded, and the request takes effect when the cloud has
// shown nothing for long.
func TestRemoveReckonsWithFormerLeader(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		ref    cloud.Ref
		done   []time.Duration // until which there is no end, and then one
	}{
		"Unknown": {
			"The settle time begins when no request can arrive any more.",
			cloud.Ref{OwnerID: "o"},
			[]time.Duration{time.Minute, time.Minute + 9*time.Second, time.Minute + 10*time.Second},
		},
		"Known": {
			"No leader creates a VM for a machine that has a providerID.",
			cloud.Ref{OwnerID: "o", ProviderID: "p", Created: start.Add(-time.Hour)},
			[]time.Duration{0, 10 * time.Second},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := testingclock.NewFakePassiveClock(start)
			e := New(clock, fence.Always(clock).FormerLeader, nil)
			a := &account{del: func(cloud.Ref) (cloud.Deletion, error) { return cloud.Deletion{Done: true}, nil }}
			for i, at := range append([]time.Duration{0}, tc.done...) {
				clock.SetTime(start.Add(at))
				d, err := e.remove(t.Context(), a, traits, tc.ref)
				if err != nil || d.Done != (i == len(tc.done)) {
					t.Errorf("after %s: %+v, %v. %s", at, d, err, tc.reason)
				}
			}
		})
	}
}

func TestRemoveForgetsAnAbsenceThatEnded(t *testing.T) {
	t.Parallel()
	clock := testingclock.NewFakePassiveClock(start)
	e := New(clock, noFormerLeader, nil)
	answers := []bool{true, false, true}
	a := &account{del: func(cloud.Ref) (cloud.Deletion, error) {
		done := answers[0]
		answers = answers[1:]
		return cloud.Deletion{Done: done}, nil
	}}
	ref := cloud.Ref{OwnerID: "o"}
	for i := range 3 {
		clock.SetTime(start.Add(time.Duration(i) * 20 * time.Second))
		if d, _ := e.remove(t.Context(), a, traits, ref); d.Done {
			t.Errorf("call %d: done, although the VM was seen in between", i)
		}
	}
}

// TestRemoveOfAVMThatSomebodyElseMade: the other process may have ended long ago,
// or lead as well.
func TestRemoveOfAVMThatSomebodyElseMade(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reason string
		known  time.Duration // before the removal
		done   bool
	}{
		"Known":   {"A VM whose id has been known for the settle time would be shown.", time.Minute, true},
		"Unknown": {"A VM whose id was just learnt may have been made a moment ago.", 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := testingclock.NewFakePassiveClock(start)
			e := New(clock, noFormerLeader, nil)
			a := &account{del: func(cloud.Ref) (cloud.Deletion, error) { return cloud.Deletion{Done: true}, nil }}
			_, _ = e.remove(t.Context(), a, traits, cloud.Ref{OwnerID: "other", ProviderID: "q"})
			e.ObserveProviderID("o", "")
			clock.SetTime(start.Add(time.Hour))
			e.ObserveProviderID("o", "p")
			clock.SetTime(start.Add(time.Hour + tc.known))
			e.ObserveProviderID("o", "p")
			if d, err := e.remove(t.Context(), a, traits, cloud.Ref{OwnerID: "o", ProviderID: "p"}); err != nil ||
				d.Done != tc.done {
				t.Errorf("Remove() = %+v, %v: %s", d, err, tc.reason)
			}
		})
	}
}

func TestRemoveDoesNotHammerACloudWithoutHint(t *testing.T) {
	t.Parallel()
	e := New(testingclock.NewFakePassiveClock(start), noFormerLeader, nil)
	a := &account{del: func(cloud.Ref) (cloud.Deletion, error) { return cloud.Deletion{}, nil }}
	if d, _ := e.remove(t.Context(), a, traits, cloud.Ref{OwnerID: "o"}); d.RetryAfter < time.Second {
		t.Errorf("asked again after %s", d.RetryAfter)
	}
}
