package driverkit

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// Window is how long a call waits for other callers to share it. The zero value
// does not wait.
type Window struct {
	Idle    time.Duration // after the last caller that joined
	Longest time.Duration // after the first
}

// BatchOptions configure a Batcher. The zero value sends every call at once and
// keeps no answer.
type BatchOptions struct {
	Window  Window
	Max     int           // requests in one call; 0 is no limit. Not together with InTurn
	Timeout time.Duration // of one call; 0 is none

	// InTurn makes calls of one key follow each other: those who ask during a call
	// share the next one.
	InTurn bool
	// Keep is how long after its beginning DoSince may return an answer again; 0
	// forgets it when the call ends. Errors are not kept.
	Keep time.Duration

	Now func() time.Time // nil is time.Now
}

// Batcher lets callers share calls to a cloud: one call answers all callers of
// an equal key that come together. K is what the callers of one call have in
// common, R what each of them asks for, O the whole answer, from which each
// takes its own part. It is safe for concurrent use, and runs only while there
// are callers.
type Batcher[K comparable, R, O any] struct {
	options BatchOptions
	call    func(ctx context.Context, key K, requests []R) (O, error)

	mu     sync.Mutex
	queues map[K]*queue[R, O]
}

// queue is what is known of one key.
type queue[R, O any] struct {
	open    *batch[R, O] // takes further callers; nil if there is none
	latest  *batch[R, O] // began last, and is under way or kept; nil if there is none
	running int          // calls under way
}

// batch is one call. The Batcher's lock guards its fields until done is closed;
// out, err and panicked do not change after that.
type batch[R, O any] struct {
	ctx      context.Context //nolint:containedctx // it belongs to no caller: it ends when all of them have left
	cancel   context.CancelFunc
	timer    *time.Timer
	opened   time.Time
	began    time.Time
	after    time.Time // latest freshness that a caller asked for
	requests []R
	waiting  int
	due      bool // its window is over, another call of the key is under way
	started  bool
	finished bool

	done     chan struct{}
	out      O
	err      error
	panicked string // what the call panicked with, and where; empty if it did not
}

// NewBatcher returns a Batcher that makes its calls with call. A call gets the
// requests of all its callers, in order and with duplicates; its context has the
// values of the first caller's context and ends when every caller has left.
func NewBatcher[K comparable, R, O any](o BatchOptions,
	call func(ctx context.Context, key K, requests []R) (O, error),
) *Batcher[K, R, O] {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Batcher[K, R, O]{options: o, call: call, queues: map[K]*queue[R, O]{}}
}

// Do returns the answer of a call that contains the request, and so begins after
// Do was called. It blocks until then or until ctx ends, which does not end the
// call for others. Answer and error are shared with other callers: neither may
// be modified. When the call panics, Do panics too.
//
// Where ctx ends first, the error is a *cloud.Error of code Unavailable.
func (b *Batcher[K, R, O]) Do(ctx context.Context, op string, key K, request R) (O, error) {
	return b.wait(ctx, op, key, func() *batch[R, O] { return b.enter(ctx, key, request) })
}

// DoSince is Do for answers that depend on the key alone: it also accepts the
// answer of a call that began after that time, under way or kept. The zero time
// accepts any. A call that it makes finds that time as the cloud.Freshness of
// its context.
func (b *Batcher[K, R, O]) DoSince(ctx context.Context, op string, key K, request R, after time.Time) (O, error) {
	return b.wait(ctx, op, key, func() *batch[R, O] {
		b.expire()
		if latest := b.queue(key).latest; latest != nil && latest.began.After(after) {
			return latest
		}
		open := b.enter(ctx, key, request)
		if after.After(open.after) {
			open.after = after
		}
		return open
	})
}

// wait joins a batch, with the lock held, and waits for its answer.
func (b *Batcher[K, R, O]) wait(ctx context.Context, op string, key K, join func() *batch[R, O]) (O, error) {
	var none O
	if err := ctx.Err(); err != nil {
		return none, cloud.Errorf(cloud.Unavailable, op, "NotSent", "request not sent: %w", err)
	}
	b.mu.Lock()
	mine := join()
	mine.waiting++
	b.mu.Unlock()
	select {
	case <-mine.done:
		if mine.panicked != "" {
			panic(mine.panicked) // in the caller, who knows what it was for
		}
		return mine.out, mine.err
	case <-ctx.Done():
		b.leave(key, mine)
		return none, cloud.Errorf(cloud.Unavailable, op, "NoAnswer", "no answer from the cloud: %w", ctx.Err())
	}
}

// queue returns the queue of a key. The lock is held.
func (b *Batcher[K, R, O]) queue(key K) *queue[R, O] {
	q := b.queues[key]
	if q == nil {
		q = &queue[R, O]{}
		b.queues[key] = q
	}
	return q
}

// enter puts a request into the open batch of its key, or into a new one. The
// lock is held.
func (b *Batcher[K, R, O]) enter(ctx context.Context, key K, request R) *batch[R, O] {
	q, w := b.queue(key), b.options.Window
	mine := q.open
	if mine == nil {
		mine = &batch[R, O]{opened: time.Now(), done: make(chan struct{})}
		mine.ctx, mine.cancel = context.WithCancel(context.WithoutCancel(ctx)) //nolint:gosec // leave and run call it
		mine.timer = time.AfterFunc(w.Idle, func() { b.start(key, mine) })
		q.open = mine
	} else if !mine.due {
		mine.timer.Reset(max(0, min(w.Idle, w.Longest-time.Since(mine.opened))))
	}
	mine.requests = append(mine.requests, request)
	if len(mine.requests) == b.options.Max {
		mine.timer.Reset(0)
		q.open = nil
	}
	return mine
}

// leave takes a caller out. The call ends with the last one.
func (b *Batcher[K, R, O]) leave(key K, mine *batch[R, O]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if mine.waiting--; mine.waiting > 0 {
		return
	}
	mine.cancel()
	mine.timer.Stop()
	q := b.queue(key)
	if q.open == mine {
		q.open = nil
	}
	if q.latest == mine {
		q.latest = nil
	}
	b.tidy(key, q)
}

// start makes the call of a batch, once.
func (b *Batcher[K, R, O]) start(key K, mine *batch[R, O]) {
	if !b.begin(key, mine) {
		return
	}
	defer b.finish(key, mine)
	defer mine.cancel()
	defer func() {
		if p := recover(); p != nil {
			mine.panicked = fmt.Sprintf("%v\n%s", p, debug.Stack())
		}
	}()
	ctx := mine.ctx
	if b.options.Timeout > 0 {
		limited, cancel := context.WithTimeout(ctx, b.options.Timeout)
		defer cancel()
		ctx = limited
	}
	if !mine.after.IsZero() {
		ctx = cloud.NotBefore(ctx, mine.after)
	}
	mine.out, mine.err = b.call(ctx, key, mine.requests)
}

// begin closes a batch to further requests. It returns false where the call is
// not to be made: now, because it is not its turn, or ever.
func (b *Batcher[K, R, O]) begin(key K, mine *batch[R, O]) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	q := b.queue(key)
	if mine.started || mine.waiting == 0 {
		b.tidy(key, q)
		return false
	}
	if b.options.InTurn && q.running > 0 {
		mine.due = true
		return false
	}
	mine.started, mine.began = true, b.options.Now()
	q.running++
	q.latest = mine
	if q.open == mine {
		q.open = nil
	}
	return true
}

// finish hands the answer out, and begins the next call where that waited.
func (b *Batcher[K, R, O]) finish(key K, mine *batch[R, O]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	q := b.queue(key)
	q.running--
	mine.finished = true
	if q.latest == mine && (b.options.Keep <= 0 || mine.err != nil || mine.panicked != "") {
		q.latest = nil
	}
	close(mine.done)
	if q.open != nil && q.open.due {
		next := q.open
		next.due = false
		next.timer.Reset(0)
	}
	b.tidy(key, q)
}

// expire forgets the answers that have been kept for long enough. The lock is held.
func (b *Batcher[K, R, O]) expire() {
	if b.options.Keep <= 0 {
		return
	}
	now := b.options.Now()
	for key, q := range b.queues {
		if q.latest != nil && q.latest.finished && now.Sub(q.latest.began) > b.options.Keep {
			q.latest = nil
			b.tidy(key, q)
		}
	}
}

// tidy forgets a key of which nothing is left. The lock is held.
func (b *Batcher[K, R, O]) tidy(key K, q *queue[R, O]) {
	if q.open == nil && q.latest == nil && q.running == 0 && b.queues[key] == q {
		delete(b.queues, key)
	}
}
