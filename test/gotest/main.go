// Command gotest runs `go test -v` with its arguments, prints what that prints,
// and ends with what failed, in so few lines that the end of a log holds it. It
// exits as go test does.
//
// Several runs, one after another, are separated by the argument "--".
//
// With -openstack as its first argument it runs one OpenStack for all packages,
// which starts while go test compiles and ends when go test does.
package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"

	"github.com/capmcm/cluster-api-provider-mcm/test/openstack"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := runWithServices(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

// runWithServices runs go test beside the services that args ask for.
func runWithServices(ctx context.Context, args []string) int {
	if len(args) == 0 || args[0] != "-openstack" {
		return runAll(ctx, args)
	}
	setting, end, err := openstack.Share(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "gotest: start OpenStack:", err)
		return 1
	}
	defer end()
	return runAll(ctx, args[1:], setting)
}

// runAll runs go test once for each part of args, and then prints what failed in any of them.
func runAll(ctx context.Context, args []string, settings ...string) int {
	log, code := newLog(os.Stdout), 0
	for part := range split(args) {
		code = max(code, run(ctx, log, part, settings...))
	}
	log.end()
	return code
}

// split yields the parts of args between the arguments "--".
func split(args []string) iter.Seq[[]string] {
	return func(yield func([]string) bool) {
		for {
			end := slices.Index(args, "--")
			if end < 0 {
				yield(args)
				return
			}
			if !yield(args[:end]) {
				return
			}
			args = args[end+1:]
		}
	}
}

// run runs go test with settings added to the environment.
func run(ctx context.Context, log *log, args []string, settings ...string) int {
	cmd := exec.CommandContext(ctx, "go", append([]string{"test", "-json", "-v"}, args...)...)
	cmd.Env = append(os.Environ(), settings...)
	if slices.Contains(args, "-race") {
		cmd.Env = append(cmd.Env, "CGO_ENABLED=1") // the Makefile's is 0, and the race detector needs it
	}
	// go test waits for the tests that run, which do not hear of it when this process
	// alone is asked to end.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gotest:", err)
		return 1
	}
	readErr := log.read(out)
	err = cmd.Wait()
	if readErr != nil {
		fmt.Fprintln(os.Stderr, "gotest: read what go test says:", readErr)
		return 1
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return max(exit.ExitCode(), 1)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gotest:", err)
		return 1
	}
	return 0
}
