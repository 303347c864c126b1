package steps

import (
	"cmp"
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/capmcm/cluster-api-provider-mcm/ops/migration"
)

// move is one pool's move as one call sees it.
type move struct {
	*stored
	timeout time.Duration
	waiting string    // for what, since when
	since   time.Time // zero: nothing
}

func (m *move) options() migration.Options {
	return migration.Options{
		To: m.To, Cluster: m.Cluster, KubeconfigSecret: m.KubeconfigSecret, Accept: m.Accept,
		Defaults: m.Defaults,
	}
}

// run takes steps until the record has that phase, or one that follows it.
func (e *Engine) run(ctx context.Context, m *move, goal migration.Phase) error {
	defer e.leave(context.WithoutCancel(ctx), m)
	e = e.at(m)
	e.report(m)
	for !m.Reached(goal) {
		if err := e.renew(ctx, m); err != nil {
			return err
		}
		if err := e.saveWaiting(ctx, m); err != nil {
			return err
		}
		waiting, err := e.step(ctx, m)
		switch {
		case apierrors.IsConflict(err):
			waiting = cmp.Or(m.waiting, "somebody else is writing: "+err.Error())
		case err != nil:
			return fmt.Errorf("%s, %s: %w", m.Pool, m.Phase, err)
		}
		if err := e.await(ctx, m, waiting); err != nil {
			return err
		}
	}
	return nil
}

// step does what is missing in the current phase. It returns what that waits for;
// nothing means that something was done, or that the phase is over.
func (e *Engine) step(ctx context.Context, m *move) (waiting string, err error) {
	s, err := e.read(ctx, m)
	if err != nil {
		return "", err
	}
	switch m.Phase {
	case migration.PhaseHolding:
		return e.holdOldSide(ctx, m, s)
	case migration.PhaseCopying:
		return e.copyToNewSide(ctx, m, s)
	case migration.PhaseSwitching:
		return e.startNewSide(ctx, m, s)
	case migration.PhaseMoved, migration.PhaseFinishing:
		return e.clearOldSide(ctx, m, s)
	case migration.PhaseFinished:
		return "", nil
	}
	return "", fmt.Errorf("its record has phase %q, which this version does not know: use the version that wrote it",
		m.Phase)
}

// await waits a while if there is something to wait for, but not for ever.
func (e *Engine) await(ctx context.Context, m *move, waiting string) error {
	if waiting == "" {
		m.waiting, m.since = "", time.Time{}
		return ctx.Err()
	}
	now := e.Clock.Now()
	if waiting != m.waiting {
		m.waiting, m.since = waiting, now
		e.report(m)
	}
	if now.Sub(m.since) >= m.timeout {
		return &stalledError{pool: m.Pool, phase: m.Phase, waiting: waiting, after: now.Sub(m.since)}
	}
	return e.Wait(ctx, lookAgain)
}

// stalledError says what a step waited for in vain. Nothing is lost: the same
// command goes on, rollback goes back.
type stalledError struct {
	pool    migration.Pool
	phase   migration.Phase
	waiting string
	after   time.Duration
}

// Error names what is waited for.
func (e *stalledError) Error() string {
	return fmt.Sprintf("%s, %s: nothing has happened for %s: %s; run the command again to go on, or rollback to go back",
		e.pool, e.phase, e.after.Round(time.Second), e.waiting)
}

func (e *Engine) report(m *move) {
	if e.Progress != nil {
		e.Progress(Progress{Pool: m.Pool, To: m.To, Phase: m.Phase, Waiting: m.waiting})
	}
}

// enter writes the next phase. That write decides which API is authoritative.
func (e *Engine) enter(ctx context.Context, m *move, s *migration.PoolState, p migration.Phase) error {
	m.Phase, m.Changed, m.Waiting = p, e.Clock.Now().UTC(), ""
	if err := e.save(ctx, m); err != nil {
		return err
	}
	m.waiting, m.since = "", time.Time{}
	e.report(m)
	e.emitEvent(m, s)
	return nil
}

// saveWaiting writes what the step waits for into the record once it has waited a while,
// and that it waits no longer.
func (e *Engine) saveWaiting(ctx context.Context, m *move) error {
	if m.Waiting == m.waiting || m.waiting != "" && e.Clock.Now().Sub(m.since) < renewInterval {
		return nil
	}
	m.Waiting = m.waiting
	return e.save(ctx, m)
}

// save writes the record, and fails for good if somebody else did since.
func (e *Engine) save(ctx context.Context, m *move) error {
	switch err := m.save(ctx, e.Control); {
	case apierrors.IsConflict(err):
		return fmt.Errorf("another command has taken over the move of %s, or its record was edited", m.Pool)
	case apierrors.IsNotFound(err):
		return fmt.Errorf("the record of %s, ConfigMap %s, is gone: restore it, nothing is done without it", m.Pool,
			migration.RecordName(m.Pool))
	default:
		return err
	}
}

// read reads the pool as it is now.
func (e *Engine) read(ctx context.Context, m *move) (*migration.PoolState, error) {
	return e.readFor(ctx, &m.Record)
}

func (e *Engine) readFor(ctx context.Context, r *migration.Record) (*migration.PoolState, error) {
	s, err := migration.ReadPool(ctx, e.Control, e.Target, r.Pool, r.Cluster)
	if err != nil {
		return nil, err
	}
	r.Cluster, s.Record = s.Cluster.Name, r
	return s, nil
}

// emitEvent tells of a phase on the heads of both APIs.
func (e *Engine) emitEvent(m *move, s *migration.PoolState) {
	if e.Events == nil {
		return
	}
	for _, d := range []migration.API{migration.Native, migration.ClusterAPI} {
		for _, tier := range s.Tiers(d) {
			if len(tier) > 0 {
				e.Events.Eventf(tier[0], corev1.EventTypeNormal, "Migration"+string(m.Phase), "Migration to %s: %s", m.To.Title(),
					m.Phase)
				break
			}
		}
	}
}
