package manager

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/machine"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/metrics"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/safety/apiserver"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/safety/orphan"
	"github.com/capmcm/cluster-api-provider-mcm/internal/fence"
	"github.com/capmcm/cluster-api-provider-mcm/internal/logging"
	"github.com/capmcm/cluster-api-provider-mcm/internal/tracing"
)

// scrapeTimeout bounds how long a scrape waits for a cache.
const scrapeTimeout = 5 * time.Second

// process is all that runs.
type process struct {
	manager ctrl.Manager
	events  record.EventBroadcaster
}

// build puts the process together. It has talked to the API servers then, and
// listens, but nothing runs yet. Calling stop ends the context of what runs.
func (o *Options) build(ctx context.Context, stop context.CancelCauseFunc, drivers []cloud.Driver) (*process, error) {
	configs, err := o.clusters.configs(o.userAgent())
	if err != nil {
		return nil, err
	}
	if err := configs.waitClusters(ctx); err != nil {
		return nil, err
	}
	clients, err := kubernetes.NewForConfig(configs.control)
	if err != nil {
		return nil, err
	}
	served, err := waitServed(ctx, clients.Discovery())
	if err != nil {
		return nil, err
	}
	which, err := o.selected(served)
	if err != nil {
		return nil, err
	}
	return o.assemble(ctx, stop, drivers, configs, clients, which, served)
}

// assemble makes the parts and connects them.
//
//nolint:revive // each argument is a result of build
func (o *Options) assemble(ctx context.Context, stop context.CancelCauseFunc, drivers []cloud.Driver, c configs,
	clients kubernetes.Interface, which []string, served func(controllers.Kind) bool,
) (*process, error) {
	requests, h := metrics.NewRequests(clock.RealClock{}), &health{
		clock: clock.RealClock{},
		lease: o.election.leaseDuration,
	}
	c = c.measured(requests, h)
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	lock, err := o.newLock(c.control, leasesOf(which))
	if err != nil {
		return nil, err
	}
	reviews, err := newReviewer(c.control)
	if err != nil {
		return nil, err
	}
	f := fenceOf(lock)
	c = c.fenced(f)
	mgr, err := o.newManager(c, scheme, lock)
	if err != nil {
		return nil, err
	}
	h.lock = lock
	if h.ask, err = askVersion(c.control); err != nil {
		return nil, err
	}
	w := wiring{
		Options: o, drivers: drivers, configs: c, served: served, manager: mgr, fence: f,
		events: newBroadcaster(clients), requests: requests, reviews: reviews,
	}
	if err := w.controllers(ctx, which); err != nil {
		return nil, err
	}
	if err := w.extend(ctx); err != nil {
		return nil, err
	}
	if err := w.joinPod(lock, stop); err != nil {
		return nil, err
	}
	if err := w.serve(ctx, h); err != nil {
		return nil, err
	}
	return &process{manager: mgr, events: w.events}, mgr.Add(cachesFilled{h})
}

// selected are the names of the controllers to run: none beside a runtime extension.
func (o *Options) selected(served func(controllers.Kind) bool) ([]string, error) {
	if o.extension.port != 0 {
		return nil, needed(served)
	}
	which, err := controllers.Select(o.controllers, served)
	if err != nil {
		return nil, fmt.Errorf("--controllers: %w", err)
	}
	return which, nil
}

// leasesOf are the names of the leases of the API groups of these controllers.
func leasesOf(which []string) []string {
	var names []string
	for _, group := range controllers.APIGroupsOf(which) {
		names = append(names, group.Leases()...)
	}
	return names
}

// measured are the configs whose requests are counted, and whose control
// cluster's answers are noted.
func (c configs) measured(requests *metrics.Requests, h *health) configs {
	control := rest.CopyConfig(c.control)
	control.Wrap(requests.Wrap)
	control.Wrap(h.wrap)
	target := c.target
	switch {
	case c.same:
		target = control
	case target != nil:
		target = rest.CopyConfig(target)
		target.Wrap(requests.Wrap)
	}
	return configs{control: control, target: target, same: c.same}
}

// fenced are the configs whose mutating requests pass the fence.
func (c configs) fenced(f *fence.Fence) configs {
	fenced := configs{control: f.Config(c.control), target: f.Config(c.target), same: c.same}
	if c.same {
		fenced.target = fenced.control
	}
	return fenced
}

// fenceOf returns the fence that the lock opens and closes; one that is always
// open without leader election.
func fenceOf(lock *leaseLock) *fence.Fence {
	if lock == nil {
		return fence.Always(clock.RealClock{})
	}
	return lock.fence
}

// wiring connects a manager with controllers, metrics and servers.
type wiring struct {
	*Options
	drivers  []cloud.Driver
	configs  configs
	served   func(controllers.Kind) bool
	manager  ctrl.Manager
	events   record.EventBroadcaster
	fence    *fence.Fence
	requests *metrics.Requests
	reviews  *reviewer
	registry *metrics.Registry
	peer     *peer // the other container of this pod; nil if this process is alone
	frozen   atomic.Pointer[func() bool]
}

// controllers adds the controllers of these names and the metrics about what
// they work on.
func (w *wiring) controllers(ctx context.Context, which []string) error {
	native := slices.Contains(controllers.APIGroupsOf(which), controllers.Native)
	target, err := w.newTarget(w.manager, w.configs, native)
	if err != nil {
		return err
	}
	workloads, err := w.newWorkloads(ctx, w.manager, which)
	if err != nil {
		return err
	}
	scrape := func() (context.Context, context.CancelFunc) { return context.WithTimeout(ctx, scrapeTimeout) }
	durations := metrics.NewDurations(w.manager.GetClient(), scrape)
	w.registry, err = metrics.NewRegistry(append(w.objects(scrape, which), w.requests, durations,
		metrics.NewBuildInfo(w.version, w.commit), metrics.NewLeading(groupsOf(which), leading(w.manager)))...)
	if err != nil {
		return err
	}
	clouds, err := newClouds(w.drivers, w.registry, w.fence, w.Options)
	if err != nil {
		return err
	}
	if err := w.observe(target, which); err != nil {
		return err
	}
	mgr := controllers.CatchingUp(w.manager, w.manager.GetAPIReader(), w.clusters.namespace, which)
	return controllers.Setup(ctx, mgr, controllers.Deps{
		Client: logging.NewClient(w.manager.GetClient()), Live: w.manager.GetAPIReader(),
		Target:    target,
		Namespace: w.clusters.namespace, Clouds: clouds, Clock: clock.RealClock{}, Fence: w.fence, Rand: rand.Reader,
		Events: w.recorders(w.events, w.manager.GetScheme()), Workers: w.workersFor,
		Durations: durations, Metrics: w.registry, OnFrozenFunc: func(f func() bool) { w.frozen.Store(&f) },
		Options: w.controllerOptions(), Served: w.served, Clusters: w.fence.Clusters(workloads),
		WatchFilter: w.clusters.watchFilter,
	}, which)
}

// observe adds what exports the lives of the machines that these controllers work on.
func (w *wiring) observe(target *controllers.Target, which []string) error {
	if w.tracer == nil {
		return nil
	}
	observer := &tracing.Observer{
		Tracer: w.tracer, Cache: w.manager.GetCache(), Clock: clock.RealClock{},
		Native: slices.Contains(which, "machine"), ClusterAPI: slices.Contains(which, "mcmmachine"),
	}
	if target != nil {
		observer.Nodes = target.Client
	}
	return w.manager.Add(observer)
}

// objects returns the collectors of what these controllers work on.
func (w *wiring) objects(scrape metrics.Scrape, which []string) []prometheus.Collector {
	var all []prometheus.Collector
	leads := leading(w.manager)
	if slices.Contains(controllers.APIGroupsOf(which), controllers.Native) {
		all = append(all, metrics.NewObjects(w.manager.GetClient(), scrape, leads, w.isFrozen))
	}
	var kinds []metrics.ProviderKind
	for _, k := range []struct {
		controller string // which has the kind in its cache
		kind       metrics.ProviderKind
	}{
		{"mcmmachine", metrics.MCMMachines()},
		{"mcmcluster", metrics.MCMClusters()},
		{"mcmexternalcontrolplane", metrics.MCMExternalControlPlanes()},
	} {
		if slices.Contains(which, k.controller) {
			kinds = append(kinds, k.kind)
		}
	}
	if len(kinds) > 0 {
		all = append(all, metrics.NewClusterAPI(w.manager.GetClient(), scrape, leads, kinds...))
	}
	return all
}

// groupsOf are the names of the API groups of these controllers.
func groupsOf(which []string) []string {
	var groups []string
	for _, group := range controllers.APIGroupsOf(which) {
		groups = append(groups, string(group))
	}
	return groups
}

func (w *wiring) isFrozen() bool {
	f := w.frozen.Load()
	return f != nil && (*f)()
}

// controllerOptions are the flags as the controllers take them.
func (o *Options) controllerOptions() controllers.Options {
	m, s := o.machines, o.safety
	maxReplacements, _ := machine.ParseMaxReplacements(m.maxReplacements) // validated
	return controllers.Options{
		Machine: machine.Options{
			CreationTimeout: m.creation, HealthTimeout: m.health, DrainTimeout: m.drain, InPlaceUpdateTimeout: m.inPlaceUpdate,
			PreserveTimeout: m.preserve, PVDetachTimeout: m.pvDetach, PVReattachTimeout: m.pvReattach,
			MaxEvictRetries: int32(m.maxEvictRetries), NodeConditions: list(m.nodeConditions), //nolint:gosec // validated
			BootstrapTokenExtraGroups: m.bootstrapTokenExtraGroups, ResourceExhaustedRetry: m.resourceExhaustedRetry,
			IgnoreOutages: !s.outages, OutageLimit: s.outageLimit, MaxReplacements: maxReplacements,
		},
		APIServer: apiserver.Options{Period: s.apiServerPeriod, Timeout: s.apiServerTimeout},
		Orphans:   s.orphans(),
		SafetyUp:  int32(s.up), SafetyDown: int32(s.down), //nolint:gosec // validated
		OvershootPeriod: cmp.Or(s.overshooting, time.Second), AnnotateDuringRollout: o.annotateDuringRollout,
		CreationTimeoutGrowthPercent: m.creationGrowthPercent, ReplaceCycles: m.replaceCycles,
		PauseFailingRollouts: m.pauseFailingRollouts,
		ConsoleEvidence:      m.consoleEvidence,
	}
}

// orphans are the options of the orphan collectors. A period of 0 is a minute, where MCM
// never stops listing; an orphan is removed no earlier than with any other period.
func (s safetyOptions) orphans() orphan.Options {
	o := orphan.Options{Period: s.orphanVMs, ReportOnly: s.reportOnly}
	if o.Period == 0 {
		o.Period, o.MinAge = time.Minute, 5*time.Minute
	}
	return o
}

// Limits of Events about one object. A machine set that makes a thousand
// machines tells about each; client-go's own limit is 25 and then one in five
// minutes.
const (
	eventBurst = 1000
	eventQPS   = 1
)

// newBroadcaster returns a broadcaster that writes core/v1 Events, the only kind
// that MCM's role allows and its tests look for, and that the log shows, too. Shutdown ends it.
func newBroadcaster(c kubernetes.Interface) record.EventBroadcaster {
	b := record.NewBroadcasterWithCorrelatorOptions(record.CorrelatorOptions{BurstSize: eventBurst, QPS: eventQPS})
	b.StartStructuredLogging(0)
	b.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: c.CoreV1().Events("")})
	return b
}

// recorders returns recorders by the name of the component.
func (o *Options) recorders(b record.EventBroadcaster, scheme *runtime.Scheme) func(string) record.EventRecorder {
	return func(component string) record.EventRecorder {
		r := b.NewRecorder(scheme, corev1.EventSource{Component: component})
		if o.tracer != nil {
			return tracing.Recorder(r)
		}
		return r
	}
}
