// Command bench measures what machines cost, in pools on a real control plane and a
// simulated cloud: requests to the API server, from its audit log,
// and cloud calls, at the cloud's end; seconds, from a fleet's beginning to its
// last machine, of a machine and of a reconcile; CPU time; memory; and what a
// manager does that starts beside many machines.
//
// What a run finds is kept in docs/performance, and docs/performance.md shows
// all that is kept. The last line of the output is one JSON object; a cost over
// its bound makes the program fail.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/capmcm/cluster-api-provider-mcm/test/cluster"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := work(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench failed:", err)
		os.Exit(1)
	}
}

// work measures, keeps what it found, and fails if that is over a bound.
func work(ctx context.Context) error {
	ctrl.SetLogger(logr.Discard()) // of the watch; what goes wrong shows in what is waited for
	b := &bench{}
	flag.IntVar(&b.n, "n", 100, "number of machines")
	flag.IntVar(&b.pool, "pool", 10, "machines a pool")
	flag.DurationVar(&b.steady, "steady", 5*time.Minute, "how long to look on while nothing changes")
	flag.DurationVar(&b.within, "within", 2*time.Hour, "how long creating or rolling all machines may take")
	flag.DurationVar(&b.boot, "boot", bootTime, "how long the cloud takes to boot a VM")
	flag.StringVar(&b.createRate, "create-rate", "",
		"creations that the cloud allows, `per second:at once`, e.g. 2:5 as EC2 documents; the manager knows them")
	flag.StringVar(&b.profiles, "profiles", "", "`folder` for profiles of the manager in each phase; none is none")
	flag.BoolVar(&b.verbose, "v", false, "show what was asked for how often")
	keep := flag.Bool("keep", true,
		"keep what was found in docs/performance, and write docs/performance.md again; only pools of ten whose VMs boot in "+
			"10s are kept")
	docs := flag.Bool("docs", false, "measure nothing: only write docs/performance.md again from what is kept")
	flag.Parse()
	root, err := cluster.Root()
	if err != nil {
		return err
	}
	if *docs {
		return writeDocs(root)
	}
	if b.pool < 1 || b.n < b.pool || b.n%b.pool != 0 {
		return fmt.Errorf("-n=%d is no multiple of -pool=%d", b.n, b.pool)
	}
	found, err := b.run(ctx)
	if err != nil {
		return err
	}
	if b.createRate == "" { // one machine after the other takes more writes of status
		found.Violations = violations(found, earlier(root, found))
	}
	if *keep && b.pool == keptPool && b.createRate == "" && b.boot == bootTime {
		if err := errors.Join(found.write(root), writeDocs(root)); err != nil {
			return err
		}
	}
	return found.tell()
}

// tell prints the last line, and returns an error if a bound does not hold.
func (r *record) tell() error {
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	fmt.Println(string(line))
	if len(r.Violations) > 0 {
		return errors.New(strings.Join(r.Violations, "; "))
	}
	return nil
}
