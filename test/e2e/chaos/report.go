package main

import (
	"fmt"
	"slices"
	"time"
)

// around is how much of the history is shown before and after a violation.
const around = 30 * time.Second

// report prints violations, each with what happened around it.
func (c *chaos) report(h *history, found []violation) {
	const clock = "15:04:05.000"
	all := slices.Concat(c.observer.journal(), h.chronicle())
	slices.SortStableFunc(all, func(a, b event) int { return a.At.Compare(b.At) })
	for _, v := range found {
		fmt.Printf("\nVIOLATION of %q at %s: %s\n", v.invariant, v.at.UTC().Format(clock), v.what)
		for _, e := range near(all, v.at) {
			fmt.Printf("    %s %s\n", e.At.UTC().Format(clock), e.Text)
		}
	}
}

// near returns the events around a time.
func near(all []event, at time.Time) []event {
	return slices.DeleteFunc(slices.Clone(all), func(e event) bool {
		return e.At.Before(at.Add(-around)) || e.At.After(at.Add(around))
	})
}

// chronicle tells what the audit log and the ledger say, in no order.
func (h *history) chronicle() []event {
	var all []event
	add := func(at time.Time, format string, args ...any) {
		if !at.IsZero() {
			all = append(all, event{At: at, Text: fmt.Sprintf(format, args...)})
		}
	}
	for _, l := range h.lives {
		add(l.asked, "[audit] Machine %s of class %s is created by %s", l.name, l.class, l.maker)
		add(l.ended, "[audit] Machine %s of class %s is deleted by %s", l.name, l.class, l.ender)
	}
	for _, v := range h.vms {
		add(v.made, "[cloud] VM %s of %s (owner id %s) is made", v.id, v.name, v.owner)
		add(v.deleting, "[cloud] VM %s of %s is deleted by %s", v.id, v.name, v.goneBy)
		add(v.gone, "[cloud] VM %s of %s is gone", v.id, v.name)
	}
	for _, w := range h.wishes {
		add(w.done, "[user] pool %s is to have %d of class %s", w.pool, w.replicas, w.class)
	}
	return all
}
