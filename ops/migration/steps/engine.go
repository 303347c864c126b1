// Package steps moves pools: it pauses the old side, writes the new one, starts it and
// clears the old one, under a Lease and with a record of how far it is.
package steps

import (
	"context"
	"fmt"
	"time"

	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capmcm/cluster-api-provider-mcm/ops/migration"
)

// How long the engine waits.
const (
	lookAgain      = time.Second      // between two looks at what controllers have done
	defaultTimeout = 10 * time.Minute // for one thing to happen
)

// Deps are what an Engine needs; all are required but Events and Progress.
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
	// Events records an Event for each step, on the head of the pool; nil records none.
	Events record.EventRecorder
	// Progress is told what is done and waited for; nil is not.
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
