// Command simulation runs the real controllers in simulated worlds, one for each
// seed, and checks the invariants of docs/proof.md after every step. Equal seeds
// give equal runs. The first seed is drawn at random unless it is given, so that
// a claim is made about worlds that were never played before. The first line of
// output is that seed, the last one is a JSON object.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"strings"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/test/simulation/plan"
	"github.com/capmcm/cluster-api-provider-mcm/test/simulation/play"
)

// result is the last line.
type result struct {
	Seeds          int     `json:"seeds"`
	Violations     int     `json:"violations"`
	SecondsPer1000 float64 `json:"secondsPer1000"`
	First          uint64  `json:"first"`
}

var errViolations = errors.New("an invariant was violated")

func main() {
	seeds := flag.Int("seeds", 1000, "how many seeds to run")
	first := flag.Uint64("first", 0, "the first seed; 0 draws one at random")
	seed := flag.Uint64("seed", 0, "run only this seed, and print what happens")
	find := flag.Bool("find", false, "end with the first violation, and report only which it is")
	profile := flag.String("cpuprofile", "", "write a CPU profile to this file")
	flag.Parse()
	debug.SetGCPercent(400) // many small objects, none of which lives long
	if *first == 0 {
		*first = draw()
	}
	err := profiled(*profile, func() error {
		switch {
		case *find:
			return search(os.Stdout, *first, *seeds)
		case *seed != 0:
			return repeat(os.Stdout, *seed)
		}
		return run(os.Stdout, *first, *seeds)
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "simulation:", err)
		os.Exit(1)
	}
}

// draw returns the first of some seeds that were most likely never played.
func draw() uint64 {
	const most = 1_000_000_000_000
	return 1 + rand.Uint64N(most)
}

// profiled writes a CPU profile of do; an empty path writes none.
func profiled(path string, do func() error) error {
	if path == "" {
		return do()
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return err
	}
	err = do()
	pprof.StopCPUProfile()
	return errors.Join(err, f.Close())
}

// run plays fresh worlds.
func run(out io.Writer, first uint64, seeds int) error {
	fmt.Fprintf(out, "first seed %d\n", first)
	began := time.Now()
	found := play.Sweep(first, seeds, runtime.GOMAXPROCS(0), announce(out))
	return finish(out, began, first, seeds, found)
}

// repeat plays one world and prints what happens in it.
func repeat(out io.Writer, seed uint64) error {
	began := time.Now()
	report := play.Run(plan.New(seed), true)
	fmt.Fprintln(out, plan.New(seed))
	fmt.Fprintln(out, strings.Join(report.Trace, "\n"))
	var found []play.Report
	if report.Violation != nil {
		found = append(found, report)
	}
	return finish(out, began, seed, 1, found)
}

// finish prints the violations and the last line.
func finish(out io.Writer, began time.Time, first uint64, seeds int, found []play.Report) error {
	perSeed := time.Since(began).Seconds() / float64(max(seeds, 1))
	for _, r := range found[:min(len(found), 10)] {
		tell(out, r)
	}
	line, err := json.Marshal(result{seeds, len(found), perSeed * 1000, first})
	if err != nil {
		return err
	}
	fmt.Fprintln(out, string(line))
	if len(found) > 0 {
		return errViolations
	}
	return nil
}

// announce prints each violation as it is found, all of them and in no order: a
// long run that is broken off has still said something.
func announce(out io.Writer) func(play.Report) bool {
	return func(r play.Report) bool {
		fmt.Fprintf(out, "seed %d violates %s\n", r.Seed, r.Violation.Rule)
		return false
	}
}

// search reports which invariant is violated first.
func search(out io.Writer, first uint64, seeds int) error {
	found := play.Sweep(first, seeds, runtime.GOMAXPROCS(0), func(play.Report) bool { return true })
	if len(found) == 0 {
		fmt.Fprintln(out, "found nothing")
		return nil
	}
	r := found[0]
	fmt.Fprintf(out, "found %s after %d worlds: %v\n", r.Violation.Rule, r.Seed-first+1, r.Violation)
	return nil
}

// tell prints a violation: the shortest history that was found, how it ends,
// and the objects.
func tell(out io.Writer, r play.Report) {
	const tail = 60
	short, left := play.Shrink(r)
	fmt.Fprintf(out, "\nseed %d violates %v\n", r.Seed, r.Violation)
	fmt.Fprintf(out, "with fewer events (of %d): %v\n%s", len(plan.New(r.Seed).Events), short.Violation, left)
	fmt.Fprintln(out, strings.Join(short.Trace[max(len(short.Trace)-tail, 0):], "\n"))
	fmt.Fprintln(out, short.Objects)
}
