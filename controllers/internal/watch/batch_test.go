package watch

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// delays is a queue that only notes by how long requests are delayed.
type delays struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	of map[string][]time.Duration
}

func (d delays) AddAfter(r reconcile.Request, after time.Duration) {
	d.of[r.Name] = append(d.of[r.Name], after)
}

// byName maps an object to a request of its name.
func byName(_ context.Context, o client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: o.GetName()}}}
}

func named(name string) client.Object {
	o := &corev1.Node{}
	o.Name = name
	return o
}

func TestBatchDelays(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	cases := map[string]struct {
		reason  string
		events  []time.Duration // since the beginning
		want    []time.Duration
		longest time.Duration
	}{
		"Alone": {"A single event waits for the delay only.", []time.Duration{0}, []time.Duration{100 * ms}, 0},
		"Together": {
			"Events before the reconcile are part of it.",
			[]time.Duration{0, 60 * ms},
			[]time.Duration{100 * ms, 40 * ms},
			0,
		},
		"Burst": {
			"While events follow, one reconcile comes in an interval.",
			[]time.Duration{0, 100 * ms, 500 * ms, 1100 * ms, 1200 * ms},
			[]time.Duration{100 * ms, time.Second, 600 * ms, time.Second, 900 * ms},
			0,
		},
		"Apart": {
			"An event that comes an interval later does not wait for it.",
			[]time.Duration{0, 2 * time.Second},
			[]time.Duration{100 * ms, 100 * ms},
			0,
		},
		"JustApart": {
			"The interval never delays more than it has left.",
			[]time.Duration{0, 1050 * ms},
			[]time.Duration{100 * ms, 100 * ms},
			0,
		},
		"Stream": {
			"The longer events follow, the longer is the interval, up to the longest; quiet restarts it.",
			[]time.Duration{0, 200 * ms, 1200 * ms, 3200 * ms, 6200 * ms, 9200 * ms, 20 * time.Second, 20200 * ms},
			[]time.Duration{100 * ms, 900 * ms, 1900 * ms, 2900 * ms, 2900 * ms, 2900 * ms, 100 * ms, 900 * ms},
			3 * time.Second,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := clocktesting.NewFakePassiveClock(start)
			b := &Batch{Clock: clock, Delay: 100 * ms, Interval: time.Second, Longest: tc.longest}
			q := delays{of: map[string][]time.Duration{}}
			for _, at := range tc.events {
				clock.SetTime(start.Add(at))
				b.Enqueue(byName).Create(t.Context(), event.CreateEvent{Object: named("a")}, q)
			}
			if diff := cmp.Diff(tc.want, q.of["a"]); diff != "" {
				t.Errorf("%s\n%s", tc.reason, diff)
			}
		})
	}
}

func TestBatchEnqueuesBothSidesOfAnUpdate(t *testing.T) {
	t.Parallel()
	b := &Batch{Clock: clocktesting.NewFakePassiveClock(start), Delay: time.Second, Interval: time.Minute}
	q := delays{of: map[string][]time.Duration{}}
	h := b.Enqueue(byName)
	h.Update(t.Context(), event.UpdateEvent{ObjectOld: named("old"), ObjectNew: named("new")}, q)
	h.Update(t.Context(), event.UpdateEvent{ObjectOld: named("same"), ObjectNew: named("same")}, q)
	h.Delete(t.Context(), event.DeleteEvent{Object: named("gone")}, q)
	one := []time.Duration{time.Second}
	want := map[string][]time.Duration{"old": one, "new": one, "same": one, "gone": one}
	if diff := cmp.Diff(want, q.of); diff != "" {
		t.Error(diff)
	}
}

func TestBatchForgets(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakePassiveClock(start)
	b := &Batch{Clock: clock, Delay: time.Millisecond, Interval: time.Second}
	q := delays{of: map[string][]time.Duration{}}
	for _, name := range []string{"a", "b"} {
		b.Enqueue(byName).Create(t.Context(), event.CreateEvent{Object: named(name)}, q)
	}
	clock.SetTime(clock.Now().Add(time.Hour))
	b.Enqueue(byName).Create(t.Context(), event.CreateEvent{Object: named("c")}, q)
	if len(b.last) != 1 {
		t.Errorf("%d objects are remembered, want the last one only", len(b.last))
	}
}

// TestBatchEndsWithTheLastExpected: the last machine of a wave is what all wait for.
func TestBatchEndsWithTheLastExpected(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	clock := clocktesting.NewFakePassiveClock(start)
	b := &Batch{Clock: clock, Delay: 100 * ms, Interval: 4 * time.Second, Counts: func(before, after client.Object) bool {
		return before.GetName() == "a" && (after == nil || after.GetGeneration() > 0)
	}}
	q := delays{of: map[string][]time.Duration{}}
	h := b.Enqueue(byName)
	ready := named("a")
	ready.SetGeneration(1)
	request := byName(t.Context(), ready)[0]
	b.Expect(request, 2)
	h.Create(t.Context(), event.CreateEvent{Object: named("a")}, q)
	clock.SetTime(start.Add(time.Second))
	h.Update(t.Context(), event.UpdateEvent{ObjectOld: named("a"), ObjectNew: named("a")}, q) // does not count
	h.Update(t.Context(), event.UpdateEvent{ObjectOld: named("a"), ObjectNew: ready}, q)
	h.Delete(t.Context(), event.DeleteEvent{Object: ready}, q)
	h.Update(t.Context(), event.UpdateEvent{ObjectOld: named("a"), ObjectNew: ready}, q) // not expected any more
	want := []time.Duration{100 * ms, 3100 * ms, 3100 * ms, 100 * ms, 100 * ms}
	if diff := cmp.Diff(want, q.of["a"]); diff != "" {
		t.Error(diff)
	}
	b.Expect(request, 1)
	b.Expect(request, 0)
	clock.SetTime(start.Add(1200 * ms))
	h.Update(t.Context(), event.UpdateEvent{ObjectOld: named("a"), ObjectNew: ready}, q)
	if got := q.of["a"][5]; got != 3900*ms {
		t.Errorf("%v after nothing was expected any more, want the rest of the interval", got)
	}
}
