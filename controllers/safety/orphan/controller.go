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

// firstRetry is the delay after a failed scan. It doubles with each further failure.
const firstRetry = time.Minute

// Options are the settings of the collector. Zero fields have the default named, and the
// unexported ones have no other value.
type Options struct {
	Period     time.Duration // between scans; 30 minutes
	MinAge     time.Duration // of a resource that is removed; 5 minutes, at most the period
	ReportOnly bool          // remove nothing
	// confirm is the delay between the scan that first finds an orphan and the one that
	// removes it, at least the cloud's settle time; 1 minute, at most the period.
	confirm     time.Duration
	afterDelete time.Duration // from the deletion of a Machine to the scan; 30 seconds, at most the period
}

// withDefaults sets the fields that are 0. A short period shortens the other
// defaults: its user wants orphans removed soon.
func (o Options) withDefaults() Options {
	if o.Period <= 0 {
		o.Period = 30 * time.Minute
	}
	for _, d := range []struct {
		value *time.Duration
		or    time.Duration
	}{{&o.MinAge, 5 * time.Minute}, {&o.confirm, time.Minute}, {&o.afterDelete, 30 * time.Second}} {
		if *d.value <= 0 {
			*d.value = min(d.or, o.Period)
		}
	}
	return o
}

// Deps are what a Controller needs; all are required but Namespace and Fresh.
type Deps struct {
	Name    string        // of the controller, in logs and metrics
	HeldKey string        // annotation of classes for held orphans, one for each collector
	Client  client.Client // reads from a cache
	Live    client.Reader // reads from the API server
	// Namespace has the classes; empty for all namespaces.
	Namespace string
	Classes   *class.Resolver
	APIs      []Owners // owners of both APIs; see NewMachines, NewMCMMachines and OwnersOnly
	Clock     clock.PassiveClock
	Events    record.EventRecorder
	Options   Options
	// Fresh returns a context whose listings show the cloud at that time or later; nil
	// where listings are never shared.
	Fresh func(ctx context.Context, notBefore time.Time) context.Context
}

// Controller scans for orphans with every MachineClass. Its key is the class; classes
// with the same account and ownership tags share their scans.
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

// Reconcile scans the account of the class for orphans if a scan is due, and requeues
// the class for the next one.
func (c *Controller) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	object := &machinev1.MachineClass{}
	if err := c.Client.Get(ctx, req.NamespacedName, object); err != nil {
		if client.IgnoreNotFound(err) == nil {
			c.memory.forget(req.NamespacedName)
			c.metrics.held.Delete(c.labelsOf(req.NamespacedName))
			return reconcile.Result{}, nil
		}
		return outcome.Of(0, fmt.Errorf("read MachineClass: %w", err))
	}
	resolved, err := c.resolve(ctx, object)
	if err != nil {
		return outcome.Of(0, err)
	}
	if resolved.Err(cloud.BlocksAll) != nil {
		//nolint:nilerr // the MachineClass controller reports it
		return reconcile.Result{RequeueAfter: c.Options.Period}, nil
	}
	_, reports := object.Annotations[reportAnnotation]
	began := c.Clock.Now()
	g, wait := c.memory.begin(groupKey(resolved), req.NamespacedName, reports, began)
	if g == nil {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	next := c.tryScan(ctx, g, resolved, began)
	return reconcile.Result{RequeueAfter: c.memory.end(g, began, c.Clock.Now(), next)}, nil
}

// resolve reads the class by the rules of the API that judges with it. Where that is
// Cluster API alone, Secrets of other namespaces have to allow their use.
func (c *Controller) resolve(ctx context.Context, object *machinev1.MachineClass) (class.Resolved, error) {
	if slices.ContainsFunc(c.APIs, func(api Owners) bool { return api.Judges(cloud.Resource{}) }) {
		return c.Classes.ResolveObject(ctx, c.Client, object)
	}
	return c.Classes.ResolveForClusterAPI(ctx, c.Client, object.Namespace, object.Name)
}

// tryScan scans, and returns when the next scan is due. It reports the first failure
// and never returns one: a failure concerns this account only.
func (c *Controller) tryScan(ctx context.Context, g *group, resolved class.Resolved, began time.Time) time.Time {
	next, err := c.scan(ctx, g, resolved, began)
	if err == nil {
		g.failures = 0
		return next
	}
	g.failures++
	c.metrics.failed.WithLabelValues(resolved.Driver.Traits().Name).Inc()
	ctrl.LoggerFrom(ctx).Error(err, "Scan for orphans", "MachineClass", client.ObjectKeyFromObject(resolved.Object))
	if g.failures == 1 {
		c.Events.Eventf(resolved.Object, corev1.EventTypeWarning, eventScanFailed,
			"Scan for orphans failed: %v; it is retried with back-off",
			err)
	}
	backoff := firstRetry << min(g.failures-1, 10)
	return began.Add(min(max(backoff, outcome.After(err, 0)), c.Options.Period))
}

// groupKey is equal for classes that have the same account and see the same resources.
func groupKey(r class.Resolved) string {
	return strings.Join([]string{
		r.Driver.Traits().Name, r.Class.Endpoint, r.Class.Owner, r.Credentials.Fingerprint(),
	}, "\x00")
}
