// Command upgrade records what a version of this project leaves behind: its
// objects and its cloud, with everything Running and the manager stopped. The
// test of this package starts the version that it is built from on every record,
// and proves that it replaces no machine.
//
//	go run ./test/upgrade -version v0.1.0
//
// A record is made once, by the version that it is of, and never changed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"

	"github.com/capmcm/cluster-api-provider-mcm/test/cluster"
	"github.com/capmcm/cluster-api-provider-mcm/test/stack"
)

// records is where they are, below the root of the repository: one folder a version.
const records = "test/upgrade/testdata"

func main() {
	version := flag.String("version", "", "of this tree, as `v0.1.0`")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *version)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "record failed:", err)
		os.Exit(1)
	}
}

// run makes the record of this tree.
func run(ctx context.Context, version string) error {
	if !regexp.MustCompile(`^v\d+\.\d+\.\d+$`).MatchString(version) {
		return fmt.Errorf("-version is %q, which is no version: give one as v0.1.0", version)
	}
	root, err := cluster.Root()
	if err != nil {
		return err
	}
	dir := filepath.Join(root, records, version)
	if _, err := os.Stat(dir); err == nil {
		return fmt.Errorf("%s/%s is there: a version is recorded once; remove it if it was never released", records, version)
	}
	r, err := record(ctx)
	if err != nil {
		return err
	}
	if err := r.write(dir); err != nil {
		return err
	}
	fmt.Printf("%d objects and a cloud are in %s/%s\n", len(r.objects), records, version)
	return nil
}

// record makes pools, waits until they run, stops the manager and returns what
// is left.
func record(ctx context.Context) (_ *release, err error) {
	binaries, err := stack.Build(ctx)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "upgrade-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	state := filepath.Join(dir, "cloud")
	s, err := stack.Start(ctx, stack.Options{
		Controllers: cluster.Controllers(), Binaries: binaries, Dir: dir,
		Cloud: []string{"--state=" + state, "--latency=20ms", "--boot-time=500ms", "--delete-time=200ms"},
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	c, err := openCore(ctx, s)
	if err != nil {
		return nil, err
	}
	manager, err := s.StartManager()
	if err != nil {
		return nil, err
	}
	if err := live(ctx, s, c); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, s.Logs())
	}
	if err := manager.Terminate(); err != nil {
		return nil, err
	}
	if err := editWhileStopped(ctx, s); err != nil {
		return nil, err
	}
	return leftBehind(ctx, s, state)
}
