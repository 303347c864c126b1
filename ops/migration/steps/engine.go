// Package steps moves pools: it pauses the old side, writes the new one, starts it and
// clears the old one, under a Lease and with a record of how far it is.
package steps

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capmcm/cluster-api-provider-mcm/ops/migration"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/plan"
)

// How long the engine waits.
const (
	lookAgain      = time.Second      // between two looks at what controllers have done
	defaultTimeout = 10 * time.Minute // for one thing to happen
)

// Deps are what an Engine needs; all are required but Emit and Progress.
type Deps struct {
	// Control is the cluster with the objects of both APIs. It reads from the API server.
	Control client.Client
	// Target is the cluster with the nodes, read from its API server.
	Target client.Client
	Clock  clock.PassiveClock
	// Wait waits for so long, or until the context ends, whose error it returns.
	Wait func(context.Context, time.Duration) error
	// Name returns a new name that no other object has, e.g. a UUID.
	Name func() string
	// Identity names who runs the command, e.g. the host, in the Lease of a pool.
	Identity string
	// Emit writes an Event for each step, on the heads of the pool; nil writes none.
	Emit func(about client.Object, reason, message string)
	// Progress is called with what is done and what is waited for. Nil is allowed.
	Progress func(Progress)
}

// Progress is what an Engine does at a time.
type Progress struct {
	Pool    migration.Pool  `json:"pool"`
	To      migration.API   `json:"to"`
	Phase   migration.Phase `json:"phase"`
	Waiting string          `json:"waiting,omitempty"` // for what; empty: the phase has just begun
}

// Engine moves pools between APIs. It keeps nothing between calls; its methods
// may be called for different pools at once.
type Engine struct{ Deps }

// New returns an Engine.
func New(d Deps) *Engine { return &Engine{Deps: d} }

// Apply moves a pool to the API that o names, going on where an earlier move was
// left, or turning one around. It blocks until the pool is there ([PhaseMoved]),
// and does nothing if it is already. A plan with findings that block it, or with
// losses that the options do not accept, is refused before anything is written. The
// error names what it waited for; calling it again goes on.
func (e *Engine) Apply(ctx context.Context, p migration.Pool, o migration.Options) error {
	s, err := e.open(ctx, p, o)
	if err != nil {
		return err
	}
	m, err := e.begin(ctx, s, p, o)
	if err != nil {
		return err
	}
	return e.run(ctx, m, migration.PhaseMoved)
}

// Rollback brings a pool back to where its move began, from any phase but
// [PhaseFinished], and removes the copies on the other API. It needs no plan: the
// machines are brought home as they are.
func (e *Engine) Rollback(ctx context.Context, p migration.Pool, o migration.Options) error {
	s, err := e.open(ctx, p, o)
	if err != nil {
		return err
	}
	switch {
	case s.object == nil:
		return fmt.Errorf("%s was never moved: there is nothing to roll back", p)
	case s.Phase == migration.PhaseFinished && s.To != s.Origin:
		return fmt.Errorf("the move of %s is finished: move it back with apply --to %s", p, s.Origin)
	case s.Phase == migration.PhaseFinished:
		return nil
	}
	o.Cluster = "" // that of the move counts
	o.To, o.Rollback = s.Origin, true
	m, err := e.begin(ctx, s, p, o)
	if err != nil {
		return err
	}
	return e.run(ctx, m, migration.PhaseFinished)
}

// Finish removes what a move has left on the old API, keeping a backup of it in
// the record. From then on only another move leads back. A pool that has not been
// moved to its end is refused.
func (e *Engine) Finish(ctx context.Context, p migration.Pool, o migration.Options) error {
	s, err := e.open(ctx, p, o)
	if err != nil {
		return err
	}
	switch {
	case s.object == nil:
		return fmt.Errorf("%s was never moved: there is nothing to finish", p)
	case s.Phase == migration.PhaseFinished:
		return nil
	case s.Phase != migration.PhaseMoved && s.Phase != migration.PhaseFinishing:
		return fmt.Errorf("%s is not moved yet, it is %s: apply goes on, rollback goes back", p, s.Phase)
	}
	m, err := e.resume(ctx, s, o)
	if err != nil {
		return err
	}
	return e.run(ctx, m, migration.PhaseFinished)
}

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
	for _, d := range []migration.API{migration.Native, migration.ClusterAPI} {
		if head := s.Head(d); e.Emit != nil && head != nil {
			e.Emit(head, "Migration"+string(m.Phase), fmt.Sprintf("Migration to %s: %s", m.To.Title(), m.Phase))
		}
	}
}
