package steps

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/capmcm/cluster-api-provider-mcm/ops/migration"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/plan"
)

// open reads the record of a pool once no other command works on it.
func (e *Engine) open(ctx context.Context, p migration.Pool, o migration.Options) (*stored, error) {
	lease, err := e.awaitLease(ctx, p, o)
	if err != nil {
		return nil, err
	}
	s, err := load(ctx, e.Control, p)
	if err != nil {
		return nil, err
	}
	s.lease = lease
	return s, nil
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
	if err := e.turn(ctx, m, o); err != nil {
		e.release(ctx, m)
		return nil, err
	}
	return m, nil
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
// of its name was recreated on the other API since.
func (e *Engine) over(ctx context.Context, s *stored, o migration.Options) (bool, error) {
	if s.object == nil || s.Phase != migration.PhaseFinished || s.To != o.To {
		return s.object == nil || s.Phase == migration.PhaseFinished, nil
	}
	state, err := migration.ReadPool(ctx, e.Control, e.Target, s.Pool, s.Cluster)
	if err != nil {
		return false, err
	}
	return !state.On(o.To), nil
}

// newMove starts a move that nothing has been done for yet.
func (e *Engine) newMove(ctx context.Context, s *stored, p migration.Pool, o migration.Options) (*move, error) {
	s.Record = migration.Record{
		Pool: p, To: o.To, Origin: o.To.Other(), Phase: migration.PhaseHolding, Cluster: o.Cluster,
		KubeconfigSecret: o.KubeconfigSecret,
		Accept:           o.Accept, Defaults: o.Defaults, Hold: e.Name(),
	}
	state, err := e.check(ctx, &s.Record, o)
	if err != nil {
		return nil, err
	}
	s.NoHealthCheck = o.To == migration.Native && state.ClusterAPI.HealthCheck == nil
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
	var text strings.Builder
	text.WriteString(e.Pool.String() + " is not moved:")
	for _, f := range e.Findings {
		text.WriteString("\n  " + f.String())
		if f.Level == migration.Lost {
			text.WriteString("; --accept=" + f.Field + " accepts it")
		}
	}
	return text.String()
}

// resume takes the pool for this call, unless another command has since it was opened.
// The record is written each time: no later write of the command before can succeed.
func (e *Engine) resume(ctx context.Context, s *stored, o migration.Options) (*move, error) {
	m := &move{stored: s, timeout: o.Timeout}
	if m.timeout <= 0 {
		m.timeout = defaultTimeout
	}
	m.Holder = cmp.Or(e.Identity, "migration") + "_" + e.Name()
	if err := e.acquire(ctx, m); err != nil {
		return nil, err
	}
	if err := e.save(ctx, m); err != nil {
		e.release(ctx, m)
		return nil, err
	}
	return m, nil
}

// leave ends the command's work on the pool.
func (e *Engine) leave(ctx context.Context, m *move) {
	if m.lease == nil {
		return // taken over
	}
	ctx, cancel := context.WithTimeout(ctx, renewInterval)
	defer cancel()
	if m.Waiting != m.waiting {
		m.Waiting = m.waiting
		_ = m.save(ctx, e.Control)
	}
	e.release(ctx, m)
}
