// Package outage tells nodes that were lost together from nodes that were lost
// one by one.
//
//	lost   ├──┤ window        two of a zone, or of a pool: an outage
//	─────x─────x──────────▶
//	lost   ├──┤
//	─────x───────────────x▶   two lone losses
//
// Whatever makes many nodes silent at once, a partition, a broken network plugin
// or a load balancer in front of the API server, is not mended by new VMs. All
// that is decided here follows from what the nodes themselves say and when they
// began to say it, so it comes out the same after a restart.
package outage

import (
	"slices"
	"time"
)

// Window is how far apart two losses may be and still belong together. Node
// controllers notice silence within a minute; a zone that goes dark goes in steps.
const Window = 5 * time.Minute

// A Loss is a machine whose node is unhealthy.
type Loss struct {
	Zone string // empty if unknown
	Pool string // empty if it has none
	// Signs are what is wrong with the node, by type of condition, and since when.
	Signs map[string]time.Time
}

// Place is where a machine is.
type Place struct{ Zone, Pool string }

// Scope is what an outage is an outage of.
type Scope uint8

// The scopes.
const (
	None Scope = iota
	Zone
	Pool
)

// Around reports whether there is an outage where a machine is: two losses of its
// zone, or of its pool, that show the same sign and began at most window apart,
// both at since or later. Zones come before pools.
func Around(p Place, losses []Loss, window time.Duration, since time.Time) Scope {
	of := func(in func(Loss) bool) bool {
		return together(losses, in, window, since)
	}
	switch {
	case p.Zone != "" && of(func(l Loss) bool { return l.Zone == p.Zone }):
		return Zone
	case p.Pool != "" && of(func(l Loss) bool { return l.Pool == p.Pool }):
		return Pool
	}
	return None
}

// together reports whether any two of the losses that are in belong together.
func together(losses []Loss, in func(Loss) bool, window time.Duration, since time.Time) bool {
	began := map[string][]time.Time{}
	for _, l := range losses {
		if !in(l) {
			continue
		}
		for sign, at := range l.Signs {
			if !at.Before(since) {
				began[sign] = append(began[sign], at)
			}
		}
	}
	for _, times := range began {
		slices.SortFunc(times, time.Time.Compare)
		for i := 1; i < len(times); i++ {
			if times[i].Sub(times[i-1]) <= window {
				return true
			}
		}
	}
	return false
}
