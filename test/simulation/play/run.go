package play

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/test/simulation/mirror"
	"github.com/capmcm/cluster-api-provider-mcm/test/simulation/plan"
)

// How a run goes: trouble until the plan ends, then time to settle, which is over
// when nothing was written for longer than orphans are left alone, then time in
// which nothing must happen any more.
const (
	settleFor = 5 * time.Hour // at most
	restFor   = 40 * time.Minute
	quietFor  = time.Hour
	mostSteps = 200000
)

// Run plays a plan. verbose keeps a trace.
func Run(p Plan, verbose bool) Report {
	w := Open(p, verbose)
	end := w.now.Add(p.Length)
	w.until(end)
	if !p.IgnoreOutages { // without the protection nothing is claimed
		w.rest(end)
	}
	w.close("the run is over")
	return w.report()
}

// rest ends the trouble and checks that all comes to rest.
func (w *World) rest(end time.Time) {
	w.heal()
	w.settle(end.Add(settleFor))
	w.inspect()
	w.restart()
	if w.contested { // what an old leader wrote last may be wrong until somebody looks again
		w.until(w.now.Add(restFor))
	}
	before := w.writes
	w.until(w.now.Add(quietFor))
	w.quiet(before)
}

// restart has every manager start over, with new caches and no memory: they look
// at everything once.
func (w *World) restart() {
	for _, p := range slices.Clone(w.processes) {
		if !p.isCommand() {
			w.crash(p, "it is restarted")
			w.startOne(p.home, p.groups)
		}
	}
}

// settle plays until all is at rest, or until that time.
func (w *World) settle(end time.Time) {
	for w.broken == nil && w.now.Before(end) {
		before := w.writes
		w.until(w.now.Add(restFor))
		if w.writes == before && w.check.Settled() {
			return
		}
	}
}

// until plays until that time.
func (w *World) until(end time.Time) {
	for w.broken == nil && w.now.Before(end) {
		if w.steps++; w.steps > mostSteps {
			w.violate("Livelock", errTooLong)
			return
		}
		w.step(end)
	}
}

// step does one thing.
func (w *World) step(end time.Time) {
	if len(w.timers.all) > 0 && !w.timers.all[0].at.After(w.now) {
		t := w.timers.all[0]
		w.timers.all = slices.Delete(w.timers.all, 0, 1)
		w.as(t.do)
		w.look()
		return
	}
	moves, next := w.moves()
	if len(moves) == 0 {
		w.advance(next, end)
		return
	}
	w.now = w.now.Add(w.between(time.Millisecond, 8*time.Millisecond))
	if w.chance(0.02) {
		w.now = w.now.Add(w.between(10*time.Millisecond, 2*time.Second))
	}
	m := moves[w.rng.IntN(len(moves))]
	switch {
	case m.informer != nil:
		w.deliver(m.informer)
	case m.task != nil:
		w.resume(m.task)
	default:
		w.reconcile(m.process, m.controller)
	}
	w.look()
}

// move is something that can be done now.
type move struct {
	process    *process
	informer   *mirror.Informer
	controller *controller
	task       *task
}

// moves are all that can be done now; next is when there will be more.
func (w *World) moves() (moves []move, next time.Time) {
	sooner := func(t time.Time) {
		if !t.IsZero() && t.After(w.now) && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	for _, p := range w.processes {
		for i, m := range p.mirrors {
			if until := w.weather.lagging(p, i); until.After(w.now) {
				sooner(until)
				continue
			}
			for _, informer := range m.Informers() {
				if informer.Behind() > 0 && !p.isBlind(informer.Kind()) {
					moves = append(moves, move{process: p, informer: informer})
				}
			}
		}
		for _, c := range p.controllers {
			sooner(c.queue.ripen())
			if c.active < min(c.Workers, workers) && c.queue.Len() > 0 {
				moves = append(moves, move{process: p, controller: c})
			}
		}
		for _, t := range p.tasks {
			if t.wake.After(w.now) {
				sooner(t.wake)
				continue
			}
			moves = append(moves, move{process: p, task: t})
		}
	}
	return moves, next
}

// advance moves the time to when the next thing happens.
func (w *World) advance(next, end time.Time) {
	if len(w.timers.all) > 0 && (next.IsZero() || w.timers.all[0].at.Before(next)) {
		next = w.timers.all[0].at
	}
	if next.IsZero() || next.After(end) {
		next = end
	}
	w.now = next
	w.look()
}

// deliver has an informer show what it has missed: mostly one change, sometimes
// all at once.
func (w *World) deliver(i *mirror.Informer) {
	if w.chance(0.05) {
		w.trace("informer of %s relists", i.Kind().Resource.Resource)
		i.Relist()
		return
	}
	n := 1
	if w.chance(0.5) {
		n = 1 + w.rng.IntN(i.Behind())
	}
	for range n {
		i.Next()
	}
}

// look is what is done after every step: the cloud moves on, and what has
// happened there is looked at.
func (w *World) look() {
	w.Cloud.Tick()
	for len(w.news) > 0 {
		news := w.news
		w.news = nil
		for _, r := range news {
			w.seen(r)
		}
	}
}

// inspect checks what must be true once trouble has ended long ago.
func (w *World) inspect() {
	if w.broken == nil {
		w.check.AtRest()
	}
}

// quiet checks that nothing was written for a long time in which nothing happened
// but that all managers started over.
func (w *World) quiet(before int) {
	if w.broken == nil && w.writes != before {
		w.violate("QuietAtRest", fmt.Errorf("%d requests to write in %s in which nothing happened but that the managers "+
			"started over", w.writes-before, quietFor))
	}
}

// Sweep plays that many seeds, several at a time, and returns the runs that
// violate an invariant, by seed. enough hears of each, from one goroutine at a
// time, and reports whether to stop early; nil is never.
func Sweep(first uint64, seeds, parallel int, enough func(Report) bool) []Report {
	var next atomic.Int64
	var stop atomic.Bool
	var mu sync.Mutex
	var found []Report
	var all sync.WaitGroup
	for range parallel {
		all.Go(func() {
			for !stop.Load() {
				i := next.Add(1) - 1
				if i >= int64(seeds) {
					return
				}
				r := Run(plan.New(first+uint64(i)), false)
				if r.Violation == nil {
					continue
				}
				mu.Lock()
				found = append(found, r)
				if enough != nil && enough(r) {
					stop.Store(true)
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	slices.SortFunc(found, func(a, b Report) int { return cmp.Compare(a.Seed, b.Seed) })
	return found
}

// Shrink looks for the fewest events with which the seed of a run still
// violates the same invariant. It returns that run, with its trace, and its plan.
func Shrink(r Report) (Report, Plan) { return shrink(r, Run) }

func shrink(r Report, run func(p Plan, verbose bool) Report) (Report, Plan) {
	full := plan.New(r.Seed)
	violates := func(events []Event) bool {
		p := full
		p.Events = events
		again := run(p, false)
		return again.Violation != nil && again.Violation.Rule == r.Violation.Rule
	}
	for size := max(len(full.Events)/2, 1); size >= 1; size /= 2 {
		for from := 0; from < len(full.Events); {
			fewer := slices.Delete(slices.Clone(full.Events), from, min(from+size, len(full.Events)))
			if violates(fewer) {
				full.Events = fewer
				continue
			}
			from += size
		}
	}
	return run(full, true), full
}
