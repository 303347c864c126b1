package controllers

import (
	"context"
	"testing"
	"testing/synctest"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// runnables is a manager that keeps what is added to it.
type runnables struct {
	ctrl.Manager // nil: what is not modelled panics
	added        []manager.Runnable
}

func (m *runnables) Add(r manager.Runnable) error {
	m.added = append(m.added, r)
	return nil
}

// runnable counts its starts.
type runnable struct {
	everywhere       bool // runs without leader election
	started, warmups int
}

func (r *runnable) Start(context.Context) error  { r.started++; return nil }
func (r *runnable) Warmup(context.Context) error { r.warmups++; return nil }
func (r *runnable) NeedLeaderElection() bool     { return !r.everywhere }

// TestCatchingUp: what the leader runs starts once the caches have caught up, all
// together; what every process runs does not wait.
func TestCatchingUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		caughtUp, waits := make(chan struct{}), 0
		inner := &runnables{}
		m := &catchingUp{Manager: inner, done: make(chan struct{}), wait: func(context.Context) bool {
			waits++
			<-caughtUp
			return true
		}}
		leaders, everywhere := []*runnable{{}, {}}, &runnable{everywhere: true}
		for _, r := range []*runnable{leaders[0], leaders[1], everywhere} {
			if err := m.Add(r); err != nil {
				t.Fatal(err)
			}
		}
		for _, r := range inner.added {
			if warm, ok := r.(interface {
				Warmup(ctx context.Context) error
			}); !ok || warm.Warmup(t.Context()) != nil {
				t.Errorf("%T does not warm up", r)
			}
			go func() { _ = r.Start(t.Context()) }()
		}
		synctest.Wait()
		if leaders[0].started+leaders[1].started != 0 || everywhere.started != 1 || leaders[0].warmups != 1 {
			t.Errorf("before: %+v %+v %+v", *leaders[0], *leaders[1], *everywhere)
		}
		close(caughtUp)
		synctest.Wait()
		if leaders[0].started != 1 || leaders[1].started != 1 || waits != 1 {
			t.Errorf("after: %+v %+v, caches compared %d times, want once", *leaders[0], *leaders[1], waits)
		}
	})
}

// TestCatchingUpEnds: a process that stops before starts nothing, which is no failure.
func TestCatchingUpEnds(t *testing.T) {
	t.Parallel()
	inner, r := &runnables{}, &runnable{}
	m := &catchingUp{Manager: inner, done: make(chan struct{}), wait: func(context.Context) bool { return false }}
	if err := m.Add(r); err != nil {
		t.Fatal(err)
	}
	if err := inner.added[0].Start(t.Context()); err != nil || r.started != 0 {
		t.Errorf("Start() = %v, started %d times", err, r.started)
	}
}
