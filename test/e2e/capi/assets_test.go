package capi

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/capmcm/cluster-api-provider-mcm/test/cluster"
	"github.com/capmcm/cluster-api-provider-mcm/test/stack"
)

// core is the version of Cluster API that test/e2e/capi/build builds.
const core = "v1.14.2"

// assets are the programs and manifests that the tests run.
type assets struct {
	root       string // of this repository
	capi       string // what test/e2e/capi/build made
	binaries   string // manager and simcloud
	repository string // our releases, as a repository of clusterctl
}

// require returns the assets. Where Cluster API is not built it ends the test, as
// a failure if CI is true and otherwise as a skip.
func require(t *testing.T) assets {
	t.Helper()
	cluster.Require(t)
	root, err := cluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	a := assets{root: root, capi: filepath.Join(root, "out", "capi")}
	for _, program := range []string{"clusterctl", "capi-manager", bootstrapManager, controlPlaneManager} {
		if _, err := os.Stat(filepath.Join(a.capi, program)); err != nil {
			message := fmt.Sprintf("Cluster API is not built: run `make capi`: %v", err)
			if os.Getenv("CI") == "true" {
				t.Fatal(message)
			}
			t.Skip(message)
		}
	}
	made, err := makeOnce()
	if err != nil {
		t.Fatal(err)
	}
	a.binaries, a.repository = made.binaries, made.repository
	return a
}

// scratch is a folder that TestMain removes.
var scratch = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "capi-e2e-") })

// makeOnce makes what all tests have in common.
var makeOnce = sync.OnceValues(func() (a assets, err error) {
	if a.root, err = cluster.Root(); err != nil {
		return a, err
	}
	dir, err := scratch()
	if err != nil {
		return a, err
	}
	a.repository = filepath.Join(dir, "release")
	if a.binaries, err = stack.Build(context.Background()); err != nil {
		return a, err
	}
	return a, a.release(context.Background(), newRelease)
})

func (a assets) clusterctl() string { return filepath.Join(a.capi, "clusterctl") }
func (a assets) manager() string    { return filepath.Join(a.binaries, "cluster-api-provider-mcm") }

// release writes a release of ours, as make release does.
func (a assets) release(ctx context.Context, version string) error {
	cmd := exec.CommandContext(ctx, "go", "run", "./cmd/release", "-out", a.repository, "-version", version)
	cmd.Dir = a.root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("make the release: %w\n%s", err, out)
	}
	return nil
}
