package plan

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
}

// addZones gives the classes of a quarter of the seeds several zones, some of which
// have no room for a while, and which the user changes.
func (p *Plan) addZones() {
	const stream = 15 // of its own, as that of incidents
	r := rand.New(rand.NewPCG(p.Seed, stream))
	if p.Zones = r.IntN(4) == 0; !p.Zones {
		return
	}
	for range r.IntN(5) {
		what := "exhausted"
		if r.IntN(3) == 0 {
			what = "rezone"
		}
		p.Events = append(p.Events, Event{At: between(r, 0, p.Length), What: what, N: r.Uint32() >> 1, For: duration(r)})
	}
}

// addRegrets has the user of a fifth of the worlds with pools take back what he has asked
// for, while the manager that has begun to act upon it is replaced.
func (p *Plan) addRegrets() {
	const stream = 16
	r := rand.New(rand.NewPCG(p.Seed, stream))
	if len(p.Pools) == 0 || r.IntN(5) > 0 {
		return
	}
	pool := r.Uint32N(16) // both requests are about one pool
	ask := func(at time.Duration) {
		what := [...]string{"scale", "strategy"}[r.IntN(2)]
		p.Events = append(p.Events, Event{At: at, What: what, N: r.Uint32()>>5<<4 | pool, For: time.Second})
	}
	at := between(r, 0, p.Length)
	if r.IntN(2) == 0 {
		p.Events = append(p.Events, Event{At: at, What: "roll", N: r.Uint32()>>5<<4 | pool, For: time.Second})
	}
	at += between(r, 0, time.Minute)
	ask(at)
	killed := at + between(r, 0, 2*time.Second)
	p.Events = append(p.Events, Event{
		At: killed, What: "kill", N: r.Uint32() >> 1, For: between(r, time.Second, time.Minute),
	})
	ask(killed + between(r, 0, time.Minute))
}

// addRestores has a user of an eighth of the worlds restore the etcd of an API server, or of
// two, to how it was up to an hour ago. In half of them the pools had grown meanwhile, so
// that more VMs become unknown than can be expected of orphans.
func (p *Plan) addRestores() {
	const stream = 17 // with it, no recorded world that was once violated has a restore
	r := rand.New(rand.NewPCG(p.Seed, stream))
	if r.IntN(8) > 0 {
		return
	}
	for range 1 + r.IntN(2) {
		at := between(r, min(10*time.Minute, p.Length), p.Length)
		back := between(r, time.Minute, time.Hour)
		p.Events = append(p.Events, Event{At: at, What: "restore", N: r.Uint32() >> 1, For: back})
		if r.IntN(2) == 0 {
			grown := max(at-between(r, 0, back), 0)
			p.Events = append(p.Events, Event{At: grown, What: "grow", N: r.Uint32() >> 1, For: time.Second})
		}
	}
}

// addUnseenRestores has the cluster with the nodes restored, in an eighth of the worlds
// that have one, to the moment since which no cache has shown anything new, after a user
// has changed what Nodes are given. No cache goes back then, and a manager that only
// watches the nodes goes on.
func (p *Plan) addUnseenRestores() {
	const stream = 39 // with it, no recorded world that was once violated has one
	r := rand.New(rand.NewPCG(p.Seed, stream))
	if len(p.Pools) == 0 || !p.Split || r.IntN(8) > 0 {
		return
	}
	const ofNodes = 1                                  // the caches that "lag" stops
	onlyNodes := uint32(1)<<10 | (1+3*r.Uint32N(3))<<5 // the server that "restore" chooses, and for how long it is down
	at, unseen := between(r, 0, p.Length), between(r, time.Second, 10*time.Minute)
	p.Events = append(p.Events,
		Event{At: at, What: "lag", N: ofNodes, For: unseen + time.Minute},
		Event{At: at + between(r, 0, unseen), What: "node template", N: r.Uint32() >> 1, For: time.Second},
		Event{At: at + unseen, What: "restore", N: onlyNodes, For: unseen})
}

// addFullDisk fills the disk of an API server's etcd in an eighth of the worlds.
func (p *Plan) addFullDisk() {
	const stream = 35 // with it, no recorded world that was once violated has one
	r := rand.New(rand.NewPCG(p.Seed, stream))
	if r.IntN(8) == 0 {
		p.Events = append(p.Events, Event{
			At: between(r, 0, p.Length), What: "disk full", N: r.Uint32() >> 1, For: between(r, time.Minute, 10*time.Minute),
		})
	}
}

// addFallbacks has the pools of a quarter of the worlds fall back to the other classes, and
// some classes out of capacity for a while.
func (p *Plan) addFallbacks() {
	const stream = 955 // with it, no pool of a recorded world that was once violated falls back
	r := rand.New(rand.NewPCG(p.Seed, stream))
	if p.Fallbacks = r.IntN(4) == 0; !p.Fallbacks {
		return
	}
	for range 1 + r.IntN(4) {
		p.Events = append(p.Events, Event{
			At: between(r, 0, p.Length), What: "exhausted", N: r.Uint32() >> 1, For: between(r, time.Minute, time.Hour),
		})
	}
}

// addFallbackRestores has the management cluster of half of the worlds whose pools fall back
// restored to the seconds in which the machines of a growing pool fell back: afterwards no record
// names the VMs that other classes have made, and the class that was refused has capacity again.
func (p *Plan) addFallbackRestores() {
	const stream = 57963 // with it, no recorded world that was once violated has one
	r := rand.New(rand.NewPCG(p.Seed, stream))
	if !p.Fallbacks || r.IntN(2) == 0 {
		return
	}
	pools := append(slices.Clone(p.Pools), p.Workers...)
	pool := r.IntN(len(pools))
	zone, lacking := uint32(pools[pool].Class), between(r, time.Minute, 10*time.Minute)
	at := between(r, 0, p.Length)
	grown := at + between(r, 0, 20*time.Second)
	to := grown + between(r, 0, 20*time.Second)
	restored := at + lacking + between(r, 0, 5*time.Minute)
	management := r.Uint32() >> 1 // the servers that "restore" chooses
	for management>>3%3 == 0 {
		management += 1 << 3
	}
	p.Events = append(p.Events,
		Event{At: at, What: "exhausted", N: zone, For: lacking},
		Event{At: grown, What: "grow", N: r.Uint32()>>5<<4 | uint32(pool), For: time.Second},
		Event{At: restored, What: "restore", N: management, For: restored - to})
}

// addLateRequests has a request for a VM arrive late in half of the worlds whose pools fall
// back, after the same request was refused because there was no capacity.
func (p *Plan) addLateRequests() {
	const stream = 37 // with it, no recorded world that was once violated has one
	r := rand.New(rand.NewPCG(p.Seed, stream))
	if !p.Fallbacks || r.IntN(2) == 0 {
		return
	}
	for range 1 + r.IntN(2) {
		p.Events = append(p.Events, Event{
			At: between(r, 0, p.Length), What: "late request", N: r.Uint32() >> 1, For: between(r, time.Minute, time.Hour),
		})
	}
}

// between draws a duration.
func between(r *rand.Rand, from, to time.Duration) time.Duration {
	return from + time.Duration(r.Int64N(int64(to-from)+1))
}

// addReplacements has the pools of a quarter of the worlds replace machines in another way
// than by default.
func (p *Plan) addReplacements() {
	const stream = 245 // with it, the pools of recorded worlds that were once violated are as they were
	r := rand.New(rand.NewPCG(p.Seed, stream))
	if r.IntN(4) > 0 {
		return
	}
	for i := range p.Pools {
		p.Pools[i].Fallback = r.IntN(2) == 0
		p.Pools[i].Replacements = [...]string{"", "2", "50%"}[r.IntN(3)]
	}
}

// addFailingRollouts has the rollouts of a quarter of the worlds with pools pause where machines do
// not join, and rolls pools while none does.
func (p *Plan) addFailingRollouts() {
	const stream = 1583 // with it, no recorded world that was once violated pauses a rollout
	r := rand.New(rand.NewPCG(p.Seed, stream))
	if len(p.Pools) == 0 || r.IntN(4) > 0 {
		return
	}
	p.PauseFailing = true
	for range 1 + r.IntN(2) {
		at := between(r, 0, p.Length/2)
		p.Events = append(p.Events,
			Event{At: at, What: "roll", N: r.Uint32() >> 1, For: time.Second},
			Event{At: at, What: "no joins", N: r.Uint32() >> 1, For: between(r, 30*time.Minute, 2*time.Hour)})
		if r.IntN(2) == 0 {
			p.Events = append(p.Events, Event{
				At: between(r, at, p.Length), What: "resume rollouts", N: r.Uint32() >> 1, For: time.Second,
			})
		}
	}
}

// addOtherAccounts has the user of an eighth of the worlds give the classes credentials of another
// account for a while, in which machines are deleted, fail and are replaced. Not where an API server is
// restored: what that forgets of a VM cannot be looked up in another account. Not where pools fall back:
// the first machine of a class has no other that tells its account.
func (p *Plan) addOtherAccounts() {
	const stream = 204 // with it, no recorded world that was once violated has one
	r := rand.New(rand.NewPCG(p.Seed, stream))
	restored := slices.ContainsFunc(p.Events, func(e Event) bool { return e.What == "restore" })
	if r.IntN(8) > 0 || restored || p.Fallbacks {
		return
	}
	at, lasts := between(r, 5*time.Minute, p.Length), between(r, time.Minute, 30*time.Minute)
	p.Events = append(p.Events, Event{At: at, What: "other account", N: r.Uint32() >> 1, For: lasts})
	more := []string{"VM fails", "reclaim", "lost"}
	if len(p.Pools) > 0 {
		more = append(more, "delete machine", "scale", "roll")
	}
	if len(p.Workers) > 0 {
		more = append(more, "delete worker", "scale workers", "delete MCMMachine")
	}
	for range 1 + r.IntN(3) {
		p.Events = append(p.Events, Event{
			At: at + between(r, 0, lasts), What: more[r.IntN(len(more))], N: r.Uint32() >> 1, For: duration(r),
		})
	}
}

// addStrips has a tool of a sixth of the worlds remove annotations of objects, a few times. Not where
// the classes get the credentials of another account: a machine that is the only one of its class has
// its account on record alone.
func (p *Plan) addStrips() {
	const stream = 8792 // with it, no recorded world that was once violated has one
	r := rand.New(rand.NewPCG(p.Seed, stream))
	exchanged := slices.ContainsFunc(p.Events, func(e Event) bool { return e.What == "other account" })
	if r.IntN(6) > 0 || exchanged {
		return
	}
	for range 1 + r.IntN(6) {
		p.Events = append(p.Events, Event{
			At: between(r, 0, p.Length), What: "strip", N: r.Uint32() >> 1, For: time.Second,
		})
	}
}
