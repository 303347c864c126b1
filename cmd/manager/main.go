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
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/spf13/pflag"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

const binary = "cluster-api-provider-mcm"

// version is set by the linker.
var version = "devel"

func userAgent() string { return binary + "/" + version }

// garbagePercent is how much garbage there may be, of what lives, before it is
// collected. Most of what lives are caches, which grow with the machines and change
// little: Go's usual 100 would double them, and CPU time is not what is short.
const garbagePercent = 50

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbagePercent)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	err := run(ctx, filepath.Base(os.Args[0]), os.Args[1:], os.Stdout)
	klog.Flush()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %s\n", binary, strings.ReplaceAll(err.Error(), "\n", "; "))
		os.Exit(1)
	}
}

// run works until ctx ends, which is no error. It returns an error when it
// cannot begin, and when it may not go on: then the process has to end at once.
func run(ctx context.Context, name string, args []string, out io.Writer) error {
	o, flags, err := parse(name, args, out)
	if errors.Is(err, pflag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := logsapi.ValidateAndApply(o.logs, nil); err != nil {
		return fmt.Errorf("flags of logging: %w", err)
	}
	ctrl.SetLogger(klog.Background())
	klog.Background().Info("Starting", "version", version, "namespace", o.clusters.namespace)
	return o.work(ctx, flags)
}

// work does what run does, once the flags are read and logging is set up, which
// can be done only once in a process.
func (o *options) work(ctx context.Context, flags *pflag.FlagSet) error {
	p, err := o.build(ctx, flags)
	if err != nil {
		return err
	}
	defer p.events.Shutdown()
	return p.manager.Start(ctx)
}

// parse returns the options that args ask for. Help goes to out and is ErrHelp.
func parse(name string, args []string, out io.Writer) (*options, *pflag.FlagSet, error) {
	o := newOptions()
	flags := o.flagSet(name)
	flags.SetOutput(out)
	flags.Usage = func() {
		fmt.Fprintf(out, "%s runs the controllers of %s.\n\nFlags:\n%s", name, binary, flags.FlagUsages())
	}
	showVersion := flags.Bool("version", false, "print the version and exit")
	if err := flags.Parse(args); err != nil {
		return nil, nil, err
	}
	if *showVersion {
		fmt.Fprintln(out, userAgent())
		return nil, nil, pflag.ErrHelp
	}
	if rest := flags.Args(); len(rest) > 0 {
		return nil, nil, fmt.Errorf("%q is not a flag", rest[0])
	}
	return o, flags, o.validate()
}
