package capi

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// clusterctl is the real program, which knows our release and core and asks
// nothing beyond this machine.
type clusterctl struct {
	program, config string
}

// newClusterctl writes clusterctl's configuration: the one of our release, with
// core and the kubeadm providers added, and no cert-manager to install.
func newClusterctl(t *testing.T, a assets) clusterctl {
	t.Helper()
	ours, err := os.ReadFile(filepath.Join(a.repository, "clusterctl.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	c := clusterctl{a.clusterctl(), filepath.Join(t.TempDir(), "clusterctl.yaml")}
	text := string(ours)
	for _, p := range []struct{ name, kind, label, file string }{
		{"cluster-api", "CoreProvider", "cluster-api", "core-components.yaml"},
		{"kubeadm", "BootstrapProvider", "bootstrap-kubeadm", "bootstrap-components.yaml"},
		{"kubeadm", "ControlPlaneProvider", "control-plane-kubeadm", "control-plane-components.yaml"},
	} {
		text += fmt.Sprintf("- name: %s\n  type: %s\n  url: file://%s\n", p.name, p.kind,
			filepath.Join(a.capi, "repository", p.label, core, p.file))
	}
	text += "cert-manager:\n  externallyProvisioned: \"true\"\n"
	if err := os.WriteFile(c.config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return c
}

// run runs a command and returns what it printed. variables are for templates.
func (c clusterctl) run(ctx context.Context, variables map[string]string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.program, append(args, "--config", c.config)...)
	// No other variables: a template must not depend on those of this machine.
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Dir(c.config), "GOPROXY=off",
		"CLUSTERCTL_DISABLE_VERSIONCHECK=true",
	}
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		cmd.Env = append(cmd.Env, name+"="+variables[name])
	}
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("clusterctl %v: %w\n%s%s", args, err, out.Bytes(), problems.Bytes())
	}
	return out.String(), nil
}

// must is run for commands that succeed.
func (c clusterctl) must(t *testing.T, variables map[string]string, args ...string) string {
	t.Helper()
	out, err := c.run(t.Context(), variables, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
