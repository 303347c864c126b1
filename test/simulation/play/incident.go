package play

import (
	"math/rand/v2"
	"slices"
	"time"
)

// incident is several events that come together. Of events that a plan draws one
// by one, two seldom meet within the seconds or minutes in which both matter.
type incident []part

// part is one event of an incident.
type part struct {
	what          string
	from, to      time.Duration // when it begins, after the incident does
	least, longer time.Duration // how long it lasts at least, and how much longer at most
}

// incidents are those of a world with these APIs.
func incidents(native, clusterAPI bool) []incident {
	const s, m = time.Second, time.Minute
	all := []incident{
		{
			{what: "slow requests", least: 10 * m, longer: 10 * m},
			{what: "hasty user", to: m, longer: m},
			{what: "hasty user", to: 5 * m, longer: m},
		},
		{{what: "copy by hand", least: s, longer: 25 * s}, {what: "look for orphans", to: 20 * s}},
		{{what: "zone cut", least: 15 * m, longer: 15 * m}, {what: "lost", to: 3 * m, least: 15 * m, longer: 5 * m}},
	}
	if native {
		lag := part{what: "lag", least: 2 * m, longer: 5 * m}
		all = append(all,
			incident{lag, {what: "delete machine", to: m}, {what: "delete machine", to: 2 * m}},
			incident{lag, {what: "scale", to: m}, {what: "roll", to: m}})
	}
	if clusterAPI {
		all = append(all,
			incident{
				{what: "pause cluster", least: 5 * m, longer: 10 * m},
				{what: "delete MCMMachine", to: 4 * m},
				{what: "delete MCMMachine", to: 4 * m},
			},
			incident{{what: "adopt", longer: 5 * m}, {what: "look for orphans", to: 5 * s}})
	}
	return all
}

// addIncidents adds up to two incidents to the plans of half of the seeds.
func (p *Plan) addIncidents() {
	// A stream of its own: what else a seed draws does not depend on it. With this one,
	// the recorded worlds that were once violated have no incident.
	const stream = 14
	r := rand.New(rand.NewPCG(p.Seed, stream))
	if r.IntN(2) == 0 {
		return
	}
	known := incidents(len(p.Pools) > 0, len(p.Workers) > 0)
	for range 1 + r.IntN(2) {
		begins := between(r, 0, p.Length)
		for _, e := range known[r.IntN(len(known))] {
			p.Events = append(p.Events, Event{
				At: begins + between(r, e.from, e.to), What: e.what, N: r.Uint32() >> 1,
				For: max(e.least+between(r, 0, e.longer), time.Second),
			})
		}
	}
	slices.SortFunc(p.Events, func(a, b Event) int { return int(a.At - b.At) })
}

// between draws a duration.
func between(r *rand.Rand, from, to time.Duration) time.Duration {
	return from + time.Duration(r.Int64N(int64(to-from)+1))
}
