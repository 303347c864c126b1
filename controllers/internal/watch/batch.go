package watch

import (
	"context"
	"maps"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// A Batch delays the reconciles that events ask for, so that events which come
// close together cause one reconcile, with its writes, instead of one each. The
// first event waits for Delay. While more follow, an object is reconciled once in
// Interval, which doubles with each reconcile up to Longest: a pool whose machines
// come one by one for minutes needs fewer looks than one that is nearly there. Once
// nothing follows within the interval, it starts over, and so it does with the last of the
// events that were expected: a look is put off only while more is known to come. Longest may be
// zero, and the interval stays. A Batch must not be copied; it is safe for concurrent use.
type Batch struct {
	Clock                    clock.PassiveClock
	Delay, Interval, Longest time.Duration
	// Counts reports whether an event is one of those that Expect means; after is nil where the
	// object is gone. Nil counts none.
	Counts func(before, after client.Object) bool

	mu       sync.Mutex
	last     map[reconcile.Request]reserved
	expected map[reconcile.Request]int
	swept    time.Time
}

// reserved is the last reconcile of an object that was asked for.
type reserved struct {
	due      time.Time
	interval time.Duration // until the next one
}

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// Enqueue returns a handler that enqueues, delayed, what the object of an event
// maps to; for an update, what the old and the new object map to.
func (b *Batch) Enqueue(of handler.MapFunc) handler.EventHandler {
	enqueue := func(ctx context.Context, q queue, counts bool, objects ...client.Object) {
		seen := map[reconcile.Request]bool{}
		for _, o := range objects {
			for _, request := range of(ctx, o) {
				if !seen[request] {
					seen[request] = true
					q.AddAfter(request, b.delay(request, counts))
				}
			}
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) { enqueue(ctx, q, false, e.Object) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			enqueue(ctx, q, b.Counts != nil && b.Counts(e.ObjectOld, e.ObjectNew), e.ObjectOld, e.ObjectNew)
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) {
			enqueue(ctx, q, b.Counts != nil && b.Counts(e.Object, nil), e.Object)
		},
		GenericFunc: func(ctx context.Context, e event.GenericEvent, q queue) { enqueue(ctx, q, false, e.Object) },
	}
}

// Expect says for how many events that count an object waits from now on; 0 or less for none. A nil Batch, of a
// controller that no manager runs, ignores it.
func (b *Batch) Expect(r reconcile.Request, n int) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if n <= 0 {
		delete(b.expected, r)
		return
	}
	if b.expected == nil {
		b.expected = map[reconcile.Request]int{}
	}
	b.expected[r] = n
}

// delay returns when the next reconcile of an object is due. A queue merges what is
// added to it twice.
func (b *Batch) delay(r reconcile.Request, counts bool) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.Clock.Now()
	b.sweep(now)
	if left := b.expected[r]; counts && left > 0 {
		if b.expected[r] = left - 1; left == 1 {
			delete(b.expected, r)
			b.last[r] = reserved{now.Add(b.Delay), b.Interval}
			return b.Delay
		}
	}
	last, found := b.last[r]
	switch next := last.due.Add(last.interval); {
	case !found || next.Before(now.Add(b.Delay)):
		last = reserved{now.Add(b.Delay), b.Interval}
	case !now.Before(last.due):
		last = reserved{next, max(b.Interval, min(2*last.interval, b.Longest))}
	}
	b.last[r] = last
	return last.due.Sub(now)
}

// sweep forgets, once in a while, reconciles that delay no other any more.
func (b *Batch) sweep(now time.Time) {
	const period = time.Minute
	if b.last == nil {
		b.last = map[reconcile.Request]reserved{}
	}
	if now.Sub(b.swept) < period {
		return
	}
	b.swept = now
	maps.DeleteFunc(b.last, func(_ reconcile.Request, r reserved) bool { return r.due.Add(r.interval).Before(now) })
}
