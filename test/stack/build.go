package stack

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"

	"github.com/capmcm/cluster-api-provider-mcm/test/cluster"
)

// Build compiles manager, kubectl plugin and simcloud into out/bin and returns that folder. The
// compiler's cache makes a repeated build quick.
func Build(ctx context.Context) (string, error) {
	root, err := cluster.Root()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(root, "out", "bin")
	for binary, pkg := range map[string]string{
		"cluster-api-provider-mcm": "./cmd/manager", "simcloud": "./cmd/simcloud", "kubectl-mcm": "./cmd/kubectl-mcm",
	} {
		cmd := exec.CommandContext(ctx, "go", "build", "-o", filepath.Join(dir, binary), pkg)
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("build %s: %w\n%s", pkg, err, out)
		}
	}
	return dir, nil
}
