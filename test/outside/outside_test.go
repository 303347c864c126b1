// Package outside builds a manager with drivers in a module of their own, outside of
// this repository, and tries it: one driver for the contract of package cloud, and one as
// it was written for Machine Controller Manager.
package outside

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capmcm/cluster-api-provider-mcm/test/cluster"
)

const ours = "github.com/capmcm/cluster-api-provider-mcm"

// TestOutside runs the tests of the module in testdata where it does not see this
// repository but through its go.mod: the kit on both drivers, and a journey of a Machine with
// each.
func TestOutside(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("building a manager takes a while: not with -short")
	}
	dir := newModule(t)
	goTool(t, dir, "build", "-o", "manager", ".")
	goTool(t, dir, "test", "-count=1", "-timeout=3m", "-v", "./...")
}

// newModule returns a folder with the module of testdata, and a go.mod with the versions of
// ours, so that nothing is downloaded.
func newModule(t *testing.T) string {
	t.Helper()
	root, err := cluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "module"))); err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	mod = bytes.Replace(mod, []byte("module "+ours), []byte("module example.com/outside"), 1)
	for _, dir := range []string{"", "/cloud/mcmdriver"} {
		mod = fmt.Appendf(mod, "\nrequire %s v0.1.0\n\nreplace %[1]s => %s\n", ours+dir, filepath.Join(root, dir))
	}
	for name, text := range map[string][]byte{"go.mod": mod, "go.sum": sums} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// goTool runs a command of go in dir, offline. The tests of the module find this
// repository through the variables that it sets.
func goTool(t *testing.T, dir string, args ...string) {
	t.Helper()
	root, err := cluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS="+os.Getenv("GOFLAGS")+" -mod=mod", "GOPROXY=off", "GOWORK=off",
		"CLOUDTEST_MATRIX=", "OUTSIDE_ROOT="+root, "OUTSIDE_MANAGER="+filepath.Join(dir, "manager"))
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		cmd.Env = append(cmd.Env, "KUBEBUILDER_ASSETS="+filepath.Join(root, "out", "controlplane"))
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	t.Logf("go %s\n%s", strings.Join(args, " "), out)
}
