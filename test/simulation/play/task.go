package play

import (
	"context"
	"fmt"
	"iter"
	"runtime/debug"
	"time"

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
