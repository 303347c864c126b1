package stack

import (
	"context"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/capmcm/cluster-api-provider-mcm/test/cluster"
)

// The programs of this project, by the name that Build gives them.
const (
	ManagerProgram  = "cluster-api-provider-mcm"
	SimCloudProgram = "simcloud"
	PluginProgram   = "kubectl-mcm"
)

// Build compiles programs, all of them if none is named, into out/bin and returns that folder. The
// compiler's cache makes a repeated build quick.
func Build(ctx context.Context, programs ...string) (string, error) {
	packages := map[string]string{
		ManagerProgram: "./cmd/manager", SimCloudProgram: "./cmd/simcloud", PluginProgram: "./cmd/kubectl-mcm",
	}
	if len(programs) > 0 {
		maps.DeleteFunc(packages, func(program, _ string) bool { return !slices.Contains(programs, program) })
	}
	return build(ctx, "bin", packages)
}

// BuildDemo compiles a manager that knows the simulated cloud alone, and that cloud, into
// out/demo and returns that folder. It compiles no library of a real cloud.
func BuildDemo(ctx context.Context) (string, error) {
	return build(ctx, "demo", map[string]string{
		ManagerProgram: "./test/demo/simmanager", SimCloudProgram: "./cmd/simcloud",
	})
}

// build compiles packages, by the names of their programs, into a folder of out.
func build(ctx context.Context, folder string, packages map[string]string) (string, error) {
	root, err := cluster.Root()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(root, "out", folder)
	for _, program := range slices.Sorted(maps.Keys(packages)) {
		cmd := exec.CommandContext(ctx, "go", "build", "-o", filepath.Join(dir, program), packages[program])
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("build %s: %w\n%s", program, err, out)
		}
	}
	return dir, nil
}
