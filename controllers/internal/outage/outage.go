// Package outage tells nodes that became unhealthy together from nodes that did
// so one by one.
//
//	unhealthy  ├──┤ window        two of a zone, or of a pool: an outage
//	─────────x─────x──────────▶
//	unhealthy  ├──┤
//	─────────x───────────────x▶   two independent failures
//
// New VMs do not fix what makes many nodes unreachable at once: a partition, a
// broken network plugin, or a load balancer in front of the API server. Everything
// here follows from the nodes' conditions and their transition times, so it comes
// out the same after a restart.
package outage

import (
	"slices"
	"time"
)

// Window is how far apart two losses may be and still belong together. Node
// controllers notice an unreachable node within a minute; zones fail in steps.
const Window = 5 * time.Minute

// A Loss is a machine with an unhealthy node.
type Loss struct {
	Zone string // empty if unknown
	Pool string // empty if it has none
	// Signs are the conditions that make the node unhealthy, and since when.
	Signs map[string]time.Time
}

// Place is the zone and the pool of a machine.
type Place struct{ Zone, Pool string }

// Scope is what fails as a whole in an outage.
type Scope uint8

// The scopes.
const (
	None Scope = iota
	Zone
	Pool
)

// Around returns the scope of the outage where a machine is, and how many nodes
// became unhealthy together: at least two of its zone, or of its pool, that show
// the same sign, each at most window after the one before, all at since or later.
// Zones come before pools.
func Around(p Place, losses []Loss, window time.Duration, since time.Time) (Scope, int) {
	if p.Zone != "" {
		if n := together(losses, func(l Loss) bool { return l.Zone == p.Zone }, window, since); n > 0 {
			return Zone, n
		}
	}
	if p.Pool != "" {
		if n := together(losses, func(l Loss) bool { return l.Pool == p.Pool }, window, since); n > 0 {
			return Pool, n
		}
	}
	return None, 0
}

// together returns the size of the largest group of losses that belong together,
// among those that in is true for; 0 if no two do.
func together(losses []Loss, in func(Loss) bool, window time.Duration, since time.Time) int {
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
	largest := 0
	for _, times := range began {
		slices.SortFunc(times, time.Time.Compare)
		group := 1
		for i := 1; i < len(times); i++ {
			if times[i].Sub(times[i-1]) > window {
				group = 1
				continue
			}
			group++
			largest = max(largest, group)
		}
	}
	return largest
}
