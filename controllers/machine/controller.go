package machine

import (
	"context"
	"fmt"
	"io"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/class"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/drain"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/fresh"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/hold"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/outcome"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/target"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/vm"
)

// Deps are what a Controller needs; all are required but Target, Frozen,
// ThawedAt, Durations and Visits.
type Deps struct {
	Client  client.Client   // control cluster, reads from a cache
	Live    client.Reader   // control cluster, reads from the API server
	Target  *target.Cluster // nil: there are no nodes
	Clouds  *cloud.Registry
	Clock   clock.PassiveClock
	Events  record.EventRecorder
	Options Options
	// Frozen reports whether an API server was unreachable for too long; nil is never.
	Frozen func() bool
	// ThawedAt says when an API server was reachable again after that; zero and nil
	// are never. Health timeouts do not begin before it.
	ThawedAt func() time.Time
	// Rand makes bootstrap tokens.
	Rand io.Reader
	// Durations are told how long machines took; nil tells nobody.
	Durations Durations
	// Visits are the passes of the node controller, which a hold waits for; nil is
	// that there are none.
	Visits *hold.Visits
}

// Controller keeps the VM and node of each Machine as its spec asks.
type Controller struct {
	Deps
	classes *class.Resolver
	engine  *vm.Engine
	drainer *drain.Drainer
	permits *permits
	losses  *losses
	shelter *shelter
	gate    *hold.Gate
	marks   fresh.Marks
	dropped fresh.Dropped[addition]
}

// New returns a Controller that has seen nothing yet.
func New(d Deps) *Controller {
	c := &Controller{
		Deps:    d,
		classes: class.New(d.Clouds),
		engine:  vm.New(d.Clock),
		permits: newPermits(d.Client, d.Clock),
		shelter: newShelter(),
		gate:    hold.New(hold.Deps{Client: d.Client, Live: d.Live, Clock: d.Clock, Events: d.Events}),
	}
	c.losses = newLosses(c)
	if d.Target != nil {
		c.drainer = drain.New(drain.Deps{Target: d.Target, Clock: d.Clock, Confirm: true})
	}
	return c
}

// Reconcile brings a Machine one observation closer to its spec:
//
//  1. observe the Machine and its node;
//  2. run the joining steps, or the leaving steps if it is being deleted;
//  3. report what was seen into its status, and write that if it changed.
//
// A Machine that is held is left alone, whatever else is true of it.
func (c *Controller) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	m := &machinev1.Machine{}
	if err := c.Client.Get(ctx, req.NamespacedName, m); err != nil {
		if apierrors.IsNotFound(err) {
			c.marks.Absent(req.NamespacedName)
			c.leaveShelter(req.NamespacedName)
			c.gate.Forget(m, req.NamespacedName)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if c.marks.HasEnded(m) {
		return reconcile.Result{}, nil // its last event is on the way
	}
	if c.marks.Stale(m) {
		return reconcile.Result{RequeueAfter: staleRetry}, nil
	}
	if held, result, err := c.held(ctx, m); held || err != nil {
		return result, err
	}
	c.restore(m)
	c.engine.Saw(machinev1.OwnerID(m), m.Spec.ProviderID)
	f, err := c.observe(ctx, m)
	if err != nil {
		return outcome.Of(0, err)
	}
	if m.DeletionTimestamp.IsZero() {
		err = c.join(ctx, f)
	} else {
		err = c.leave(ctx, f)
	}
	if werr := c.write(ctx, f, err); werr != nil {
		return outcome.Of(0, werr)
	}
	c.announce(f)
	c.measure(ctx, f)
	if err == nil {
		c.tellOutage(ctx, f)
	}
	if f.released {
		c.engine.Forget(machinev1.OwnerID(f.machine))
		c.marks.Ended(f.machine)
		c.dropped.Forget(f.machine.UID)
		c.losses.forget(f.machine.UID)
	}
	return outcome.Of(f.wait, err)
}

// join gives a Machine its VM and its node.
func (c *Controller) join(ctx context.Context, f *facts) error {
	if c.Frozen != nil && c.Frozen() {
		f.frozen = true
		sooner(f, frozenRetry)
		return nil
	}
	if len(f.problems) > 0 && f.machine.Spec.ProviderID == "" {
		return nil
	}
	for _, step := range []func(context.Context, *facts) error{
		c.claim, c.launch, c.reform, c.judge, c.updateInPlace, c.keep,
	} {
		if err := step(ctx, f); err != nil {
			return err
		}
	}
	return nil
}

// claim puts finalizer and owner id onto a Machine before anything is made for
// it. Machines of a MachineSet are born with both.
func (c *Controller) claim(ctx context.Context, f *facts) error {
	return c.patchMachine(ctx, f, func(m *machinev1.Machine) {
		if begunByMCM(m) {
			setAnnotation(m, machinev1.CreateAttemptAnnotation, attemptOfMCM)
		}
		addFinalizer(m, machinev1.Finalizer)
		defaultAnnotation(m, machinev1.OwnerIDAnnotation, string(m.UID))
		defaultAnnotation(m, machinev1.PriorityAnnotation, machinev1.DefaultPriority)
	})
}

// write persists the status that follows from f, if it differs.
func (c *Controller) write(ctx context.Context, f *facts, failure error) error {
	if f.released {
		return nil
	}
	status := report(f, failure)
	if equality.Semantic.DeepEqual(status, f.machine.Status) {
		return nil
	}
	if c.onlyAdds(f.machine, status) {
		f.machine.Status = status
		return nil
	}
	base := f.machine.DeepCopy()
	f.machine.Status = status
	if err := c.Client.Status().Patch(ctx, f.machine, client.MergeFrom(base)); err != nil {
		return client.IgnoreNotFound(fmt.Errorf("write status: %w", err))
	}
	c.stored(f.machine, status)
	c.marks.Wrote(f.machine)
	return nil
}

// patchMachine applies change to the Machine's metadata and spec, and writes
// what differs, if anything does. It fails on a stale object.
func (c *Controller) patchMachine(ctx context.Context, f *facts, change func(*machinev1.Machine)) error {
	changed := f.machine.DeepCopy()
	change(changed)
	if equality.Semantic.DeepEqual(f.machine.ObjectMeta, changed.ObjectMeta) &&
		equality.Semantic.DeepEqual(f.machine.Spec, changed.Spec) {
		return nil
	}
	patch := client.MergeFromWithOptions(f.machine, client.MergeFromWithOptimisticLock{})
	if err := c.Client.Patch(ctx, changed, patch); err != nil {
		return err
	}
	c.marks.Wrote(changed)
	f.machine = changed
	return nil
}
