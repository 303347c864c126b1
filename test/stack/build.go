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
	root, err := cluster.Root()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(root, "out", "bin")
	for _, program := range slices.Sorted(maps.Keys(packages)) {
		cmd := exec.CommandContext(ctx, "go", "build", "-o", filepath.Join(dir, program), packages[program])
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("build %s: %w\n%s", program, err, out)
		}
	}
	return dir, nil
}
