package machine

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/class"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/drain"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/evidence"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/fallback"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/fresh"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/hold"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/outcome"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/patch"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/target"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/vm"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/safety/brake"
	"github.com/capmcm/cluster-api-provider-mcm/internal/fence"
)

// Deps are what a Controller needs; all are required but Target, Frozen, FreezeCause,
// ThawedAt, Durations, Visits and Evidence.
type Deps struct {
	// Namespace is where there are objects that may have an owner id, empty is all namespaces.
	Namespace string

	Client  client.Client   // control cluster, reads from a cache
	Live    client.Reader   // control cluster, reads from the API server
	Target  *target.Cluster // nil: there are no nodes
	Clouds  *cloud.Registry
	Clock   clock.PassiveClock
	Fence   *fence.Fence // knows for how long a former leader's requests may take effect
	Events  record.EventRecorder
	Options Options
	// Frozen reports whether Machines or Nodes could not be listed for too long; nil is
	// never.
	Frozen func() bool
	// FreezeCause returns what could not be listed, and the error; needed with Frozen.
	FreezeCause func() string
	// ThawedAt is when an API server was reachable again after that; zero and nil
	// are never. Health timeouts do not begin before it.
	ThawedAt func() time.Time
	// Rand makes bootstrap tokens.
	Rand io.Reader
	// Durations record how long machines took; nil records nothing.
	Durations Durations
	// Visits are the passes of the node controller, which a hold waits for; nil is
	// that there are none.
	Visits *hold.Visits
	// Brake is shared with the node controller; nil: the Controller has its own.
	Brake *brake.Brake
	// Fallback is what is known of exhausted classes, shared with the controllers that choose
	// classes for new Machines and report capacity; nil: the Controller has its own.
	Fallback *fallback.Memory
	// Evidence keeps the consoles of Machines that did not join; nil reads none.
	Evidence *evidence.Keeper
}

// Controller keeps the VM and node of each Machine as its spec asks.
type Controller struct {
	Deps
	classes *class.Resolver
	engine  *vm.Engine
	drainer *drain.Drainer
	gate    *hold.Gate
	pruned  patch.Dropped[prunedFields]
}

// Collectors are the metrics that the controller has of its own.
func (c *Controller) Collectors() []prometheus.Collector {
	return []prometheus.Collector{c.Brake.KeptMachines()}
}

// New returns a Controller that has seen nothing yet.
func New(d Deps) *Controller {
	d.Client = fresh.NewClient(fresh.ClientDeps{Client: d.Client, Live: d.Live, Clock: d.Clock}, &machinev1.Machine{})
	if d.Fallback == nil {
		d.Fallback = fallback.NewMemory(d.Clock, d.Options.ResourceExhaustedRetry)
	}
	if d.Brake == nil {
		d.Brake = d.Options.NewBrake(d.Client, d.Target, d.Clock)
	}
	c := &Controller{
		Deps:    d,
		classes: class.New(d.Clouds),
		engine:  vm.New(d.Clock, d.Fence.FormerLeader, d.Fallback),
		gate:    hold.New(hold.Deps{Client: d.Client, Clock: d.Clock, Events: d.Events}),
	}
	if d.Target != nil {
		c.drainer = drain.New(drain.Deps{Target: d.Target, Clock: d.Clock, Confirm: true})
	}
	return c
}

// Reconcile brings a Machine one observation closer to its spec:
//
//  1. observe the Machine and its node;
//  2. run the join steps, or the deletion steps if it is being deleted;
//  3. report what was seen into its status, and write that if it changed.
//
// A Machine that is held is left alone, whatever else is true of it.
func (c *Controller) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	m := &machinev1.Machine{}
	if err := c.Client.Get(ctx, req.NamespacedName, m); err != nil {
		if apierrors.IsNotFound(err) {
			c.untrackOutage(req.NamespacedName)
		}
		return outcome.Of(0, client.IgnoreNotFound(err))
	}
	if held, result, err := c.held(ctx, m); held || err != nil {
		return result, err
	}
	c.restorePruned(m)
	c.engine.ObserveProviderID(machinev1.OwnerID(m), m.Spec.ProviderID)
	p, err := c.observe(ctx, m)
	if err != nil {
		return outcome.Of(0, err)
	}
	err = c.act(ctx, p)
	if werr := c.write(ctx, p, err); werr != nil {
		return outcome.Of(0, werr)
	}
	c.finish(ctx, p, err)
	return outcome.Of(p.did.requeue, err)
}

// finish emits what a pass that has been written did, and forgets a Machine whose
// finalizer is gone. failure is why the pass ended early, nil if it did not.
func (c *Controller) finish(ctx context.Context, p *pass, failure error) {
	c.emitEvents(p)
	c.recordDurations(p)
	if failure == nil {
		c.trackOutage(ctx, p)
	}
	if p.did.finalizerRemoved {
		c.engine.Forget(machinev1.OwnerID(p.machine))
		c.pruned.Forget(p.machine.UID)
		c.Brake.Forget(p.machine.UID)
	}
}

// step is one step of a Machine's life. It reports whether the next one may
// follow in the same pass.
type step struct {
	name string
	mcm  string // MCM's name of it; empty: MCM has none
	run  func(*Controller, context.Context, *pass) (done bool, err error)
}

// always turns run into a step after which the next one always follows.
func always(
	run func(*Controller, context.Context, *pass) error,
) func(*Controller, context.Context, *pass) (bool, error) {
	return func(c *Controller, ctx context.Context, p *pass) (bool, error) { return true, run(c, ctx, p) }
}

// joinSteps give a Machine its VM and its node, and keep them.
func joinSteps() []step {
	return []step{
		{"ensureFinalizer", "", always((*Controller).ensureFinalizer)},
		{"launch", "", always((*Controller).launch)},
		{"register", "", always((*Controller).register)},
		{"syncProviderIDForm", "", always((*Controller).syncProviderIDForm)},
		{"checkHealth", "", always((*Controller).checkHealth)},
		{"updateInPlace", "", always((*Controller).updateInPlace)},
		{"preserve", "", always((*Controller).preserve)},
		{"removeBootData", "", always((*Controller).removeBootData)},
		{"updateTags", "", always((*Controller).updateTags)},
	}
}

// deletionSteps take a Machine's node and VM away. Each is done when what it
// looks at is gone.
func deletionSteps() []step {
	return []step{
		{"nameOwnerID", machinev1.StepGetVMStatus, always((*Controller).nameOwnerID)},
		{"findNode", machinev1.StepGetVMStatus, (*Controller).findNode},
		{"drain", machinev1.StepDrain, (*Controller).drain},
		{"detachVolumes", machinev1.StepDeleteAttachments, (*Controller).detachVolumes},
		{"deleteVM", machinev1.StepDeleteVM, (*Controller).deleteVM},
		{"deleteNode", machinev1.StepDeleteNode, (*Controller).deleteNode},
		{"deleteToken", machinev1.StepDeleteNode, (*Controller).deleteToken},
		{"waitForName", machinev1.StepDeleteNode, (*Controller).waitForName},
		{"removeFinalizer", machinev1.StepDeleteNode, (*Controller).removeFinalizer},
	}
}

// act runs the steps that the Machine is due for, until one is not done.
func (c *Controller) act(ctx context.Context, p *pass) error {
	steps := joinSteps()
	switch {
	case !p.machine.DeletionTimestamp.IsZero():
		if !controllerutil.ContainsFinalizer(p.machine, machinev1.Finalizer) {
			p.did.finalizerRemoved = true // other finalizers keep the object; there is nothing of ours left to do
			return nil
		}
		steps = deletionSteps()
	case p.seen.frozen:
		requeueAfter(p, frozenRetry)
		return nil
	case len(p.seen.problems) > 0 && p.machine.Spec.ProviderID == "":
		return nil
	}
	for _, s := range steps {
		p.did.step = s.mcm
		if done, err := s.run(c, ctx, p); err != nil || !done {
			return err
		}
	}
	return nil
}

// visitRetry is when a hold is looked at again that another controller's pass
// keeps from being answered. Such a pass ends by itself within moments.
const visitRetry = 200 * time.Millisecond

// held reports whether m is left alone in this pass because somebody moves it to
// another API, and when to look again. What is remembered of its VM is dropped,
// as if this process had just started: others may change the VM meanwhile.
func (c *Controller) held(ctx context.Context, m *machinev1.Machine) (bool, reconcile.Result, error) {
	if machinev1.Held(m) {
		c.engine.Forget(machinev1.OwnerID(m))
		c.Brake.Forget(m.UID)
		c.untrackOutage(client.ObjectKeyFromObject(m))
		if !machinev1.HoldAnswered(m) && c.Visits.Busy(m.Labels[machinev1.NodeLabel]) {
			return true, reconcile.Result{RequeueAfter: visitRetry}, nil
		}
	}
	closed, err := c.gate.Answer(ctx, m)
	result, err := outcome.Of(0, err)
	return closed, result, err
}

// write persists the status that follows from p, if it differs.
func (c *Controller) write(ctx context.Context, p *pass, failure error) error {
	if p.did.finalizerRemoved {
		return nil
	}
	status := report(p, failure)
	if equality.Semantic.DeepEqual(status, p.machine.Status) {
		return nil
	}
	if c.changesOnlyPruned(p.machine, status) {
		p.machine.Status = status
		return nil
	}
	base := p.machine.DeepCopy()
	p.machine.Status = status
	c.omitPruned(base, p.machine)
	if err := c.Client.Status().Patch(ctx, p.machine, client.MergeFrom(base)); err != nil {
		return client.IgnoreNotFound(fmt.Errorf("write status: %w", err))
	}
	c.rememberPruned(ctx, p.machine, base.Status, status)
	return nil
}

// patchMachine applies change to the Machine's metadata and spec, and writes
// the differences, if there are any. It fails on a stale object.
func (c *Controller) patchMachine(ctx context.Context, p *pass, change func(*machinev1.Machine)) error {
	changed, err := patch.Change(ctx, c.Client, p.machine, vm.CarryScope(p.did.scope, change))
	p.machine = changed
	return err
}
