package machineset

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/class"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/fallback"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/fresh"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/hold"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/outcome"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/patch"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/target"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/watch"
	"github.com/capmcm/cluster-api-provider-mcm/internal/fence"
)

// burstReplicas is how many Machines one reconcile creates, deletes or patches at most.
const burstReplicas = 100

// Deps are what a Controller needs; all are required but Target, Fallback and Resolve.
type Deps struct {
	Client client.Client   // reads from a cache with the indexes of package index
	Live   client.Reader   // reads from the API server, before machines are created or chosen for deletion
	Target *target.Cluster // nil: there are no nodes
	Clock  clock.PassiveClock
	Fence  *fence.Fence // knows for how long a former leader's requests may take effect
	Events record.EventRecorder
	// SafetyEvents records that a set was frozen or unfrozen: in MCM these Events
	// have another source component than those about machines.
	SafetyEvents record.EventRecorder
	// SafetyUp is how many machines above the wanted number freeze a set.
	SafetyUp int32
	// SafetyDown is how many machines below that limit unfreeze it.
	SafetyDown int32
	// OvershootPeriod is how often a set with too many machines is checked when
	// nothing happens, and for how long unfreezing by annotation lasts.
	OvershootPeriod time.Duration
	// Fallback is what is known of exhausted classes; nil: nothing.
	Fallback *fallback.Memory
	// Resolve reads and checks the classes among which new Machines choose; nil: they are only read.
	Resolve class.Resolve
}

// Controller keeps the Machines of each MachineSet as its spec asks.
type Controller struct {
	Deps
	gate   *hold.Gate
	batch  *watch.Batch            // of reconciles that Machines ask for; nil without a manager
	pruned patch.Dropped[struct{}] // about status.progress

	mu       sync.Mutex
	memories map[client.ObjectKey]*memory
}

// New returns a Controller for SetupWithManager.
func New(d Deps) *Controller {
	d.Client = fresh.NewClient(fresh.ClientDeps{Client: d.Client, Live: d.Live, Clock: d.Clock}, &machinev1.MachineSet{})
	if d.Resolve == nil {
		d.Resolve = fallback.ReadOnlyClass
	}
	return &Controller{
		Deps: d, memories: map[client.ObjectKey]*memory{},
		gate: hold.New(hold.Deps{Client: d.Client, Clock: d.Clock, Events: d.Events}),
	}
}

// Reconcile brings the Machines of a MachineSet closer to its spec: it observes,
// runs the steps, and reports into the status. It may be repeated at any time.
// Nothing is done about a set that is held for a migration.
func (c *Controller) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	set := &machinev1.MachineSet{}
	if err := c.Client.Get(ctx, req.NamespacedName, set); err != nil {
		if client.IgnoreNotFound(err) == nil {
			c.forget(req.NamespacedName)
			c.batch.Expect(req, 0)
			return reconcile.Result{}, nil
		}
		return outcome.Of(0, fmt.Errorf("read MachineSet: %w", err))
	}
	if closed, err := c.gate.Answer(ctx, set); closed || err != nil {
		return outcome.Of(0, err)
	}
	s, err := c.observe(ctx, set)
	if err != nil {
		return outcome.Of(0, err)
	}
	c.batch.Expect(req, s.unsettled())
	acted := c.act(ctx, s)
	reported := c.report(ctx, s, acted)
	return outcome.Of(s.requeue, errors.Join(acted, reported))
}

// act runs the steps. A failure to sync or to preserve a single Machine does not
// prevent scaling. Every other failure ends the reconcile, because later steps
// rely on what failed.
func (c *Controller) act(ctx context.Context, s *scope) error {
	if c.waitForHold(s) {
		return nil
	}
	if !s.set.DeletionTimestamp.IsZero() {
		return c.deleteSet(ctx, s)
	}
	if !c.validateSpec(s) {
		return nil
	}
	if err := c.claimMachines(ctx, s); err != nil {
		return err
	}
	ofMachines := errors.Join(c.syncMachines(ctx, s), c.preserveFailed(ctx, s))
	if err := c.freezeOvershoot(ctx, s); err != nil {
		return errors.Join(err, ofMachines)
	}
	return errors.Join(c.scale(ctx, s), ofMachines)
}
