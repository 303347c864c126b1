package play

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

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
	fmt.Fprintf(&b, "seed %d: %s, split %v, apart %v, moves %v, zones %v, boot %s, delete %s, %d pods\n",
		p.Seed, p.Length.Round(time.Second), p.Split, p.Apart, p.Moves, p.Zones, p.Boot, p.Delete, p.Pods)
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

// NewPlan is the plan of a seed.
func NewPlan(seed uint64) Plan {
	const stream = 1
	r := rand.New(rand.NewPCG(seed, stream))
	p := Plan{
		Seed: seed, Length: time.Duration(20+r.IntN(100)) * time.Minute, Split: r.IntN(2) == 0,
		Boot: time.Duration(r.IntN(60)) * time.Second, Delete: time.Duration(r.IntN(40)) * time.Second, Pods: r.IntN(5),
	}
	for range 1 + r.IntN(2) {
		pool := Pool{
			Replicas: int32(1 + r.IntN(4)), Surge: int32(r.IntN(3)), Unavailable: int32(r.IntN(2)),
			Class: r.IntN(classes), Recreate: r.IntN(10) == 0,
		}
		if pool.Surge == 0 && pool.Unavailable == 0 {
			pool.Surge = 1
		}
		p.Pools = append(p.Pools, pool)
	}
	p.open(r)
	menu := menu(len(p.Pools) > 0, len(p.Workers) > 0)
	// Each run knows only some kinds of trouble, and those more often.
	r.Shuffle(len(menu), func(i, j int) { menu[i], menu[j] = menu[j], menu[i] })
	menu = menu[:3+r.IntN(len(menu)-3)]
	for range 2 + r.IntN(14) {
		p.Events = append(p.Events, Event{
			At: time.Duration(r.Int64N(int64(p.Length))), What: menu[r.IntN(len(menu))], N: r.Uint32() >> 1, For: duration(r),
		})
	}
	p.addIncidents()
	p.addZones()
	p.addRegrets()
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

// reactionTime is the health timeout and a little more.
const reactionTime = 12 * time.Minute

// reactionTime is how long a manager may act upon what was true: the health timeout,
// and how far the caches can be behind.
func (p Plan) reactionTime() time.Duration {
	wait := reactionTime
	for _, e := range p.Events {
		if e.What == "lag" || e.What == "server down" {
			wait += e.For
		}
	}
	return wait
}

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

// between draws a duration.
func between(r *rand.Rand, from, to time.Duration) time.Duration {
	return from + time.Duration(r.Int64N(int64(to-from)+1))
}

// faults are what can happen, by name.
func faults() map[string]func(*World, Event) {
	all := commonFaults()
	maps.Copy(all, nativeFaults())
	maps.Copy(all, clusterAPIFaults())
	maps.Copy(all, incidentFaults())
	return all
}

// incidentFaults are those that come only in incidents, besides the others.
func incidentFaults() map[string]func(*World, Event) {
	return map[string]func(*World, Event){
		"copy by hand":     (*World).copyByHand,
		"slow requests":    func(w *World, e Event) { w.weather.slow = w.now.Add(e.For) },
		"look for orphans": func(w *World, e Event) { w.lookForOrphans(fmt.Sprint(e.N)) },
		"rezone":           (*World).rezone,
	}
}

// commonFaults are those that do not depend on an API.
func commonFaults() map[string]func(*World, Event) {
	return map[string]func(*World, Event){
		// The manager.
		"crash":        (*World).crashSoon,
		"kill":         (*World).kill,
		"two leaders":  (*World).twoLeaders,
		"blind leader": (*World).blindLeader,
		"lag":          (*World).lagBehind,
		// The API servers.
		"bad answers": func(w *World, e Event) {
			w.weather.storm[w.pickServer(e)], w.weather.odds = w.now.Add(e.For), 0.1+float64(e.N%8)/10
		},
		"server down": (*World).serverDown,
		"guarded":     func(w *World, e Event) { w.weather.guarded = w.now.Add(e.For) },
		// The cloud.
		"cloud rain": func(w *World, e Event) {
			w.weather.rain, w.weather.rainOdds = w.now.Add(e.For), 0.1+float64(e.N%8)/10
		},
		"cloud dark":  func(w *World, e Event) { w.weather.dark = w.now.Add(e.For) },
		"cloud fault": (*World).cloudFault,
		"exhausted":   (*World).exhaust,
		"quota":       (*World).quota,
		"slow cloud":  (*World).slowCloud,
		"stray VM":    (*World).stray,
		"hasty user":  (*World).hasty,
		// VMs and nodes.
		"reclaim": func(w *World, e Event) { w.onVM(e, func(id string) { w.Cloud.Reclaim(id) }) },
		"VM fails": func(w *World, e Event) {
			w.onVM(e, func(id string) { w.Cloud.Fail(id, "HardwareFailure", "the host has failed") })
		},
		"VM stops": func(w *World, e Event) { w.onVM(e, func(id string) { w.Cloud.Stop(id) }) },
		"zone cut": (*World).cutZone,
		"sick":     func(w *World, e Event) { w.onKubelet(e, func(k *kubelet, bad bool) { k.sick = bad }) },
		"lost":     func(w *World, e Event) { w.onKubelet(e, func(k *kubelet, bad bool) { k.lost = bad }) },
		// The user.
		"delete node":  (*World).deleteNode,
		"break class":  (*World).breakClass,
		"break secret": (*World).breakSecret,
	}
}

// nativeFaults are what a user of the native API does.
func nativeFaults() map[string]func(*World, Event) {
	return map[string]func(*World, Event){
		"scale":             (*World).scale,
		"roll":              (*World).roll,
		"pause":             (*World).pause,
		"node template":     (*World).nodeTemplate,
		"delete machine":    (*World).deleteMachine,
		"force deletion":    (*World).forceDeletion,
		"relabel":           (*World).relabel,
		"priority":          (*World).priority,
		"delete deployment": (*World).deleteDeployment,
		"strategy":          (*World).strategy,
	}
}

// menu are the names of what can happen to a world with these APIs.
func menu(native, clusterAPI bool) []string {
	all := commonFaults()
	if native {
		maps.Copy(all, nativeFaults())
	}
	if clusterAPI {
		maps.Copy(all, clusterAPIFaults())
	}
	return slices.Sorted(maps.Keys(all))
}
