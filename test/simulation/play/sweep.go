package play

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
)

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
				r := Run(NewPlan(first+uint64(i)), false) //nolint:gosec // not negative
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
	plan := NewPlan(r.Seed)
	violates := func(events []Event) bool {
		p := plan
		p.Events = events
		again := run(p, false)
		return again.Violation != nil && again.Violation.Rule == r.Violation.Rule
	}
	for size := max(len(plan.Events)/2, 1); size >= 1; size /= 2 {
		for from := 0; from < len(plan.Events); {
			fewer := slices.Delete(slices.Clone(plan.Events), from, min(from+size, len(plan.Events)))
			if violates(fewer) {
				plan.Events = fewer
				continue
			}
			from += size
		}
	}
	return run(plan, true), plan
}
