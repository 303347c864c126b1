package steps

import (
	"context"
	"fmt"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/migration"
	"github.com/capmcm/cluster-api-provider-mcm/migration/plan"
)

// open reads the record of a pool, nil if it was never moved, once no other command
// works on it. One that was killed says nothing from then on; one that is there is not
// waited for.
func (e *Engine) open(ctx context.Context, p migration.Pool, o migration.Options) (*stored, error) {
	var first *stored
	begun := e.Clock.Now()
	for {
		s, err := load(ctx, e.Control, p)
		if err != nil || s == nil || s.Runner == "" || o.TakeOver {
			return s, err
		}
		now := e.Clock.Now()
		seen := max(now.Sub(s.Renewed).Round(time.Second), 0)
		if first != nil && (s.Runner != first.Runner || !s.Renewed.Equal(first.Renewed)) {
			return nil, fmt.Errorf("%s is being moved by another command (%s, seen %s ago): wait for it, stop it, or take "+
				"over with --take-over once it is gone for certain", p, s.Runner, seen)
		}
		if seen >= runnerExpiry || now.Sub(begun) >= runnerExpiry { // its clock may go wrong
			s.Runner = ""
			return s, nil
		}
		if first == nil && e.Progress != nil {
			e.Progress(Progress{
				Pool: p, To: s.To, Phase: s.Phase,
				Waiting: fmt.Sprintf("another command was at it %s ago; if it is gone, this one goes on %s after that", seen,
					runnerExpiry),
			})
		}
		first = s
		if err := e.Wait(ctx, lookAgain); err != nil {
			return nil, err
		}
	}
}

// begin finds the move of a pool to the API that o names, or starts one.
func (e *Engine) begin(ctx context.Context, s *stored, p migration.Pool, o migration.Options) (*move, error) {
	if over, err := e.over(ctx, s, o); over || err != nil {
		if err != nil {
			return nil, err
		}
		return e.newMove(ctx, s, p, o)
	}
	if err := s.sameCluster(o.Cluster); err != nil {
		return nil, err
	}
	m, err := e.resume(ctx, s, o)
	if err != nil {
		return nil, err
	}
	if m.To == o.To {
		return m, nil
	}
	return m, e.turn(ctx, m, o)
}

// sameCluster refuses another Cluster than the one that a move has begun with.
func (s *stored) sameCluster(name string) error {
	if s.Phase == migration.PhaseFinished || name == "" || s.Cluster == "" || name == s.Cluster {
		return nil
	}
	return fmt.Errorf("the move of %s has begun with Cluster %s, not %s: leave --cluster out to go on, or roll back first",
		s.Pool, s.Cluster, name)
}

// over reports whether a pool has no move that could be gone on with: it was never
// moved, it is to go elsewhere than its last move went, or that is history, and a pool
// of its name was made anew on the other API since.
func (e *Engine) over(ctx context.Context, s *stored, o migration.Options) (bool, error) {
	if s == nil || s.Phase != migration.PhaseFinished || s.To != o.To {
		return s == nil || s.Phase == migration.PhaseFinished, nil
	}
	scene, err := migration.ReadPool(ctx, e.Control, e.Target, s.Pool, s.Cluster)
	if err != nil {
		return false, err
	}
	return !scene.On(o.To), nil
}

// newMove starts a move that nothing has been done for yet.
func (e *Engine) newMove(ctx context.Context, s *stored, p migration.Pool, o migration.Options) (*move, error) {
	if s == nil {
		s = &stored{}
	}
	s.Record = migration.Record{
		Pool: p, To: o.To, Origin: o.To.Other(), Phase: migration.PhaseHolding, Cluster: o.Cluster, KubeconfigSecret: o.KubeconfigSecret,
		Accept: o.Accept, Defaults: o.Defaults, Hold: e.Name(),
	}
	scene, err := e.check(ctx, &s.Record, o)
	if err != nil {
		return nil, err
	}
	s.NoHealthCheck = o.To == migration.Native && scene.ClusterAPI.HealthCheck == nil
	s.Started, s.Changed = e.Clock.Now().UTC(), e.Clock.Now().UTC()
	return e.resume(ctx, s, o)
}

// turn makes a move go back. Before the new side was the truth, that takes one
// write: the old side is started again, and the copies of the new one go. After
// it, it is a move in the other direction.
func (e *Engine) turn(ctx context.Context, m *move, o migration.Options) error {
	if m.Authority() == o.To {
		// It has never ceased to be the truth, so there is nothing to catch up with.
		m.To, m.Phase, m.Generation = o.To, migration.PhaseSwitching, 0
	} else {
		if !o.Rollback {
			turned := m.Record
			turned.To, turned.Phase = o.To, migration.PhaseHolding
			if _, err := e.check(ctx, &turned, o); err != nil {
				return err
			}
		}
		if m.Reached(migration.PhaseMoved) {
			m.Bounds = nil // the side that works has them
		}
		m.To, m.Phase, m.Hold = o.To, migration.PhaseHolding, e.Name()
	}
	m.Changed = e.Clock.Now().UTC()
	return e.save(ctx, m)
}

// check refuses a move whose plan is blocked.
func (e *Engine) check(ctx context.Context, r *migration.Record, o migration.Options) (*migration.PoolState, error) {
	s, err := e.readFor(ctx, r)
	if err != nil {
		return nil, err
	}
	o.Now = e.Clock.Now()
	if blocked := plan.Of(s, o).Blocked(); len(blocked) > 0 {
		return nil, &RefusedError{Pool: r.Pool, Findings: blocked}
	}
	return s, nil
}

// RefusedError says why a move is not begun. Nothing was written.
type RefusedError struct {
	Pool     migration.Pool
	Findings []migration.Finding
}

// Error has a line for each finding.
func (e *RefusedError) Error() string {
	text := e.Pool.String() + " is not moved:"
	for _, f := range e.Findings {
		text += "\n  " + f.String()
		if f.Level == migration.Lost {
			text += "; --accept=" + f.Field + " accepts it"
		}
	}
	return text
}

// resume takes the pool for this call, unless somebody else has since it was opened.
func (e *Engine) resume(ctx context.Context, s *stored, o migration.Options) (*move, error) {
	m := &move{stored: s, runner: e.Name(), timeout: o.Timeout}
	if m.timeout <= 0 {
		m.timeout = defaultTimeout
	}
	s.Runner, s.Renewed = m.runner, e.Clock.Now().UTC()
	return m, e.save(ctx, m)
}

// renew says that this call is still at it, with what it waits for, and fails if
// somebody else has taken over.
func (e *Engine) renew(ctx context.Context, m *move) error {
	now := e.Clock.Now().UTC()
	if now.Sub(m.Renewed) < renewEvery {
		return nil
	}
	m.Renewed, m.Waiting = now, m.waiting
	return e.save(ctx, m)
}

// leave gives the pool free for the next command. It may fail: then that waits.
func (e *Engine) leave(ctx context.Context, m *move) {
	if m.object == nil || m.Runner != m.runner {
		return
	}
	m.Runner, m.Waiting = "", m.waiting
	ctx, cancel := context.WithTimeout(ctx, renewEvery)
	defer cancel()
	_ = m.save(ctx, e.Control)
}
