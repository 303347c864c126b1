// Command demo shows the main job on a real control plane and the simulated
// cloud: machines from nothing to Running and back, each step verified against
// both. Then it stays up to be played with; with DEMO_ONESHOT=1 it ends by
// itself, with exit code 0 only if every step was verified. The programs that it
// starts are in its own folder: make demo builds them together.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/test/stack"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "\ndemo failed:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	d := &demo{began: time.Now()}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	d.say("starting etcd, kube-apiserver and the simulated cloud")
	d.Stack, err = stack.Start(ctx, stack.Options{
		Binaries: filepath.Dir(program),
		Cloud:    []string{"--latency=100ms", "--boot-time=2s", "--delete-time=1s"},
		// Periods that a person can wait for; the defaults are for production.
		Manager: []string{
			"--machine-safety-orphan-vms-period=5s", "--machine-health-timeout=30s",
			"--leader-elect-lease-duration=15s", "--v=1",
		},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Stop()) }()
	if err := d.steps(ctx); err != nil {
		return fmt.Errorf("%w\n%s", err, d.Logs())
	}
	d.say("every step was verified against the API server and the cloud")
	if os.Getenv("DEMO_ONESHOT") == "1" {
		return nil
	}
	d.invite()
	<-ctx.Done()
	return nil
}

// demo is the stack with what the steps share.
type demo struct {
	*stack.Stack
	began time.Time
}

func (d *demo) say(format string, args ...any) {
	fmt.Printf("[%5.1fs] %s\n", time.Since(d.began).Seconds(), fmt.Sprintf(format, args...))
}

func (d *demo) invite() {
	fmt.Printf(`
The cluster stays up until Ctrl-C. In another terminal:

  export KUBECONFIG=%s
  %s get machinedeployments,machinesets,machines,nodes
  %s scale machinedeployment sim --replicas=3

The simulated cloud answers at %s (see docs/clouds/sim.md), logs are in %s
`, d.Cluster.Kubeconfig(), d.Cluster.Kubectl(), d.Cluster.Kubectl(), d.Cloud.Endpoint, d.Dir())
}
