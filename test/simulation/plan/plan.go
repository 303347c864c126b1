// Package plan draws what is to happen to a simulated world: how it begins, and which
// faults and requests of users come when. Equal seeds give equal plans.
package plan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Classes is how many classes there are.
const Classes = 3

// Plan is what is to happen to a world, beside what follows by itself.
type Plan struct {
	Seed         uint64
	Length       time.Duration // of the time of trouble
	Split        bool          // the nodes are in another cluster
	Boot, Delete time.Duration // of VMs
	Pods         int
	Pools        []Pool // of the native API
	Workers      []Pool // of Cluster API
	Apart        bool   // each API has a manager of its own
	Moves        bool   // there is a second management cluster
	Zones        bool   // classes name several zones
	Fallbacks    bool   // pools fall back to the other classes
	PauseFailing bool   // rollouts pause whose machines do not join
	Events       []Event

	// IgnoreOutages takes the protection from outages away.
	IgnoreOutages bool
	// AllJoin reports whether every VM joins soon.
	AllJoin bool
}

// Pool is a MachineDeployment.
type Pool struct {
	Replicas, Surge, Unavailable int32
	Class                        int
	Recreate                     bool
	// Fallback lets a rollout delete a machine first where there is no capacity for surge.
	Fallback bool
	// Replacements is how many unhealthy machines are replaced at a time; "" is one.
	Replacements string
}

// Event is something that goes wrong, or that a user does.
type Event struct {
	At   time.Duration
	What string
	N    uint32        // chooses among what there is
	For  time.Duration // how long it lasts
}

func (e Event) String() string {
	return fmt.Sprintf("%s %s (%d) for %s", e.At.Round(time.Second), e.What, e.N, e.For.Round(time.Second))
}

// String is the plan in a few lines.
func (p Plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: %s, split %v, apart %v, moves %v, zones %v, fallbacks %v, pause failing %v, boot %s, "+
		"delete %s, %d pods\n", p.Seed, p.Length.Round(time.Second), p.Split, p.Apart, p.Moves, p.Zones, p.Fallbacks,
		p.PauseFailing, p.Boot, p.Delete, p.Pods)
	for i, pool := range p.Pools {
		fmt.Fprintf(&b, "  pool %d: %+v\n", i, pool)
	}
	for i, pool := range p.Workers {
		fmt.Fprintf(&b, "  workers %d: %+v\n", i, pool)
	}
	for _, e := range p.Events {
		fmt.Fprintf(&b, "  %s\n", e)
	}
	return b.String()
}

// New is the plan of a seed.
func New(seed uint64) Plan {
	const stream = 1
	r := rand.New(rand.NewPCG(seed, stream))
	p := Plan{
		Seed: seed, Length: time.Duration(20+r.IntN(100)) * time.Minute, Split: r.IntN(2) == 0,
		Boot: time.Duration(r.IntN(60)) * time.Second, Delete: time.Duration(r.IntN(40)) * time.Second, Pods: r.IntN(5),
	}
	for range 1 + r.IntN(2) {
		pool := Pool{
			Replicas: int32(1 + r.IntN(4)), Surge: int32(r.IntN(3)), Unavailable: int32(r.IntN(2)),
			Class: r.IntN(Classes), Recreate: r.IntN(10) == 0,
		}
		if pool.Surge == 0 && pool.Unavailable == 0 {
			pool.Surge = 1
		}
		p.Pools = append(p.Pools, pool)
	}
	p.open(r)
	names := p.menu()
	// Each run knows only some kinds of trouble, and those more often.
	r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	names = names[:3+r.IntN(len(names)-3)]
	for range 2 + r.IntN(14) {
		p.Events = append(p.Events, Event{
			At: time.Duration(r.Int64N(int64(p.Length))), What: names[r.IntN(len(names))], N: r.Uint32() >> 1, For: duration(r),
		})
	}
	p.addIncidents()
	p.addZones()
	p.addRegrets()
	p.addRestores()
	p.addUnseenRestores()
	p.addFullDisk()
	p.addReplacements()
	p.addFallbacks()
	p.addLateRequests()
	p.addFallbackRestores()
	p.addFailingRollouts()
	p.addOtherAccounts()
	p.addStrips()
	slices.SortFunc(p.Events, func(a, b Event) int { return int(a.At - b.At) })
	return p
}

// open serves one of the APIs, or both: half of the worlds have only the native
// one, and one of six has both.
func (p *Plan) open(r *rand.Rand) {
	switch draw := r.IntN(6); {
	case draw < 3:
		return
	case draw < 5:
		p.Workers, p.Pools = p.Pools, nil
		if p.Moves = r.IntN(2) == 0; p.Moves {
			p.Split = true
		}
	default:
		p.Workers = []Pool{p.Pools[len(p.Pools)-1]}
		p.Pools = p.Pools[:1]
		p.Apart = r.IntN(2) == 0
	}
}

// duration is a few seconds to half an hour, shorter ones more often.
func duration(r *rand.Rand) time.Duration {
	longest := [...]time.Duration{5 * time.Second, time.Minute, 6 * time.Minute, 30 * time.Minute}[r.IntN(4)]
	return time.Second + time.Duration(r.Int64N(int64(longest)))
}

// ReactionTime is the health timeout and a little more.
const ReactionTime = 12 * time.Minute

// ReactionTime is how long a manager may act upon what was true: the health timeout,
// and how far the caches can be behind.
func (p Plan) ReactionTime() time.Duration {
	wait := ReactionTime
	for _, e := range p.Events {
		if e.What == "lag" || e.What == "server down" {
			wait += e.For
		}
	}
	return wait
}
