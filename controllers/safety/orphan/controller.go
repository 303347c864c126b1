package orphan

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/class"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/outcome"
)

// firstRetry is the wait after a look that failed; it doubles with each further one.
const firstRetry = time.Minute

// Options are the collector's times. Zero fields take the value named.
type Options struct {
	Period time.Duration // between looks; 30 minutes
	MinAge time.Duration // that a resource has when it is removed; 5 minutes, at most the period
	// from the first look to the deciding one, at least the cloud's settle time; 1 minute, at most the period
	Confirm     time.Duration
	AfterDelete time.Duration // from the deletion of a Machine to the look it causes; 30 seconds, at most the period
	ReportOnly  bool          // remove nothing
}

// withDefaults fills in what is not set. Who looks more often than once in five
// minutes wants orphans gone sooner than that.
func (o Options) withDefaults() Options {
	if o.Period <= 0 {
		o.Period = 30 * time.Minute
	}
	for _, d := range []struct {
		value *time.Duration
		or    time.Duration
	}{{&o.MinAge, 5 * time.Minute}, {&o.Confirm, time.Minute}, {&o.AfterDelete, 30 * time.Second}} {
		if *d.value <= 0 {
			*d.value = min(d.or, o.Period)
		}
	}
	return o
}

// Deps are what a Controller needs; all are required but Fresh.
type Deps struct {
	Name    string        // of the controller, in logs and metrics
	Client  client.Client // reads from a cache
	Classes *class.Resolver
	Doors   []Owners // where owners are looked for; see NewMachines, NewMCMMachines and Witness
	Clock   clock.PassiveClock
	Events  record.EventRecorder
	Options Options
	// Fresh returns a context under which a listing shows the cloud as it was at
	// that time or later; nil where listings are never shared.
	Fresh func(ctx context.Context, notBefore time.Time) context.Context
}

// Controller looks for orphans with every MachineClass. It is keyed by class;
// classes with the same account and ownership tags share their looks.
type Controller struct {
	Deps
	memory  *memory
	metrics *metrics
}

// New returns a Controller that has found nothing yet.
func New(d Deps) *Controller {
	d.Options = d.Options.withDefaults()
	return &Controller{Deps: d, memory: newMemory(), metrics: newMetrics()}
}

// Reconcile looks for orphans of the class's account if a look is due, and comes
// back for the next.
func (c *Controller) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	object := &machinev1.MachineClass{}
	if err := c.Client.Get(ctx, req.NamespacedName, object); err != nil {
		if client.IgnoreNotFound(err) == nil {
			c.memory.forget(req.NamespacedName)
			return reconcile.Result{}, nil
		}
		return outcome.Of(0, fmt.Errorf("read MachineClass: %w", err))
	}
	resolved, err := c.resolve(ctx, object)
	if err != nil {
		return outcome.Of(0, err)
	}
	if resolved.Err(cloud.BlocksAll) != nil {
		//nolint:nilerr // the class's own controller tells about it
		return reconcile.Result{RequeueAfter: c.Options.Period}, nil
	}
	_, reports := object.Annotations[ReportAnnotation]
	began := c.Clock.Now()
	g, wait := c.memory.enter(groupKey(resolved), req.NamespacedName, reports, began)
	if g == nil {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	next := c.visit(ctx, g, resolved, began)
	return reconcile.Result{RequeueAfter: c.memory.done(g, began, c.Clock.Now(), next)}, nil
}

// resolve reads the class by the rules of the door that judges with it: where
// that is Cluster API's alone, Secrets of other namespaces have to allow their use.
func (c *Controller) resolve(ctx context.Context, object *machinev1.MachineClass) (class.Resolved, error) {
	if slices.ContainsFunc(c.Doors, func(door Owners) bool { return door.Judges(cloud.Resource{}) }) {
		return c.Classes.ResolveObject(ctx, c.Client, object)
	}
	return c.Classes.ResolveForClusterAPI(ctx, c.Client, object.Namespace, object.Name)
}

// visit looks, and returns when to look next. A failure is told once and never
// returned: it concerns this account only.
func (c *Controller) visit(ctx context.Context, g *group, resolved class.Resolved, began time.Time) time.Time {
	next, err := c.look(ctx, g, resolved, began)
	if err == nil {
		g.failures = 0
		return next
	}
	g.failures++
	c.metrics.failed.WithLabelValues(resolved.Driver.Traits().Name).Inc()
	ctrl.LoggerFrom(ctx).Error(err, "Look for orphans", "MachineClass", client.ObjectKeyFromObject(resolved.Object))
	if g.failures == 1 {
		c.Events.Eventf(resolved.Object, corev1.EventTypeWarning, EventLookFailed, "Looking for orphans in the cloud: %v",
			err)
	}
	backoff := firstRetry << min(g.failures-1, 10)
	return began.Add(min(max(backoff, outcome.After(err, 0)), c.Options.Period))
}

// groupKey is equal for classes that see the same resources through the same account.
func groupKey(r class.Resolved) string {
	return strings.Join([]string{
		r.Driver.Traits().Name, r.Class.Endpoint, r.Class.Owner, r.Credentials.Fingerprint(machinev1.UserDataKey),
	}, "\x00")
}
