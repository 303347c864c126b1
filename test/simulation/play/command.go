package play

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capmcm/cluster-api-provider-mcm/internal/fence"
	"github.com/capmcm/cluster-api-provider-mcm/test/simulation/mirror"
)

// Open returns the world of a plan, in which managers run, for a test that plays
// it by itself: Play, Start commands, and Rest at the end.
func Open(p Plan, verbose bool) *World {
	w := newWorld(p, verbose)
	w.populate()
	w.start()
	for _, e := range p.Events {
		w.after(e.At, func() { w.inject(e) })
	}
	return w
}

// BothAPIs is a plan without trouble in which both APIs are served and have one pool
// each, and what the seed decides is who acts when. apart gives each API a
// manager of its own.
func BothAPIs(seed uint64, apart bool) Plan {
	pool := []Pool{{Replicas: 3, Surge: 1}}
	return Plan{
		Seed: seed, Length: time.Hour, Boot: 20 * time.Second, Delete: 10 * time.Second, Pods: 2,
		Pools: pool, Workers: []Pool{{Replicas: 1}}, Apart: apart, AllJoin: true,
	}
}

// Play plays for so long, or until an invariant is violated.
func (w *World) Play(d time.Duration) { w.until(w.now.Add(d)) }

// Rest ends all trouble, plays until all is at rest, and checks what must be true
// then. It closes the world.
func (w *World) Rest() *Violation {
	w.rest(w.now)
	w.close("the run is over")
	return w.broken
}

// Violation is the first invariant that did not hold; nil if all did.
func (w *World) Violation() *Violation { return w.broken }

// Trace are the lines of what has happened, and the objects that there are.
func (w *World) Trace() []string { return append(w.lines, w.objects()) }

// Command is a program that somebody runs beside the managers: it gives way at
// its requests, as they do, and never runs at the same time as anything else.
type Command struct {
	// Control reads from, and writes to, the API server of the first management
	// cluster, Target that of the cluster with the nodes.
	Control, Target client.Client
	Clock           clock.PassiveClock

	task *task
	err  error
	over bool
}

// Start starts a command. kill is the number of the write at which it is killed,
// before or after that has had its effect, as the seed says; 0 is never. do must
// use the context that it gets, and wait by Command.Wait alone.
func (w *World) Start(name string, kill int, do func(ctx context.Context, c *Command) error) *Command {
	ctx, cancel := context.WithCancel(log.IntoContext(context.Background(), logr.Discard()))
	p := &process{
		world: w, home: w.homes[0], name: name, ctx: ctx, cancel: cancel, crashIn: kill,
		fence: fence.Alone(clockOf{w}),
	}
	c := &Command{
		Control: &mirror.Client{Server: w.Control, Wire: w.wireTo(w.Control), Schema: w.scheme},
		Target:  &mirror.Client{Server: w.Target, Wire: w.wireTo(w.Target), Schema: w.scheme}, Clock: clockOf{w},
	}
	inner := &mirror.Controller{Name: "command", Do: reconcile.Func(func(ctx context.Context,
		_ reconcile.Request,
	) (reconcile.Result, error) {
		c.err = do(ctx, c)
		c.over = true
		return reconcile.Result{}, nil
	})}
	p.controllers = []*controller{{Controller: inner, queue: newQueue(w.Now, nil)}}
	c.task = &task{process: p, controller: p.controllers[0], began: w.now}
	p.tasks = []*task{c.task}
	w.processes = append(w.processes, p)
	w.trace("%s starts", name)
	c.task.begin()
	return c
}

// isCommand reports whether p is no manager.
func (p *process) isCommand() bool { return len(p.groups) == 0 }

// Wait lets so much time pass. It is for the command itself.
func (c *Command) Wait(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.task.pause(d)
	return ctx.Err()
}

// Await plays until the command has ended or was killed, or for so long. It
// returns whether it has ended by itself, and with what error.
func (w *World) Await(c *Command, most time.Duration) (ended bool, err error) {
	end := w.now.Add(most)
	for !c.over && !c.task.dead && !c.task.process.dead && w.broken == nil && w.now.Before(end) {
		w.steps++
		w.step(end)
	}
	if c.task.panicked {
		return true, fmt.Errorf("panic: %s", c.task.crash)
	}
	return c.over, c.err
}

// Kill ends a command wherever it is.
func (w *World) Kill(c *Command) { w.crash(c.task.process, "it is killed") }

// close ends all processes.
func (w *World) close(why string) {
	for len(w.processes) > 0 {
		w.crash(w.processes[0], why)
	}
	for _, c := range w.idle {
		c.stop()
	}
	w.idle = nil
}
