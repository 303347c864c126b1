// Package apiserver freezes the manager while Machines or Nodes cannot be listed.
//
// Nodes cannot report to an API server that is down, and whoever may not list them does
// not see it: all machines would look unhealthy at once, and replacing them would destroy a healthy cluster. While the
// manager is frozen, no machine becomes Unknown or Failed and none is created;
// deletions continue.
//
//	          down > timeout                up
//	running ──────────────────▶ frozen ─────────▶ Unknown machines
//	   ▲                                          become Running
//	   └──────────────────────────────────────────────┘
package apiserver

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/target"
)

// Options are the times of the check; see --machine-safety-apiserver-statuscheck-*. 0 is as
// often, or as soon, as possible.
type Options struct {
	Period  time.Duration // between checks while all is well
	Timeout time.Duration // of silence until the manager freezes
}

// Deps are what a Controller needs; Events and Namespace may be empty.
type Deps struct {
	Client    client.Client   // control cluster, writes
	Live      client.Reader   // control cluster, reads from the API server
	Target    *target.Cluster // nil: there are no nodes, so nothing freezes
	Namespace string          // of the Machines; empty is all
	Clock     clock.PassiveClock
	Events    record.EventRecorder
	Options   Options
}

// Controller checks both API servers and knows whether the manager is frozen.
type Controller struct {
	Deps

	mu      sync.Mutex
	state   outageState
	failing failure // of the last check, as it began
	cause   string  // the text of the last failure
	thawed  time.Time
}

// New returns a Controller that is not frozen.
func New(d Deps) *Controller { return &Controller{Deps: d} }

// Frozen reports whether Machines or Nodes could not be listed for longer than the
// timeout. It does not block. The metric mcm_machine_controller_frozen shows it.
func (c *Controller) Frozen() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.frozen
}

// Cause returns what could not be listed at last, and the error; empty if no check has
// failed. The text stays the same while the cause does, for a condition. It does not block.
func (c *Controller) Cause() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cause
}

// ThawedAt returns when the manager was last frozen; zero if never. A node could not
// report before then, so health timeouts begin then at the earliest.
func (c *Controller) ThawedAt() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.thawed
}

// Reconcile checks both API servers and always requeues itself: without further checks
// the manager could stay frozen for ever.
func (c *Controller) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	at := c.Clock.Now()
	f := c.probe(ctx)
	before, state := c.advance(f != failure{}, at)
	log := ctrl.LoggerFrom(ctx)
	switch changed := c.note(f); {
	case changed && !state.downSince.IsZero():
		log.Info("The check of the API servers fails", "reason", f.text, "since", state.downSince)
	case changed:
		log.Info("The check of the API servers succeeds again")
	}
	if state.frozen && !before.frozen {
		log.Info("Frozen: the check of the API servers fails for too long; correct connection, credentials or permissions",
			"reason", c.Cause(), "since", state.downSince)
	}
	if !state.thaws() {
		return reconcile.Result{RequeueAfter: state.wait(c.Options)}, nil
	}
	if err := c.reset(ctx); err != nil {
		log.Info("Machines cannot be reset yet, staying frozen", "reason", err.Error())
		return reconcile.Result{RequeueAfter: state.wait(c.Options)}, nil
	}
	c.thaw()
	log.Info("Unfrozen: Machines and Nodes can be listed again")
	return reconcile.Result{RequeueAfter: outageState{}.wait(c.Options)}, nil
}

// advance updates the state with the result of a check.
func (c *Controller) advance(down bool, at time.Time) (before, after outageState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before = c.state
	c.state = c.state.next(down, at, c.Options.Timeout)
	return before, c.state
}

// note records the failure of a check, and reports whether it is another one than that of
// the check before, or the first one after a success, or the other way round.
func (c *Controller) note(f failure) (changed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.kind == c.failing.kind {
		return false
	}
	if c.failing = f; f.text != "" {
		c.cause = f.text
	}
	return true
}

func (c *Controller) thaw() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.frozen = false
	c.thawed = c.Clock.Now()
}

// SetupWithManager starts the check with mgr. Without target cluster there is
// nothing to start.
func (c *Controller) SetupWithManager(mgr ctrl.Manager) error {
	if c.Target == nil {
		return nil
	}
	first := source.Func(func(_ context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		q.Add(reconcile.Request{NamespacedName: client.ObjectKey{Name: "apiservers"}})
		return nil
	})
	return ctrl.NewControllerManagedBy(mgr).Named("machinesafetyapiserver").
		WithOptions(controller.Options{MaxConcurrentReconciles: 1, SkipNameValidation: new(true)}).
		WatchesRawSource(first).
		Complete(c)
}
