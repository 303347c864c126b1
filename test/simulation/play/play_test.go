package play

import (
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/capmcm/cluster-api-provider-mcm/test/simulation/plan"
)

// TestInvariantsHold plays the recorded worlds; `make simulate` plays fresh ones.
func TestInvariantsHold(t *testing.T) {
	t.Parallel()
	for _, seeds := range recorded(t) {
		if testing.Short() {
			seeds.count = min(seeds.count, 20)
		}
		for _, r := range Sweep(seeds.first, seeds.count, runtime.GOMAXPROCS(0), nil) {
			t.Errorf("seed %d violates %v\nrun `make simulate SEED=%d` to see how", r.Seed, r.Violation, r.Seed)
		}
	}
}

// TestFreshWorlds plays some worlds that were never played before.
func TestFreshWorlds(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("each world takes a tenth of a second")
	}
	const worlds = 100
	first := 1 + rand.Uint64N(1_000_000_000_000)
	t.Logf("first seed %d; `make simulate SEEDS=%d FIRST=%d` plays the same worlds", first, worlds, first)
	for _, r := range Sweep(first, worlds, runtime.GOMAXPROCS(0), nil) {
		t.Errorf("seed %d violates %v\nrun `make simulate SEED=%d` to see how", r.Seed, r.Violation, r.Seed)
	}
}

// span is some seeds in a row.
type span struct {
	first uint64
	count int
}

// recorded returns the seeds of testdata/recorded-seeds.txt.
func recorded(t *testing.T) []span {
	t.Helper()
	text, err := os.ReadFile("testdata/recorded-seeds.txt")
	if err != nil {
		t.Fatal(err)
	}
	var all []span
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		from, to, isRange := strings.Cut(line, "-")
		if !isRange {
			to = from
		}
		first, err := strconv.ParseUint(from, 10, 64)
		last, err2 := strconv.ParseUint(to, 10, 64)
		if err := errors.Join(err, err2); err != nil || first < 1 || last < first {
			t.Fatalf("%q is neither a seed nor a range of seeds: %v", line, err)
		}
		all = append(all, span{first, int(last-first) + 1})
	}
	return all
}

// TestEqualSeedsGiveEqualRuns plays seeds twice, alone and among others.
func TestEqualSeedsGiveEqualRuns(t *testing.T) {
	t.Parallel()
	for _, seed := range []uint64{1, 7, 42, 205} {
		first, second := Run(plan.New(seed), true), Run(plan.New(seed), true)
		if len(first.Trace) < 200 {
			t.Errorf("seed %d: only %d lines of trace: does anything happen?", seed, len(first.Trace))
		}
		for i, line := range first.Trace {
			if i >= len(second.Trace) || line != second.Trace[i] {
				t.Errorf("seed %d: line %d differs: %q", seed, i, line)
				break
			}
		}
		if silent := Run(plan.New(seed), false); silent.Steps != first.Steps {
			t.Errorf("seed %d takes %d steps, and %d while it is traced", seed, silent.Steps, first.Steps)
		}
	}
}

// TestPlansKnowAllTrouble makes sure that all that can happen is planned for some seed,
// and that what is planned can happen.
func TestPlansKnowAllTrouble(t *testing.T) {
	t.Parallel()
	if known := slices.Sorted(maps.Keys(faults())); !slices.Equal(known, plan.Names()) {
		t.Errorf("worlds know %v, and plans %v", known, plan.Names())
	}
	missing := plan.Names()
	for seed := range uint64(300) {
		for _, e := range plan.New(seed).Events {
			missing = slices.DeleteFunc(missing, func(name string) bool { return name == e.What })
		}
	}
	if len(missing) > 0 {
		t.Errorf("no plan has %s", strings.Join(missing, ", "))
	}
}

func TestViolationsAreFoundAndShrunk(t *testing.T) {
	t.Parallel()
	full := plan.New(11)
	r := Run(full, false)
	if r.Violation != nil {
		t.Fatalf("seed 11 violates %v", r.Violation)
	}
	blamed := Report{Seed: 11, Violation: &Violation{Rule: "Sabotage"}}
	short, left := shrink(blamed, func(p Plan, verbose bool) Report {
		r := Run(p, verbose)
		if slices.ContainsFunc(p.Events, func(e Event) bool { return e == full.Events[1] }) {
			r.Violation = blamed.Violation
		}
		return r
	})
	if len(left.Events) != 1 || left.Events[0] != full.Events[1] || short.Violation == nil || len(short.Trace) == 0 {
		t.Errorf("shrunk to %v, want only %v and its trace", left.Events, full.Events[1])
	}
}
