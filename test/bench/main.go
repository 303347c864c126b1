// Command bench measures what machines cost: requests to the API server, from
// its audit log, and cloud calls, at the cloud's end, per machine; seconds; and
// the manager's CPU time and memory. The last line is one JSON object.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/test/cluster"
	"github.com/capmcm/cluster-api-provider-mcm/test/stack"
)

// result is the last line of the output.
type result struct {
	N             int     `json:"n"`
	Create        phase   `json:"create"`
	Roll          phase   `json:"roll"`
	Steady        steady  `json:"steady"`
	CPUSeconds    float64 `json:"cpuSeconds"`
	PeakMemoryMiB float64 `json:"peakMemoryMiB"`
}

// phase is what a change of all machines cost.
type phase struct {
	RequestsPerMachine   float64 `json:"requestsPerMachine"`
	CloudCallsPerMachine float64 `json:"cloudCallsPerMachine"`
	Seconds              float64 `json:"seconds"`
}

// steady is what it cost that nothing changed.
type steady struct {
	Requests int     `json:"requests"`
	Seconds  float64 `json:"seconds"`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	b := &bench{}
	flag.IntVar(&b.n, "n", 100, "number of machines")
	flag.DurationVar(&b.steady, "steady", 10*time.Minute, "how long to look on while nothing changes")
	flag.DurationVar(&b.within, "within", 30*time.Minute, "how long creating or rolling all machines may take")
	flag.BoolVar(&b.verbose, "v", false, "show what was asked for how often")
	flag.Parse()
	out, err := b.run(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench failed:", err)
		os.Exit(1)
	}
	line, err := json.Marshal(out)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench failed:", err)
		os.Exit(1)
	}
	fmt.Println(string(line))
}

// bench is one run.
type bench struct {
	n              int
	steady, within time.Duration
	verbose        bool

	*stack.Stack
	manager *stack.Manager
}

func (b *bench) run(ctx context.Context) (out result, err error) {
	binaries, err := stack.Build(ctx)
	if err != nil {
		return out, err
	}
	// Leases of more than some hundred nodes would measure the API server.
	lease := "--lease-period=10s"
	if b.n > 500 {
		lease = "--lease-period=5m"
	}
	b.Stack, err = stack.Start(ctx, stack.Options{
		Controllers: cluster.Controllers(), Audit: true, Binaries: binaries,
		Cloud: []string{"--latency=100ms", "--boot-time=1s", lease},
	})
	if err != nil {
		return out, err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("%w\n%s", err, b.Logs())
		}
		err = errors.Join(err, b.Stop())
	}()
	if b.manager, err = b.StartManager(); err != nil {
		return out, err
	}
	if err := b.warmUp(ctx); err != nil {
		return out, err
	}
	out.N = b.n
	if out.Create, err = b.measure(ctx, "create", b.create); err != nil {
		return out, err
	}
	if out.Roll, err = b.measure(ctx, "roll", b.roll); err != nil {
		return out, err
	}
	if out.Steady, err = b.lookOn(ctx); err != nil {
		return out, err
	}
	out.CPUSeconds, out.PeakMemoryMiB, err = usage(b.manager.PID())
	return out, err
}
