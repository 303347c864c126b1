// Command gotest runs `go test -v` with its arguments, prints what that prints,
// and ends with what failed, in so few lines that the end of a log holds it. It
// exits as go test does.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(run(ctx, os.Args[1:]))
}

func run(ctx context.Context, args []string) int {
	cmd := exec.CommandContext(ctx, "go", append([]string{"test", "-json", "-v"}, args...)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gotest:", err)
		return 1
	}
	log := newLog(os.Stdout)
	readErr := log.read(out)
	err = cmd.Wait()
	log.end()
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
