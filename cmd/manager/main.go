// Command cluster-api-provider-mcm runs the controllers. It takes the flags of
// both binaries of Machine Controller Manager (MCM), machine-controller-manager
// and machine-controller, and does the work of both; it can also be installed
// under the first one's name.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/capmcm/cluster-api-provider-mcm/cmd/clouds"
	"github.com/capmcm/cluster-api-provider-mcm/manager"
)

const binary = "cluster-api-provider-mcm"

// The linker sets both. Without a commit, Go may have noted one in the program.
var version, commit = "devel", ""

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	if err := run(ctx, filepath.Base(os.Args[0]), os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %s\n", binary, strings.ReplaceAll(err.Error(), "\n", "; "))
		os.Exit(1)
	}
}

// run works until ctx ends, which is no error. It returns an error when it
// cannot begin, and when it may not go on: then the process has to end at once.
func run(ctx context.Context, name string, args []string, out io.Writer) error {
	options, err := parse(name, args, out)
	if errors.Is(err, pflag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	return manager.Run(ctx, options.Options, clouds.Drivers(options.drivers)...)
}

// options are the manager's, and those of the drivers of this program.
type options struct {
	*manager.Options
	drivers clouds.Options
}

// parse returns the options that args ask for. The help and the version go to out and
// are ErrHelp.
func parse(name string, args []string, out io.Writer) (*options, error) {
	o := &options{Options: manager.NewOptions(binary, version)}
	o.BuiltFrom(commit)
	flags := pflag.NewFlagSet(name, pflag.ContinueOnError)
	o.AddFlags(flags)
	flags.BoolVar(&o.drivers.Ambient, "ambient-credentials", false,
		"let a MachineClass whose Secret has no credentials use those of the manager: environment, web identity or "+
			"instance profile. Anyone who may create classes can use them then")
	flags.StringSliceVar(&o.drivers.TokenFolders, "token-folders", nil,
		"more folders of which a Secret may name files with tokens (workloadIdentityTokenFile), beside those of Gardener "+
			"and of the workload identity webhooks of AWS and Azure. What is in such a file is sent to the cloud of the class")
	flags.SetOutput(out)
	flags.Usage = func() {
		fmt.Fprintf(out, "%s runs the controllers of %s.\n\nFlags:\n%s", name, binary, flags.FlagUsages())
	}
	showVersion := flags.Bool("version", false, "print the version and exit")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if *showVersion {
		fmt.Fprintln(out, binary+"/"+version)
		return nil, pflag.ErrHelp
	}
	if rest := flags.Args(); len(rest) > 0 {
		return nil, fmt.Errorf("%q is not a flag", rest[0])
	}
	return o, o.drivers.Validate()
}
