package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/test/cluster/audit"
	"github.com/capmcm/cluster-api-provider-mcm/test/stack"
)

// measure says what a change of so many machines cost, everything included that
// follows from it.
func (b *bench) measure(ctx context.Context, name string, machines int, change func(context.Context) error) (phase,
	error,
) {
	before, err := b.look(ctx)
	if err != nil {
		return phase{}, err
	}
	b.crowd.times()
	stop := b.profile(ctx, name)
	if err := change(ctx); err != nil {
		return phase{}, err
	}
	seconds := time.Since(before.at).Seconds()
	stop()
	samples := b.crowd.times()
	cpu := since(before.cpu, cpuTimes())
	if err := b.quiet(ctx, name); err != nil {
		return phase{}, err
	}
	after, err := b.look(ctx)
	if err != nil {
		return phase{}, err
	}
	requests, err := b.requests(before.mark, after.mark, avoidable)
	if err != nil {
		return phase{}, err
	}
	b.show(name, requests)
	calls := increase(before.calls, after.calls)
	found := phase{
		Machines: machines, Seconds: seconds, CPUSeconds: cpu,
		ToRunning: quantilesOf(samples), OwnWork: quantilesOf(ownWork(samples, b.boot)),
		Requests: requests.byTarget(), RequestsPerMachine: float64(requests.total()) / float64(machines),
		CloudCalls: calls, CloudCallsPerMachine: float64(sum(calls)) / float64(machines),
		Reconcile: after.work.since(before.work).quantiles(),
	}
	found.print(name)
	return found, nil
}

// sight is what has been spent at a point of time.
type sight struct {
	at    time.Time
	mark  audit.Mark
	calls map[string]int // by operation
	work  histograms
	cpu   map[string]float64
}

func (b *bench) look(ctx context.Context) (s sight, err error) {
	if s.mark, err = b.Cluster.Mark(ctx); err != nil {
		return s, err
	}
	if s.calls, err = b.Cloud.CallsByOperation(ctx); err != nil {
		return s, err
	}
	if s.work, err = b.scrape(ctx); err != nil {
		return s, err
	}
	s.at, s.cpu = time.Now(), cpuTimes()
	return s, nil
}

// tally is how often what was asked for, and refused.
type tally struct{ asked, refused map[audit.Key]int }

func (t tally) total() int { return sum(t.asked) }

// byTarget are the counts by verb and resource.
func (t tally) byTarget() map[string]int {
	counts := map[string]int{}
	for key, n := range t.asked {
		counts[key.Verb+" "+key.Target] += n
	}
	return counts
}

func sum[K comparable](counts map[K]int) int {
	total := 0
	for _, n := range counts {
		total += n
	}
	return total
}

// increase is what came on top of before, without what did not change.
func increase(before, after map[string]int) map[string]int {
	more := map[string]int{}
	for key, n := range after {
		if n > before[key] {
			more[key] = n - before[key]
		}
	}
	return more
}

// requests are the manager's between two marks that all filters keep.
func (b *bench) requests(from, to audit.Mark, keep ...audit.Filter) (tally, error) {
	t := tally{map[audit.Key]int{}, map[audit.Key]int{}}
	ours := audit.User(stack.ManagerUser)
	err := b.Cluster.Audit().Each(from, to, func(e audit.Entry) {
		if !ours(e) || slices.ContainsFunc(keep, func(f audit.Filter) bool { return !f(e) }) {
			return
		}
		key := audit.Key{User: e.User, Verb: e.Verb, Target: e.Target()}
		t.asked[key]++
		if e.Code >= http.StatusBadRequest {
			t.refused[key]++
		}
	})
	return t, err
}

// quiet returns when the manager has asked for nothing but leases for some
// seconds: what trails behind a change belongs to it.
func (b *bench) quiet(ctx context.Context, what string) error {
	const silence = 5 * time.Second
	defer progress(what, func() string { return "waiting until the manager asks for nothing any more" })()
	ctx, cancel := context.WithTimeoutCause(ctx, b.within,
		errors.New("the manager goes on asking although nothing changes"))
	defer cancel()
	for {
		from, err := b.Cluster.Mark(ctx)
		if err != nil {
			return err
		}
		if err := wait(ctx, silence); err != nil {
			return context.Cause(ctx)
		}
		to, err := b.Cluster.Mark(ctx)
		if err != nil {
			return err
		}
		if asked, err := b.requests(from, to, avoidable); err != nil || asked.total() == 0 {
			return err
		}
	}
}

// lookOn counts what is asked for while nothing changes.
func (b *bench) lookOn(ctx context.Context) (steady, error) {
	before, err := b.look(ctx)
	if err != nil {
		return steady{}, err
	}
	stop := progress("steady", func() string { return "looking on for " + b.steady.String() })
	defer stop()
	if err := wait(ctx, b.steady); err != nil {
		return steady{}, err
	}
	after, err := b.look(ctx)
	if err != nil {
		return steady{}, err
	}
	asked, err := b.requests(before.mark, after.mark, avoidable)
	if err != nil {
		return steady{}, err
	}
	b.show("steady", asked)
	return steady{
		Requests: asked.total(), CloudCalls: sum(increase(before.calls, after.calls)),
		Seconds:    after.at.Sub(before.at).Seconds(),
		CPUSeconds: since(before.cpu, after.cpu),
	}, nil
}

// avoidable leaves out what has to be asked for whatever happens: renewals of
// watches and leases, and the safety probes of the API servers.
func avoidable(e audit.Entry) bool {
	probe := e.Name == "dummy_name" || e.Resource == "" && (e.URI == "/readyz" || e.URI == "/healthz" || e.URI == "/livez")
	return e.Verb != "watch" && e.Resource != "leases" && !probe
}

func (b *bench) show(name string, t tally) {
	if b.verbose {
		fmt.Printf("── %s: %d requests\n%s\n── of these were refused\n%s\n", name, t.total(), audit.Table(t.asked),
			audit.Table(t.refused))
	}
}

// since is what was spent between two looks.
func since(before, after map[string]float64) map[string]float64 {
	spent := maps.Clone(after)
	for program := range spent {
		spent[program] -= before[program]
	}
	return spent
}
