// Command kubectl-mcm is a plugin of kubectl: kubectl mcm. It explains what machines wait
// for, moves pools of machines between the two APIs of this project, reports whether a fleet of
// Machine Controller Manager's can be taken over and given back, and recovers the machines
// of VMs that have lost theirs.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/capmcm/cluster-api-provider-mcm/cmd/kubectl-mcm/bundle"
	"github.com/capmcm/cluster-api-provider-mcm/cmd/kubectl-mcm/console"
	"github.com/capmcm/cluster-api-provider-mcm/cmd/kubectl-mcm/dashboard"
	"github.com/capmcm/cluster-api-provider-mcm/cmd/kubectl-mcm/inspect"
	"github.com/capmcm/cluster-api-provider-mcm/cmd/kubectl-mcm/output"
	"github.com/capmcm/cluster-api-provider-mcm/cmd/kubectl-mcm/plan"
	"github.com/capmcm/cluster-api-provider-mcm/cmd/kubectl-mcm/userdata"
	"github.com/capmcm/cluster-api-provider-mcm/cmd/kubectl-mcm/validate"
)

// version is set by the linker.
var version = "devel"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	ctrl.SetLogger(klog.Background())
	if err := newRoot(connect).ExecuteContext(ctx); err != nil {
		os.Exit(exitCode(os.Stderr, err))
	}
}

// exitCode is that of a command that returned err, which is printed if it is a failure.
func exitCode(out io.Writer, err error) int {
	if code, ok := errors.AsType[output.ExitCodeError](err); ok {
		return int(code)
	}
	fmt.Fprintln(out, "kubectl mcm:", err)
	if coded, ok := errors.AsType[*output.CodedError](err); ok {
		return coded.Code
	}
	return 1
}

// newRoot is the command with all that is below it. connector reaches the clusters.
func newRoot(connector connector) *cobra.Command {
	root := &cobra.Command{
		Use:     "kubectl-mcm",
		Short:   "Explain pools of machines, move them between the native API and Cluster API, and recover lost machines",
		Version: version, SilenceUsage: true, SilenceErrors: true,
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl mcm"},
	}
	c := &common{connect: connector}
	c.addFlags(root.PersistentFlags())
	root.AddCommand(newMigrate(c), newTakeover(c), newOrphans(c), newRecover(c))
	readers := inspect.Deps{Connect: c.readers, Now: time.Now, APIServer: c.apiServer}
	root.AddCommand(inspect.Commands(readers)...)
	root.AddCommand(plan.New(plan.Deps{Connect: c.planners, Now: time.Now, Complete: readers.CompletePool}))
	root.AddCommand(bundle.New(readers, version), validate.New(c.writtenNamespace), console.New(readers.Kept),
		userdata.New(), dashboard.New(readers))
	return root
}

// onlyHelps makes a command whose work is done by those below it fail for a word that
// is none of them; without one it helps.
func onlyHelps(cmd *cobra.Command) *cobra.Command {
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return fmt.Errorf("unknown command %q for %q: --help tells those that there are", args[0], cmd.CommandPath())
		}
		return cmd.Help()
	}
	return cmd
}
