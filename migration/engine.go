package migration

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// How long the engine waits.
const (
	lookAgain      = time.Second      // between two looks at what controllers have done
	defaultTimeout = 10 * time.Minute // for one thing to happen
	renewEvery     = 5 * time.Second  // while a command works on a pool
	runnerExpiry   = 30 * time.Second // after which somebody else may go on
)

// Deps are what an Engine needs; all are required but Events and Progress.
type Deps struct {
	// Control is the cluster with the objects of both doors. It reads from the API server.
	Control client.Client
	// Target is the cluster with the nodes, read from its API server.
	Target client.Client
	Clock  clock.PassiveClock
	// Wait waits for so long, or until the context ends, whose error it returns.
	Wait func(context.Context, time.Duration) error
	// Name returns a new name that nobody else has, e.g. a UUID.
	Name func() string
	// Events are told of each step, on the head of the pool; nil tells nobody.
	Events record.EventRecorder
	// Progress is told what is done and waited for; nil is not.
	Progress func(Progress)
}

// Progress is what an Engine does at a time.
type Progress struct {
	Pool    Pool   `json:"pool"`
	To      Door   `json:"to"`
	Phase   Phase  `json:"phase"`
	Waiting string `json:"waiting,omitempty"` // for what; empty: the phase has just begun
}

// Engine moves pools between doors. It keeps nothing between calls; its methods
// may be called for different pools at once.
type Engine struct{ Deps }

// New returns an Engine.
func New(d Deps) *Engine { return &Engine{Deps: d} }

// Apply moves a pool to the door that o names, going on where an earlier move was
// left, or turning one around. It blocks until the pool is there ([PhaseMoved]),
// and does nothing if it is already. A plan with findings that block it, or that
// nobody has accepted, is refused before anything is written. The error says what
// it waited for; calling it again goes on.
func (e *Engine) Apply(ctx context.Context, p Pool, o Options) error {
	s, err := e.open(ctx, p, o)
	if err != nil {
		return err
	}
	m, err := e.begin(ctx, s, p, o)
	if err != nil {
		return err
	}
	return e.run(ctx, m, PhaseMoved)
}

// Rollback brings a pool back to where its move began, from any phase but
// [PhaseFinished], and removes the copies on the other door. It needs no plan: the
// machines are brought home as they are.
func (e *Engine) Rollback(ctx context.Context, p Pool, o Options) error {
	s, err := e.open(ctx, p, o)
	if err != nil {
		return err
	}
	switch {
	case s == nil:
		return fmt.Errorf("%s was never moved: there is nothing to roll back", p)
	case s.Phase == PhaseFinished && s.To != s.Home:
		return fmt.Errorf("the move of %s is finished: move it back with apply --to %s", p, s.Home)
	case s.Phase == PhaseFinished:
		return nil
	}
	o.Cluster = "" // that of the move counts
	o.To, o.rollback = s.Home, true
	m, err := e.begin(ctx, s, p, o)
	if err != nil {
		return err
	}
	return e.run(ctx, m, PhaseFinished)
}

// Finish removes what a move has left on the old door, keeping a backup of it in
// the record. From then on only another move leads back. A pool that has not been
// moved to its end is refused.
func (e *Engine) Finish(ctx context.Context, p Pool, o Options) error {
	s, err := e.open(ctx, p, o)
	if err != nil {
		return err
	}
	switch {
	case s == nil:
		return fmt.Errorf("%s was never moved: there is nothing to finish", p)
	case s.Phase == PhaseFinished:
		return nil
	case s.Phase != PhaseMoved && s.Phase != PhaseFinishing:
		return fmt.Errorf("%s is not moved yet, it is %s: apply goes on, rollback goes back", p, s.Phase)
	}
	m, err := e.resume(ctx, s, o)
	if err != nil {
		return err
	}
	return e.run(ctx, m, PhaseFinished)
}

// move is one pool's move as one call sees it.
type move struct {
	*stored
	runner  string
	timeout time.Duration
	waiting string    // for what, since when
	since   time.Time // zero: nothing
}

func (m *move) options() Options {
	return Options{
		To: m.To, Cluster: m.Cluster, KubeconfigSecret: m.KubeconfigSecret, Accept: m.Accept,
		Defaults: m.Defaults,
	}
}

// run takes steps until the record has that phase, or one that follows it.
func (e *Engine) run(ctx context.Context, m *move, goal Phase) error {
	defer e.leave(context.WithoutCancel(ctx), m)
	e = e.at(m)
	e.tell(m)
	for !m.reached(goal) {
		if err := e.renew(ctx, m); err != nil {
			return err
		}
		waiting, err := e.step(ctx, m)
		switch {
		case apierrors.IsConflict(err):
			waiting = "somebody else is writing: " + err.Error()
		case err != nil:
			return fmt.Errorf("%s, %s: %w", m.Pool, m.Phase, err)
		}
		if err := e.await(ctx, m, waiting); err != nil {
			return err
		}
	}
	return nil
}

// reached reports whether the phase is goal or a later one.
func (r *Record) reached(goal Phase) bool { return r.Phase.rank() >= goal.rank() }

func (p Phase) rank() int {
	for i, known := range []Phase{PhaseHolding, PhaseCopying, PhaseSwitching, PhaseMoved, PhaseFinishing, PhaseFinished} {
		if p == known {
			return i
		}
	}
	return -1
}

// step does what is missing in the current phase. It returns what that waits for;
// nothing means that something was done, or that the phase is over.
func (e *Engine) step(ctx context.Context, m *move) (waiting string, err error) {
	s, err := e.read(ctx, m)
	if err != nil {
		return "", err
	}
	switch m.Phase {
	case PhaseHolding:
		return e.holdOldSide(ctx, m, s)
	case PhaseCopying:
		return e.copyToNewSide(ctx, m, s)
	case PhaseSwitching:
		return e.startNewSide(ctx, m, s)
	case PhaseMoved, PhaseFinishing:
		return e.clearOldSide(ctx, m, s)
	case PhaseFinished:
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
	if m.since.IsZero() {
		m.since = now
	}
	if waiting != m.waiting {
		m.waiting = waiting
		e.tell(m)
	}
	if now.Sub(m.since) >= m.timeout {
		return &StalledError{Pool: m.Pool, Phase: m.Phase, Waiting: waiting, For: now.Sub(m.since)}
	}
	return e.Wait(ctx, lookAgain)
}

// StalledError says what a step waited for in vain. Nothing is lost: the same
// command goes on, rollback goes back.
type StalledError struct {
	Pool    Pool
	Phase   Phase
	Waiting string
	For     time.Duration
}

// Error names what is waited for.
func (e *StalledError) Error() string {
	return fmt.Sprintf("%s, %s: nothing has happened for %s: %s; run the command again to go on, or rollback to go back",
		e.Pool, e.Phase, e.For.Round(time.Second), e.Waiting)
}

func (e *Engine) tell(m *move) {
	if e.Progress != nil {
		e.Progress(Progress{Pool: m.Pool, To: m.To, Phase: m.Phase, Waiting: m.waiting})
	}
}

// enter writes the next phase. That write decides which door is the truth.
func (e *Engine) enter(ctx context.Context, m *move, s *Scene, p Phase) error {
	m.Phase, m.Changed, m.Waiting, m.Renewed = p, e.Clock.Now().UTC(), "", e.Clock.Now().UTC()
	if err := e.keep(ctx, m); err != nil {
		return err
	}
	m.waiting, m.since = "", time.Time{}
	e.tell(m)
	e.announce(m, s)
	return nil
}
