// Command simulation runs the real controllers in simulated worlds, one for each
// seed, and checks the invariants of docs/proof.md after every step. Equal seeds
// give equal runs. Its last line of output is one JSON object.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/test/simulation/play"
)

// result is the last line.
type result struct {
	Seeds          int     `json:"seeds"`
	Violations     int     `json:"violations"`
	SecondsPer1000 float64 `json:"secondsPer1000"`
}

var errViolations = errors.New("an invariant was violated")

func main() {
	seeds := flag.Int("seeds", 1000, "how many seeds to run")
	first := flag.Uint64("first", 1, "the first seed")
	seed := flag.Uint64("seed", 0, "run only this seed, and print what happens")
	find := flag.Bool("find", false, "end with the first violation, and say only what it is")
	flag.Parse()
	debug.SetGCPercent(400) // many small objects, none of which lives long
	if *find {
		search(os.Stdout, *seeds)
		return
	}
	if err := run(os.Stdout, *seeds, *first, *seed); err != nil {
		fmt.Fprintln(os.Stderr, "simulation:", err)
		os.Exit(1)
	}
}

func run(out io.Writer, seeds int, first, seed uint64) error {
	began := time.Now()
	var found []play.Report
	if seed != 0 {
		seeds = 1
		report := play.Run(play.NewPlan(seed), true)
		fmt.Fprintln(out, play.NewPlan(seed))
		fmt.Fprintln(out, strings.Join(report.Trace, "\n"))
		if report.Violation != nil {
			found = append(found, report)
		}
	} else {
		found = play.Sweep(first, seeds, runtime.GOMAXPROCS(0), announce(out))
	}
	for _, r := range found[:min(len(found), 10)] {
		tell(out, r)
	}
	line, err := json.Marshal(result{seeds, len(found), time.Since(began).Seconds() * 1000 / float64(max(seeds, 1))})
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

// search says which invariant is violated first.
func search(out io.Writer, seeds int) {
	found := play.Sweep(1, seeds, runtime.GOMAXPROCS(0), func(play.Report) bool { return true })
	if len(found) == 0 {
		fmt.Fprintln(out, "found nothing")
		return
	}
	fmt.Fprintf(out, "found %s after %d seeds: %v\n", found[0].Violation.Rule, found[0].Seed, found[0].Violation)
}

// tell prints a violation: the shortest history that was found, how it ends,
// and the objects.
func tell(out io.Writer, r play.Report) {
	const tail = 60
	short, plan := play.Shrink(r)
	fmt.Fprintf(out, "\nseed %d violates %v\n", r.Seed, r.Violation)
	fmt.Fprintf(out, "with fewer events (of %d): %v\n%s", len(play.NewPlan(r.Seed).Events), short.Violation, plan)
	fmt.Fprintln(out, strings.Join(short.Trace[max(len(short.Trace)-tail, 0):], "\n"))
	fmt.Fprintln(out, short.Objects)
}
