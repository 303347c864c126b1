package aws

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// Window is how long a call waits for others that can share it.
type Window struct {
	Idle    time.Duration // after the last that joined
	Longest time.Duration // after the first
}

const (
	batchMax     = 200 // values that a filter of EC2 takes
	batchTimeout = 30 * time.Second
)

// batcher makes one call of many that come together. Those of equal key share
// one. Nothing of it runs while nobody calls.
type batcher[K, I comparable, O any] struct {
	window Window
	// late lets callers join a call that has begun and that asks for their item:
	// for what does not change, so that an answer cannot be too old.
	late bool
	// run answers all items, each once. What is not in the answer gets O's zero.
	run func(ctx context.Context, key K, items []I) (map[I]O, error)

	mu   sync.Mutex
	open map[K]*batch[I, O] // that others can still join
}

// batch is one call. Its fields are guarded by the batcher until done is
// closed, and do not change after that.
type batch[I comparable, O any] struct {
	ctx     context.Context //nolint:containedctx // it belongs to no caller: it ends when all of them have gone
	cancel  context.CancelFunc
	timer   *time.Timer
	first   time.Time
	items   []I
	seen    map[I]bool
	waiting int
	started bool

	done  chan struct{}
	out   map[I]O
	err   error
	panic string // what the call panicked with, and where
}

func newBatcher[K, I comparable, O any](w Window, run func(ctx context.Context, key K, items []I) (map[I]O,
	error),
) *batcher[K, I, O] {
	return &batcher[K, I, O]{window: w, run: run, open: map[K]*batch[I, O]{}}
}

// do returns the answer for an item. It gives up with ctx, which does not end
// the call for others.
func (b *batcher[K, I, O]) do(ctx context.Context, op string, key K, item I) (O, error) {
	var none O
	if err := ctx.Err(); err != nil {
		return none, cloud.Errorf(cloud.Unavailable, op, "NotSent", "nothing was asked of the cloud: %w", err)
	}
	mine := b.join(ctx, key, item)
	select {
	case <-mine.done:
		if mine.panic != "" {
			panic(mine.panic) // where somebody looks after it
		}
		if mine.err != nil {
			return none, named(op, mine.err)
		}
		return mine.out[item], nil
	case <-ctx.Done():
		b.leave(key, mine)
		return none, cloud.Errorf(cloud.Unavailable, op, "NoAnswer", "no answer from the cloud: %w", ctx.Err())
	}
}

// named returns err, which several callers share, as this one's.
func named(op string, err error) error {
	e, ok := err.(*cloud.Error) //nolint:errorlint // run returns nothing else
	if !ok {
		return cloud.Errorf(cloud.Unknown, op, "Unclassified", "%w", err)
	}
	mine := *e
	mine.Op = op
	return &mine
}

// join puts an item into the batch of its key, or into a new one.
func (b *batcher[K, I, O]) join(ctx context.Context, key K, item I) *batch[I, O] {
	b.mu.Lock()
	defer b.mu.Unlock()
	mine := b.open[key]
	switch {
	case mine != nil && mine.started && mine.seen[item]:
		mine.waiting++
		return mine
	case mine == nil || mine.started:
		mine = &batch[I, O]{first: time.Now(), seen: map[I]bool{}, done: make(chan struct{})}
		mine.ctx, mine.cancel = context.WithCancel(context.WithoutCancel(ctx)) //nolint:gosec // start and leave call it
		mine.timer = time.AfterFunc(b.window.Idle, func() { b.start(key, mine) })
		b.open[key] = mine
	default:
		mine.timer.Reset(max(0, min(b.window.Idle, b.window.Longest-time.Since(mine.first))))
	}
	mine.waiting++
	if !mine.seen[item] {
		mine.seen[item] = true
		mine.items = append(mine.items, item)
	}
	if len(mine.items) == batchMax {
		mine.timer.Reset(0)
		delete(b.open, key)
	}
	return mine
}

// leave takes a caller out. The call ends with the last.
func (b *batcher[K, I, O]) leave(key K, mine *batch[I, O]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if mine.waiting--; mine.waiting > 0 {
		return
	}
	mine.cancel()
	b.shut(key, mine)
	if !mine.started {
		mine.timer.Reset(0) // it finds its context ended
	}
}

// shut keeps further callers out. The batcher is locked.
func (b *batcher[K, I, O]) shut(key K, mine *batch[I, O]) {
	if b.open[key] == mine {
		delete(b.open, key)
	}
}

// start makes the call of a batch, once.
func (b *batcher[K, I, O]) start(key K, mine *batch[I, O]) {
	b.mu.Lock()
	if mine.started {
		b.mu.Unlock()
		return
	}
	mine.started = true
	if !b.late {
		b.shut(key, mine)
	}
	b.mu.Unlock()
	defer close(mine.done)
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.shut(key, mine)
	}()
	defer mine.cancel()
	ctx, cancel := context.WithTimeout(mine.ctx, batchTimeout)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			mine.panic = fmt.Sprintf("%v\n%s", p, debug.Stack())
		}
	}()
	if ctx.Err() == nil {
		mine.out, mine.err = b.run(ctx, key, mine.items)
	}
}
