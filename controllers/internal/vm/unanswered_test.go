package vm

import (
	"context"
	"errors"
	"testing"
	"time"

	testingclock "k8s.io/utils/clock/testing"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/internal/fence"
)

// TestUnansweredCreate: a request that got no answer may reach the cloud up to a minute later,
// long after the cloud was looked at for the settle time. A VM that it makes then must not be a
// second one: nothing is asked for under another token before, and the machine is not believed
// to have no VM.
func TestUnansweredCreate(t *testing.T) {
	t.Parallel()
	lost := &cloud.Error{Code: cloud.Unavailable, Op: "create VM", Err: errors.New("connection reset")}
	exhausted := &cloud.Error{Code: cloud.Exhausted, Op: "create VM", Err: errors.New("no capacity")}
	for name, tc := range map[string]struct {
		reason  string
		answers []error
		after   time.Duration // until nothing can be on its way any more
	}{
		"Lost": {"The call fails.", []error{lost}, fence.Reach},
		"LostThenRefused": {
			"The cloud refuses the next request, and may have room when the first one arrives.",
			[]error{lost, exhausted},
			fence.Reach,
		},
		"Refused": {"Each request has an answer.", []error{exhausted}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := testingclock.NewFakePassiveClock(start)
			e, next := New(clock, noFormerLeader, nil), 0
			a := &account{get: notFound, del: func(cloud.Ref) (cloud.Deletion, error) { return cloud.Deletion{Done: true}, nil }}
			w := wanted(func(_ context.Context, n int) error { next = n; return nil })
			for _, answer := range tc.answers {
				a.create = func(cloud.CreateRequest) (cloud.VM, error) { return cloud.VM{}, answer }
				if _, err := e.ensure(t.Context(), a, traits, w); !errors.Is(err, answer) {
					t.Fatalf("create: %v, want %v", err, answer)
				}
				clock.SetTime(clock.Now().Add(time.Second))
			}
			w.Spent = true
			for at := start.Add(2 * time.Second); next == 0; at = at.Add(time.Second) {
				clock.SetTime(at)
				d, err := e.remove(t.Context(), a, traits, w.Request.Ref)
				_, _ = e.ensure(t.Context(), a, traits, w)
				early := at.Before(start.Add(tc.after + traits.Settle))
				if err != nil || early && (d.Done || next != 0) {
					t.Fatalf("after %s: deletion %+v, %v, next attempt %d. %s", at.Sub(start), d, err, next, tc.reason)
				}
				if at.Sub(start) > 2*fence.Reach {
					t.Fatalf("no attempt follows within %s", at.Sub(start))
				}
			}
		})
	}
}
