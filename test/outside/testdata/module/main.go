// Command outside is a manager with drivers that are not of this repository.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/capmcm/cluster-api-provider-mcm/manager"

	"example.com/outside/legacy"
	"example.com/outside/memory"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	options := manager.NewOptions("outside", "v1")
	options.AddFlags(pflag.CommandLine)
	pflag.Parse()
	if err := manager.Run(ctx, options, memory.NewDriver(nil), legacy.NewDriver(nil, nil)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
