package capi

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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
	repository string // our release, as a repository of clusterctl
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
	a := assets{root: root, capi: filepath.Join(root, "out", "capi"), repository: filepath.Join(t.TempDir(), "release")}
	for _, program := range []string{a.clusterctl(), a.coreManager()} {
		if _, err := os.Stat(program); err != nil {
			message := fmt.Sprintf("Cluster API is not built: run `make capi`: %v", err)
			if os.Getenv("CI") == "true" {
				t.Fatal(message)
			}
			t.Skip(message)
		}
	}
	if a.binaries, err = stack.Build(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := a.release(t.Context()); err != nil {
		t.Fatal(err)
	}
	return a
}

func (a assets) clusterctl() string  { return filepath.Join(a.capi, "clusterctl") }
func (a assets) coreManager() string { return filepath.Join(a.capi, "capi-manager") }
func (a assets) manager() string     { return filepath.Join(a.binaries, "cluster-api-provider-mcm") }

// release writes our release, as make release does.
func (a assets) release(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, "go", "run", "./cmd/release", "-out", a.repository)
	cmd.Dir = a.root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("make the release: %w\n%s", err, out)
	}
	return nil
}
