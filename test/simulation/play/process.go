package play

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
	"github.com/capmcm/cluster-api-provider-mcm/controllers"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/machine"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/safety/apiserver"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/safety/orphan"
	model "github.com/capmcm/cluster-api-provider-mcm/test/simulation/apiserver"
	"github.com/capmcm/cluster-api-provider-mcm/test/simulation/mirror"
)

// process is one run of the manager: all that a crash loses.
type process struct {
	world       *World
	name        string
	ctx         context.Context
	cancel      context.CancelFunc
	mirrors     []*mirror.Mirror // control, and target if it is another one
	controllers []*controller
	tasks       []*task
	dead        bool
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

// start runs a new process. Its caches begin with a listing.
func (w *World) start() {
	if w.isDown(w.Control) || w.isDown(w.Target) {
		w.after(10*time.Second, w.start) // it does not get far
		return
	}
	w.started++
	ctx, cancel := context.WithCancel(log.IntoContext(context.Background(), logr.Discard()))
	p := &process{world: w, name: fmt.Sprintf("manager-%d", w.started), ctx: ctx, cancel: cancel}
	lag := func(*model.Kind) int { return 0 }
	control := mirror.New(w.Control, lag)
	p.mirrors = []*mirror.Mirror{control}
	client := &mirror.Client{Server: w.Control, Mirror: control, Wire: w.wire, Schema: w.scheme}
	live := &mirror.Client{Server: w.Control, Wire: w.wire, Schema: w.scheme}
	target := &controllers.Target{Client: client, Live: live, Cache: control}
	if w.Target != w.Control {
		other := mirror.New(w.Target, lag)
		p.mirrors = append(p.mirrors, other)
		target = &controllers.Target{
			Client: &mirror.Client{Server: w.Target, Mirror: other, Wire: w.wire, Schema: w.scheme},
			Live:   &mirror.Client{Server: w.Target, Wire: w.wire, Schema: w.scheme}, Cache: other,
		}
	}
	clouds, err := cloud.NewRegistry([]cloud.Driver{remembering{w.driver, w.parsed}}, w.Now)
	if err != nil {
		panic(err)
	}
	mgr := &mirror.Manager{Client: client}
	err = controllers.Setup(ctx, mgr, controllers.Deps{
		Client: client, Live: live, Target: target, Namespace: namespace, Clouds: clouds, Clock: clockOf{w}, Rand: w.bytes(),
		Events:  func(component string) record.EventRecorder { return recorder{w, p, component} },
		Workers: func(string) int { return workers },
		Options: w.options(),
	}, native())
	if err != nil {
		panic(err)
	}
	w.trace("%s starts", p.name)
	w.processes = append(w.processes, p)
	for _, c := range mgr.Controllers {
		own := &controller{Controller: c, queue: newQueue(w.Now, c.Limiter)}
		p.controllers = append(p.controllers, own)
		if err := c.Start(ctx, own.queue); err != nil {
			panic(err)
		}
	}
}

// native are the names of the controllers of the native door.
func native() []string {
	var names []string
	for _, c := range controllers.All() {
		if c.Door == controllers.Native {
			names = append(names, c.Name)
		}
	}
	return names
}

// options are the flags of the manager, as they are by default.
func (w *World) options() controllers.Options {
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
		AnnotateDuringRollout: true,
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
}

// request is for those who only need its name.
type request = reconcile.Request

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
