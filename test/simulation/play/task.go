package play

import (
	"context"
	"fmt"
	"iter"
	"runtime/debug"
	"slices"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// task is one reconcile. It is a coroutine that gives way at its effects, so
// that others act in between; it never runs at the same time as anything else.
type task struct {
	process    *process
	controller *controller
	request    reconcile.Request
	began      time.Time
	wake       time.Time // not resumed before
	on         *coroutine

	result   reconcile.Result
	err      error
	panicked bool
	ended    bool
	dead     bool
	crash    string // what it panicked with
}

// coroutine runs tasks, one after the other: their stacks have grown already.
type coroutine struct {
	task  *task
	next  func() (struct{}, bool)
	stop  func()
	yield func(struct{}) bool
}

// newCoroutine returns a coroutine that waits for its first task.
func newCoroutine() *coroutine {
	c := &coroutine{}
	c.next, c.stop = iter.Pull(func(yield func(struct{}) bool) {
		c.yield = yield
		for c.task.run(); !c.task.dead && yield(struct{}{}); {
			c.task.run()
		}
	})
	return c
}

// killed is what unwinds a task whose process is gone.
type killed struct{}

type taskKey struct{}

// taskOf is the task that makes a call; nil for what is no reconcile.
func taskOf(ctx context.Context) *task {
	t, _ := ctx.Value(taskKey{}).(*task)
	return t
}

// String names it in traces.
func (t *task) String() string {
	return fmt.Sprintf("%s %s %s", t.process.name, t.controller.Name, t.request)
}

// begin gives the task a coroutine; it runs when it is resumed.
func (t *task) begin() {
	w := t.process.world
	if n := len(w.idle); n > 0 {
		t.on, w.idle = w.idle[n-1], w.idle[:n-1]
	} else {
		t.on = newCoroutine()
	}
	t.on.task = t
}

// run does what the task is for.
func (t *task) run() {
	defer func() {
		t.ended = true
		switch caught := recover().(type) {
		case nil, killed:
		default:
			t.panicked, t.crash = true, fmt.Sprintf("%v\n%s", caught, debug.Stack())
		}
	}()
	ctx := context.WithValue(t.process.ctx, taskKey{}, t)
	t.result, t.err = t.controller.Do.Reconcile(ctx, t.request)
}

// pause gives way until d has passed and it is this task's turn again.
func (t *task) pause(d time.Duration) {
	t.wake = t.process.world.now.Add(d)
	if !t.on.yield(struct{}{}) {
		panic(killed{})
	}
}

// resume runs it until it gives way or ends, and reports whether it has ended.
func (t *task) resume() bool {
	t.on.next()
	if t.ended && !t.dead {
		w := t.process.world
		w.idle = append(w.idle, t.on)
	}
	return t.ended
}

// kill ends it where it is. It does nothing more.
func (t *task) kill() {
	t.dead = true
	t.on.stop()
}

// queue is a work queue on the world's time. An item that is added while it is
// worked on becomes ready again when that is done.
type queue struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request] // nil: what is not modelled panics

	now     func() time.Time
	limiter workqueue.TypedRateLimiter[reconcile.Request]
	ready   []reconcile.Request
	dirty   map[reconcile.Request]bool
	busy    map[reconcile.Request]bool
	later   map[reconcile.Request]time.Time
	down    bool
}

func newQueue(now func() time.Time, limiter workqueue.TypedRateLimiter[reconcile.Request]) *queue {
	return &queue{
		now: now, limiter: limiter, dirty: map[reconcile.Request]bool{}, busy: map[reconcile.Request]bool{},
		later: map[reconcile.Request]time.Time{},
	}
}

// Add makes an item ready.
func (q *queue) Add(r reconcile.Request) {
	if q.dirty[r] || q.down {
		return
	}
	q.dirty[r] = true
	if !q.busy[r] {
		q.ready = append(q.ready, r)
	}
}

// AddAfter makes an item ready in a while; the earliest time counts.
func (q *queue) AddAfter(r reconcile.Request, d time.Duration) {
	if d <= 0 {
		q.Add(r)
		return
	}
	due := q.now().Add(d)
	if at, waits := q.later[r]; !waits || due.Before(at) {
		q.later[r] = due
	}
}

// AddRateLimited makes an item ready after its back-off.
func (q *queue) AddRateLimited(r reconcile.Request) { q.AddAfter(r, q.limiter.When(r)) }

// Forget ends an item's back-off.
func (q *queue) Forget(r reconcile.Request) {
	if q.limiter != nil {
		q.limiter.Forget(r)
	}
}

// NumRequeues is how often an item was put back.
func (q *queue) NumRequeues(r reconcile.Request) int { return q.limiter.NumRequeues(r) }

// Len is the number of ready items.
func (q *queue) Len() int { return len(q.ready) }

// ShutDown takes nothing more.
func (q *queue) ShutDown() { q.down = true }

// ShuttingDown reports whether it takes nothing more.
func (q *queue) ShuttingDown() bool { return q.down }

// take gives out the i-th ready item.
func (q *queue) take(i int) reconcile.Request {
	r := q.ready[i]
	q.ready = slices.Delete(q.ready, i, i+1)
	delete(q.dirty, r)
	q.busy[r] = true
	return r
}

// Done ends the work on an item.
func (q *queue) Done(r reconcile.Request) {
	delete(q.busy, r)
	if q.dirty[r] {
		q.ready = append(q.ready, r)
	}
}

// ripen makes ready what is due, in the order of names, and returns when the
// next item is; zero if none waits.
func (q *queue) ripen() time.Time {
	var next time.Time
	var due []reconcile.Request
	now := q.now()
	for r, at := range q.later {
		if !at.After(now) {
			due = append(due, r)
		} else if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	slices.SortFunc(due, func(a, b reconcile.Request) int {
		switch x, y := a.String(), b.String(); {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
	for _, r := range due {
		delete(q.later, r)
		q.Add(r)
	}
	return next
}
