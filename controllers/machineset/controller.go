// Package machineset keeps the number of Machines that a MachineSet asks for.
//
// It never makes one too many: Machines have names that follow from the
// MachineSet and an ordinal, ordinals are reserved in the MachineSet before they
// are used, and what a pass did is remembered until the caches show it.
package machineset

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/fresh"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/hold"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/outcome"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/target"
)

// burstReplicas is how many Machines one pass creates, deletes or changes at most.
const burstReplicas = 100

// staleCacheRetry is how long a pass is put off when the cache is behind what this
// process wrote. The cache's own event usually comes first.
const staleCacheRetry = 200 * time.Millisecond

// Deps are what a Controller needs; all are required but Target.
type Deps struct {
	Client client.Client   // reads from a cache with the indexes of package index
	Live   client.Reader   // reads from the API server; before machines are made or chosen for deletion
	Target *target.Cluster // nil: there are no nodes
	Clock  clock.PassiveClock
	Events record.EventRecorder
	// SafetyEvents tells of sets that are frozen and unfrozen; in MCM that is not
	// the component that tells of machines.
	SafetyEvents record.EventRecorder
	// SafetyUp is how many machines more than wanted freeze a set.
	SafetyUp int32
	// SafetyDown is how many fewer than that unfreeze it.
	SafetyDown int32
	// OvershootPeriod is how often a set with too many machines is looked at
	// when nothing happens, and for how long unfreezing by hand holds.
	OvershootPeriod time.Duration
}

// Controller keeps the Machines of each MachineSet as its spec asks.
type Controller struct {
	Deps
	gate  *hold.Gate
	marks fresh.Marks
	// progressPruned says that the API server drops status.progress.
	progressPruned atomic.Bool

	mu       sync.Mutex
	memories map[client.ObjectKey]*memory
}

// New returns a Controller that has seen nothing yet.
func New(d Deps) *Controller {
	return &Controller{
		Deps: d, memories: map[client.ObjectKey]*memory{},
		gate: hold.New(hold.Deps{Client: d.Client, Live: d.Live, Clock: d.Clock, Events: d.Events}),
	}
}

// Reconcile brings the Machines of a MachineSet closer to its spec:
//
//  1. observe the MachineSet, its MachineDeployment and its Machines;
//  2. run the steps;
//  3. report what was seen and done into its status, and write that if it changed.
//
// A set that is held is left alone, and one with a Machine that is held waits.
func (c *Controller) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	set := &machinev1.MachineSet{}
	if err := c.Client.Get(ctx, req.NamespacedName, set); err != nil {
		if client.IgnoreNotFound(err) == nil {
			c.forget(req.NamespacedName)
			c.gate.Forget(set, req.NamespacedName)
			return reconcile.Result{}, nil
		}
		return outcome.Of(0, fmt.Errorf("read MachineSet: %w", err))
	}
	if c.marks.HasEnded(set) {
		return reconcile.Result{}, nil
	}
	if c.marks.Stale(set) {
		return reconcile.Result{RequeueAfter: staleCacheRetry}, nil
	}
	if closed, err := c.gate.Answer(ctx, set, c.marks.Wrote); closed || err != nil {
		return outcome.Of(0, err)
	}
	s, err := c.observe(ctx, set)
	if err != nil {
		return outcome.Of(0, err)
	}
	acted := c.act(ctx, s)
	reported := c.report(ctx, s, acted)
	return outcome.Of(s.requeue, errors.Join(acted, reported))
}

// act runs the steps. What goes wrong with a single Machine in syncing or
// preserving does not keep the set from being scaled; everything else ends the
// pass, because what follows relies on it.
func (c *Controller) act(ctx context.Context, s *scope) error {
	if c.waitForHold(s) {
		return nil
	}
	if !s.set.DeletionTimestamp.IsZero() {
		return c.deleteSet(ctx, s)
	}
	c.validateSpec(s)
	if s.invalid() {
		return nil
	}
	for _, step := range []step{c.addFinalizer, c.claimMachines} {
		if err := step(ctx, s); err != nil {
			return err
		}
	}
	aside := errors.Join(c.syncMachines(ctx, s), c.preserveFailed(ctx, s))
	if err := c.freezeOvershoot(ctx, s); err != nil {
		return errors.Join(err, aside)
	}
	return errors.Join(c.scale(ctx, s), aside)
}

// A step does one thing and notes in the pass what it has done.
type step func(context.Context, *scope) error
