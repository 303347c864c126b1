package migration

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// open reads the record of a pool, nil if it was never moved, once no other command
// works on it. One that was killed says nothing from then on; one that is there is not
// waited for.
func (e *Engine) open(ctx context.Context, p Pool, o Options) (*stored, error) {
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

// begin finds the move of a pool to the door that o names, or starts one.
func (e *Engine) begin(ctx context.Context, s *stored, p Pool, o Options) (*move, error) {
	if over, err := e.over(ctx, s, o); over || err != nil {
		if err != nil {
			return nil, err
		}
		return e.create(ctx, s, p, o)
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
	if s.Phase == PhaseFinished || name == "" || s.Cluster == "" || name == s.Cluster {
		return nil
	}
	return fmt.Errorf("the move of %s has begun with Cluster %s, not %s: leave --cluster out to go on, or roll back first",
		s.Pool, s.Cluster, name)
}

// over reports whether a pool has no move that could be gone on with: it was never
// moved, it is to go elsewhere than its last move went, or that is history, and a pool
// of its name was made anew on the other door since.
func (e *Engine) over(ctx context.Context, s *stored, o Options) (bool, error) {
	if s == nil || s.Phase != PhaseFinished || s.To != o.To {
		return s == nil || s.Phase == PhaseFinished, nil
	}
	scene, err := ReadScene(ctx, e.Control, e.Target, s.Pool, s.Cluster)
	if err != nil {
		return false, err
	}
	return !scene.on(o.To), nil
}

// create starts a move that nothing has been done for yet.
func (e *Engine) create(ctx context.Context, s *stored, p Pool, o Options) (*move, error) {
	if s == nil {
		s = &stored{}
	}
	s.Record = Record{
		Pool: p, To: o.To, Home: o.To.Other(), Phase: PhaseHolding, Cluster: o.Cluster, KubeconfigSecret: o.KubeconfigSecret,
		Accept: o.Accept, Defaults: o.Defaults, Hold: e.Name(),
	}
	scene, err := e.check(ctx, &s.Record, o)
	if err != nil {
		return nil, err
	}
	s.Unchecked = o.To == DoorNative && scene.ClusterAPI.HealthCheck == nil
	s.Started, s.Changed = e.Clock.Now().UTC(), e.Clock.Now().UTC()
	return e.resume(ctx, s, o)
}

// turn makes a move go back. Before the new side was the truth, that takes one
// write: the old side is started again, and the copies of the new one go. After
// it, it is a move in the other direction.
func (e *Engine) turn(ctx context.Context, m *move, o Options) error {
	if m.Truth() == o.To {
		// It has never ceased to be the truth, so there is nothing to catch up with.
		m.To, m.Phase, m.Generation = o.To, PhaseSwitching, 0
	} else {
		if !o.rollback {
			turned := m.Record
			turned.To, turned.Phase = o.To, PhaseHolding
			if _, err := e.check(ctx, &turned, o); err != nil {
				return err
			}
		}
		if m.reached(PhaseMoved) {
			m.Bounds = nil // the side that works has them
		}
		m.To, m.Phase, m.Hold = o.To, PhaseHolding, e.Name()
	}
	m.Changed = e.Clock.Now().UTC()
	return e.keep(ctx, m)
}

// check refuses a move whose plan is blocked.
func (e *Engine) check(ctx context.Context, r *Record, o Options) (*Scene, error) {
	s, err := e.readFor(ctx, r)
	if err != nil {
		return nil, err
	}
	o.Now = e.Clock.Now()
	if blocked := s.Plan(o).Blocked(); len(blocked) > 0 {
		return nil, &RefusedError{Pool: r.Pool, Findings: blocked}
	}
	return s, nil
}

// RefusedError says why a move is not begun. Nothing was written.
type RefusedError struct {
	Pool     Pool
	Findings []Finding
}

// Error has a line for each finding.
func (e *RefusedError) Error() string {
	text := e.Pool.String() + " is not moved:"
	for _, f := range e.Findings {
		text += "\n  " + f.String()
		if f.Level == Lost {
			text += "; --accept=" + f.Field + " accepts it"
		}
	}
	return text
}

// resume takes the pool for this call, unless somebody else has since it was opened.
func (e *Engine) resume(ctx context.Context, s *stored, o Options) (*move, error) {
	m := &move{stored: s, runner: e.Name(), timeout: o.Timeout}
	if m.timeout <= 0 {
		m.timeout = defaultTimeout
	}
	s.Runner, s.Renewed = m.runner, e.Clock.Now().UTC()
	return m, e.keep(ctx, m)
}

// renew says that this call is still at it, with what it waits for, and fails if
// somebody else has taken over.
func (e *Engine) renew(ctx context.Context, m *move) error {
	now := e.Clock.Now().UTC()
	if now.Sub(m.Renewed) < renewEvery {
		return nil
	}
	m.Renewed, m.Waiting = now, m.waiting
	return e.keep(ctx, m)
}

// keep writes the record, and fails for good if somebody else did since.
func (e *Engine) keep(ctx context.Context, m *move) error {
	switch err := m.save(ctx, e.Control); {
	case apierrors.IsConflict(err):
		return fmt.Errorf("another command has taken over the move of %s, or its record was edited", m.Pool)
	case apierrors.IsNotFound(err):
		return fmt.Errorf("the record of %s, ConfigMap %s, is gone: restore it, nothing is done without it", m.Pool,
			recordName(m.Pool))
	default:
		return err
	}
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

// read reads the pool as it is now.
func (e *Engine) read(ctx context.Context, m *move) (*Scene, error) { return e.readFor(ctx, &m.Record) }

func (e *Engine) readFor(ctx context.Context, r *Record) (*Scene, error) {
	s, err := ReadScene(ctx, e.Control, e.Target, r.Pool, r.Cluster)
	if err != nil {
		return nil, err
	}
	r.Cluster, s.Record = s.Cluster.Name, r
	return s, nil
}

// announce tells of a phase on the heads of both doors.
func (e *Engine) announce(m *move, s *Scene) {
	if e.Events == nil {
		return
	}
	for _, d := range []Door{DoorNative, DoorClusterAPI} {
		for _, tier := range s.tiers(d) {
			if len(tier) > 0 {
				e.Events.Eventf(tier[0], corev1.EventTypeNormal, "Migration"+string(m.Phase), "Migration to the %s door: %s", m.To,
					m.Phase)
				break
			}
		}
	}
}
