// Command chaos proves on real processes that no machine is made, killed or lost
// that should not be: a control plane, two managers, the simulated cloud, and a
// seeded schedule of crashes, stops and faults while users roll, scale and delete.
// When the faults have stopped it judges the cloud's ledger and the audit log.
package main

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	o := options{settle: 6 * time.Minute, quiet: 20 * time.Second}
	flag.Float64Var(&o.minutes, "minutes", 10, "how long faults are injected")
	flag.Uint64Var(&o.seed, "seed", 0, "of the schedule; 0 is a random one")
	flag.StringVar(&o.dir, "dir", "", "`folder` for data and logs; empty is a new temporary one, which is kept if "+
		"something is wrong")
	flag.IntVar(&o.restores, "restores", 0, "how often etcd is restored from a backup of some time earlier")
	flag.DurationVar(&o.settle, "settle", o.settle, "how long everything may take to settle")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	result, err := run(ctx, o)
	if err != nil {
		fmt.Println("chaos:", err)
	}
	text, jsonErr := json.Marshal(result)
	if jsonErr != nil {
		fmt.Println("chaos:", jsonErr)
	}
	fmt.Println(string(text))
	if err != nil || result.Violations > 0 {
		os.Exit(1)
	}
}

// options say what is run.
type options struct {
	minutes       float64
	restores      int
	seed          uint64
	dir           string
	settle, quiet time.Duration
}

// result is the last line of output.
type result struct {
	Minutes    float64 `json:"minutes"`
	Kills      int     `json:"kills"`
	Faults     int     `json:"faults"`
	Violations int     `json:"violations"`
}

// run makes chaos, waits until it has settled, and judges what has happened.
func run(ctx context.Context, o options) (result, error) {
	out := result{Minutes: o.minutes}
	if o.seed == 0 {
		var b [8]byte
		_, _ = rand.Read(b[:]) // never fails
		o.seed = binary.BigEndian.Uint64(b[:]) >> 32
	}
	temporary := o.dir == ""
	if temporary {
		var err error
		if o.dir, err = os.MkdirTemp("", "chaos-"); err != nil {
			return out, err
		}
	}
	fmt.Printf("seed %d, logs in %s\n", o.seed, o.dir)
	c, err := start(ctx, o)
	if err != nil {
		return out, fmt.Errorf("start: %w; logs are in %s", err, o.dir)
	}
	found, err := c.play(ctx)
	out.Kills, out.Faults, out.Violations = c.kills, c.faults, len(found)
	if stopErr := c.stop(); err == nil {
		err = stopErr
	}
	if err != nil || len(found) > 0 {
		return out, wrong(err, o)
	}
	if temporary {
		err = os.RemoveAll(o.dir)
	}
	return out, err
}

// wrong says where to look.
func wrong(err error, o options) error {
	where := fmt.Sprintf("seed %d; journal.jsonl, the managers' and the cloud's logs are in %s, the audit log is in "+
		"%s/cluster", o.seed, o.dir, o.dir)
	if err == nil {
		return fmt.Errorf("an invariant is violated: %s", where)
	}
	return fmt.Errorf("%w: %s", err, where)
}

// play is a run.
func (c *chaos) play(ctx context.Context) ([]violation, error) {
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	go c.observer.run(watching)
	if err := c.populate(ctx); err != nil {
		return nil, fmt.Errorf("populate: %w", err)
	}
	c.say("── chaos for %.1f minutes", c.options.minutes)
	if err := c.storm(ctx); err != nil {
		return nil, fmt.Errorf("storm: %w", err)
	}
	c.say("── faults stop")
	if err := c.calm(ctx); err != nil {
		return nil, fmt.Errorf("calm: %w", err)
	}
	c.await(ctx)
	if len(c.restless) == 0 {
		if err := c.listen(ctx); err != nil {
			return nil, fmt.Errorf("listen: %w", err)
		}
	}
	if err := c.observer.look(ctx); err != nil {
		return nil, err
	}
	h, err := c.collect(ctx)
	if err != nil {
		return nil, fmt.Errorf("collect the history: %w", err)
	}
	c.say("judging %d Machines, %d VMs, %d requests of users", len(h.lives), len(h.vms), len(h.wishes))
	found := judge(h)
	c.report(h, found)
	return found, nil
}
