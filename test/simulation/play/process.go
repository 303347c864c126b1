package play

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/wrap"
	"github.com/capmcm/cluster-api-provider-mcm/controllers"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/machine"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/safety/apiserver"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/safety/orphan"
	"github.com/capmcm/cluster-api-provider-mcm/internal/fence"
	model "github.com/capmcm/cluster-api-provider-mcm/test/simulation/apiserver"
	"github.com/capmcm/cluster-api-provider-mcm/test/simulation/mirror"
)

// process is one run of the manager: all that a crash loses.
type process struct {
	world       *World
	home        *home
	groups      []controllers.APIGroup
	name        string
	ctx         context.Context //nolint:containedctx // it ends when the process does
	cancel      context.CancelFunc
	mirrors     []*mirror.Mirror // of the management cluster, and of that with the nodes if it is another one
	connections *connections     // to workload clusters of Cluster API; nil without it
	controllers []*controller
	tasks       []*task
	dead        bool
	fence       *fence.Fence
	deposed     bool // it cannot renew its leases any more
	blind       bool // its caches of machines stand still
	// crashIn is after how many further effects it crashes; 0 is never.
	crashIn int
	effects int
}

// controller is one queue and those who work on it.
type controller struct {
	*mirror.Controller
	queue  *queue
	active int
}

// Workers is how many reconciles of a controller run at a time.
const workers = 4

// start runs the managers of all homes.
func (w *World) start() {
	for _, h := range w.homes {
		for _, groups := range h.managers {
			w.startOne(h, groups)
		}
	}
}

// again starts the manager that p was, in a while, unless it has a successor
// then, which has the leases.
func (w *World) again(p *process, after time.Duration) {
	w.after(after, func() {
		if !slices.ContainsFunc(w.processes, p.same) {
			w.startOne(p.home, p.groups)
		}
	})
}

// startOne runs a new process with the controllers of groups. Its caches begin
// with a listing.
func (w *World) startOne(h *home, groups []controllers.APIGroup) {
	if w.isDown(h.server) || slices.Contains(groups, controllers.Native) && w.isDown(w.Target) {
		w.again(&process{home: h, groups: groups}, 10*time.Second) // it does not get far
		return
	}
	w.started++
	ctx, cancel := context.WithCancel(log.IntoContext(context.Background(), logr.Discard()))
	p := &process{
		world: w, home: h, groups: groups, name: fmt.Sprintf("manager-%d", w.started), ctx: ctx, cancel: cancel,
		fence: fence.New(clockOf{w}, renewDeadline),
	}
	p.fence.Acquired(w.now)
	w.trace("%s starts, for %v of %s", p.name, groups, h.name)
	mgr, deps := w.equip(p)
	if err := controllers.Setup(ctx, mgr, deps, controllersOf(groups)); err != nil {
		panic(err)
	}
	w.processes = append(w.processes, p)
	for _, c := range mgr.Controllers {
		own := &controller{Controller: c, queue: newQueue(w.Now, c.Limiter)}
		p.controllers = append(p.controllers, own)
	}
	for _, c := range p.controllers {
		if err := c.Start(ctx, c.queue); err != nil {
			panic(err)
		}
	}
	if p.connections != nil {
		p.connections.evaluate()
	}
}

// The terms of the leases, as the manager's flags have them by default.
const (
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
)

// mayWrite returns why a process may not send a request that changes something:
// its leases have expired. Commands hold none.
func (p *process) mayWrite() error {
	if p.isCommand() {
		return nil
	}
	if !p.deposed && !p.world.isDown(p.home.server) {
		p.fence.Renewed(p.world.now)
	}
	return p.fence.Check()
}

// depose has a process lose its leases without being told, and a successor take
// them when they have expired. It returns at once.
func (w *World) depose(p *process) {
	p.fence.Renewed(w.now.Add(-w.between(0, retryPeriod)))
	p.deposed = true
	w.after(leaseDuration+w.between(0, retryPeriod), func() {
		leads := func(o *process) bool { return !o.deposed && o.same(p) }
		if !slices.ContainsFunc(w.processes, leads) {
			w.startOne(p.home, p.groups)
		}
	})
}

// equip makes what a process has: its caches, clients and the rest.
func (w *World) equip(p *process) (*mirror.Manager, controllers.Deps) {
	lag := func(*model.Kind) int { return 0 }
	server := p.home.server
	control := mirror.New(server, lag)
	p.mirrors = []*mirror.Mirror{control}
	client := &mirror.Client{Server: server, Mirror: control, Wire: w.wireTo(server), Schema: w.scheme}
	live := &mirror.Client{Server: server, Wire: w.wireTo(server), Schema: w.scheme}
	target := &controllers.Target{Client: client, Live: live, Cache: control}
	switch {
	case !slices.Contains(p.groups, controllers.Native):
		target = nil
	case w.Target != server:
		other := mirror.New(w.Target, lag)
		p.mirrors = append(p.mirrors, other)
		target = &controllers.Target{
			Client: &mirror.Client{Server: w.Target, Mirror: other, Wire: w.wireTo(w.Target), Schema: w.scheme},
			Live:   &mirror.Client{Server: w.Target, Wire: w.wireTo(w.Target), Schema: w.scheme}, Cache: other,
		}
	}
	clouds, err := cloud.NewRegistry([]cloud.Driver{remembering{w.driver, w.parsed}}, w.Now, wrap.Scopes())
	if err != nil {
		panic(err)
	}
	deps := controllers.Deps{
		Client: client, Live: live, Target: target, Namespace: namespace, Clouds: clouds, Clock: clockOf{w},
		Fence: p.fence, Rand: w.bytes(),
		Events:  func(component string) record.EventRecorder { return recorder{w, p, component} },
		Workers: func(string) int { return workers },
		Options: w.options(), Served: p.home.serves,
	}
	if slices.ContainsFunc(p.groups, func(d controllers.APIGroup) bool { return d != controllers.Native }) {
		p.connections = &connections{process: p, all: map[types.NamespacedName]*connection{}}
		deps.Clusters = p.connections
	}
	return &mirror.Manager{Client: client}, deps
}

// controllersOf are the names of the controllers of groups.
func controllersOf(groups []controllers.APIGroup) []string {
	var names []string
	for _, c := range controllers.All() {
		if slices.Contains(groups, c.Group) {
			names = append(names, c.Name)
		}
	}
	return names
}

// options are the flags of the manager: the defaults, but for what the plan sets.
func (w *World) options() controllers.Options {
	growth := 50
	if w.plan.PauseFailing {
		growth = 0 // a creation timeout that can still grow does so before a rollout pauses
	}
	return controllers.Options{
		Machine: machine.Options{
			CreationTimeout: 20 * time.Minute, HealthTimeout: 10 * time.Minute, DrainTimeout: 2 * time.Hour,
			InPlaceUpdateTimeout: time.Hour, PreserveTimeout: 72 * time.Hour,
			PVDetachTimeout: 2 * time.Minute, PVReattachTimeout: 90 * time.Second,
			NodeConditions:         []string{"KernelDeadlock", "ReadonlyFilesystem", "DiskPressure", "NetworkUnavailable"},
			ResourceExhaustedRetry: 10 * time.Minute, IgnoreOutages: w.plan.IgnoreOutages,
		},
		APIServer: apiserver.Options{Period: time.Minute, Timeout: 30 * time.Second},
		Orphans:   orphan.Options{Period: 30 * time.Minute},
		SafetyUp:  2, SafetyDown: 1, OvershootPeriod: time.Minute,
		AnnotateDuringRollout: true, CreationTimeoutGrowthPercent: growth, ReplaceCycles: 2,
		PauseFailingRollouts: w.plan.PauseFailing,
		ConsoleEvidence:      true,
	}
}

// bytes are random bytes that follow from the seed.
func (w *World) bytes() *rand.ChaCha8 {
	var seed [32]byte
	for i := range seed {
		seed[i] = byte(w.rng.Uint64())
	}
	return rand.NewChaCha8(seed)
}

// crash ends a process, whatever it is doing.
func (w *World) crash(p *process, why string) {
	if p.dead {
		return
	}
	w.trace("%s ends: %s", p.name, why)
	p.dead = true
	p.cancel()
	for _, t := range p.tasks {
		if t != w.running {
			t.kill()
		}
	}
	p.tasks = nil
	w.processes = slices.DeleteFunc(w.processes, func(o *process) bool { return o == p })
}

// reconcile starts to work on a ready item.
func (w *World) reconcile(p *process, c *controller) {
	t := &task{process: p, controller: c, request: c.queue.take(w.rng.IntN(len(c.queue.ready))), began: w.now}
	c.active++
	p.tasks = append(p.tasks, t)
	w.trace("%s begins", t)
	t.begin()
	w.resume(t)
}

// resume goes on with a task, and does what follows from its end.
func (w *World) resume(t *task) {
	w.running = t
	ended := t.resume()
	w.running = nil
	w.watchMore(t)
	if !ended || t.dead {
		return
	}
	if t.process.dead {
		return // it died of what it did
	}
	p, c := t.process, t.controller
	p.tasks = slices.DeleteFunc(p.tasks, func(o *task) bool { return o == t })
	c.active--
	if t.panicked {
		w.violate("NoPanic", fmt.Errorf("%s: %s", t, t.crash))
		return
	}
	w.finish(t, c)
}

// watchMore starts the watches that a reconcile has asked for.
func (w *World) watchMore(t *task) {
	if t.process.dead || t.process.connections == nil {
		return
	}
	if err := t.controller.Start(t.process.ctx, t.controller.queue); err != nil {
		panic(err)
	}
}

// finish is what controller-runtime does with the outcome of a reconcile.
func (w *World) finish(t *task, c *controller) {
	switch {
	case t.err != nil:
		w.trace("%s fails: %v", t, t.err)
		c.queue.AddRateLimited(t.request)
	case t.result.RequeueAfter > 0:
		w.trace("%s ends, again in %s", t, t.result.RequeueAfter)
		c.queue.Forget(t.request)
		c.queue.AddAfter(t.request, t.result.RequeueAfter)
	default:
		w.trace("%s ends", t)
		c.queue.Forget(t.request)
	}
	c.queue.Done(t.request)
	if p := t.process; p.isCommand() {
		w.crash(p, "it is done")
	}
}

// remembering is a driver that parses each class once for all processes: parsing
// is pure, and takes a tenth of all time otherwise.
type remembering struct {
	*sim.Driver

	known map[string]parsed
}

type parsed struct {
	class    cloud.Class
	problems []cloud.Problem
}

// Parse is the driver's.
func (d remembering) Parse(in cloud.ClassInput) (cloud.Class, []cloud.Problem) {
	key := in.Namespace + "/" + in.Name + " " + string(in.Spec)
	if p, known := d.known[key]; known {
		return p.class, p.problems
	}
	c, problems := d.Driver.Parse(in)
	d.known[key] = parsed{c, problems}
	return c, problems
}
