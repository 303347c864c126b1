// Package outage distinguishes nodes that became unhealthy together from nodes that
// became unhealthy one by one.
//
//	       ├─────┤ window     two of a zone, or of a pool: an outage
//	─────x─────x──────────▶
//	       ├─────┤
//	─────x───────────────x▶   two separate failures
//
// New VMs do not repair what makes many nodes unhealthy at once: a network partition, a
// broken network plugin, or a load balancer in front of the API server. The decision
// follows from the conditions of the nodes and their transition times alone, so it is
// the same after a restart.
package outage

import (
	"slices"
	"time"
)

// Window is how far apart two failures of one outage may be. Node controllers notice a
// silent kubelet within a minute, and a zone fails in steps.
const Window = 5 * time.Minute

// A Loss is a machine with an unhealthy node.
type Loss struct {
	Zone string // empty if unknown
	Pool string // empty if it has none
	// Signs has the conditions that make the node unhealthy, and since when.
	Signs map[string]time.Time
}

// Place is the zone and the pool of a machine.
type Place struct{ Zone, Pool string }

// Scope is the extent of an outage.
type Scope uint8

// The scopes.
const (
	None Scope = iota
	Zone
	Pool
)

// Around returns the scope of the outage that a machine is in, or None: at least two
// losses of its zone, or of its pool, have the same sign, and began at most window
// apart, at since or later. Zones take precedence over pools.
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

// together reports whether any two of the losses for which in is true belong to one
// outage.
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
