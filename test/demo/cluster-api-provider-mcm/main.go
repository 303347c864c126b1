// Command cluster-api-provider-mcm, as the demo runs it, is the manager with the driver of the simulated
// cloud alone, and takes the manager's flags. A first build of it compiles no library of a real cloud.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
	"github.com/capmcm/cluster-api-provider-mcm/manager"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	options := manager.NewOptions("cluster-api-provider-mcm", "demo")
	flags := pflag.NewFlagSet(os.Args[0], pflag.ExitOnError)
	options.AddFlags(flags)
	_ = flags.Parse(os.Args[1:]) // it exits at an error
	if err := manager.Run(ctx, options, sim.NewDriver(nil)); err != nil {
		fmt.Fprintln(os.Stderr, "manager:", err)
		os.Exit(1)
	}
}
