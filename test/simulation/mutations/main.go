// Command mutations puts deliberate mistakes into the product, one at a time, and
// reports which invariant the simulation finds each with, and after how many
// worlds. Each mistake is an edit of a named function (list.go), made when the
// simulation is built; the product itself has no switches for that.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/test/cluster"
)

// worlds is within how many each mistake must be found, worldsOfRare within how many one
// that matters only where several events meet within seconds.
const (
	worlds       = 2000
	worldsOfRare = 10000
)

// rare are the names of these.
var rare = []string{
	"no VM is looked for that a restore has made unknown",
	"a set deletes machines that its deployment needs again",
}

// within is in how many worlds the mutation of that name has to be found, if asked is 0.
func within(name string, asked int) int {
	switch {
	case asked > 0:
		return asked
	case slices.Contains(rare, name):
		return worldsOfRare
	}
	return worlds
}

func main() {
	only := flag.String("only", "", "only the mutations whose name has this in it")
	seeds := flag.Int("seeds", 0, "in how many worlds each has to be found; 0 is 2000, or 10000 for those that are rare")
	first := flag.Uint64("first", 0, "the seed of the first world; 0 draws one at random")
	flag.Parse()
	if *first == 0 {
		*first = 1 + rand.Uint64N(1_000_000_000)
	}
	if err := run(context.Background(), os.Stdout, *only, *first, *seeds); err != nil {
		fmt.Fprintln(os.Stderr, "mutations:", err)
		os.Exit(1)
	}
}

// run prints a row of docs/proof.md for each mutation.
func run(ctx context.Context, out io.Writer, only string, first uint64, seeds int) error {
	root, err := cluster.Root()
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "first seed %d\n\n| deliberate bug | found by | after worlds |\n|---|---|---|\n", first)
	var failed error
	for _, m := range Mutations() {
		if !strings.Contains(m.Name, only) {
			continue
		}
		began := time.Now()
		rule, after, err := m.Find(ctx, root, first, within(m.Name, seeds))
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", m.Name, err))
			rule, after = "**not found**", within(m.Name, seeds)
		}
		fmt.Fprintf(out, "| %s | %s | %d |\n", m.Name, rule, after)
		fmt.Fprintf(os.Stderr, "%s: %s\n", m.Name, time.Since(began).Round(time.Second))
	}
	return failed
}
