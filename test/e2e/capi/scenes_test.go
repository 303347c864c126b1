package capi

import (
	"strings"
	"testing"
)

// TestClusterAPI goes through the life of Clusters with workers of ours: one whose
// control plane is somebody else's, and one that is its own.
func TestClusterAPI(t *testing.T) {
	a := require(t)
	ctl := newClusterctl(t, a)
	m := newManagement(t, a, ctl)
	t.Run("clusterctl init and upgrade plan", func(t *testing.T) { checkInit(t, m, ctl) })
	t.Run("templates", func(t *testing.T) { checkTemplates(t, m, ctl) })
	m.startProviders(t)
	external := newPool(t, m, ctl, controlPlane(t, a, t.TempDir()), "external", "c1")
	own := newPool(t, m, ctl, m.Stack, "own", "c2")
	t.Run("clusters", func(t *testing.T) {
		t.Run("external control plane", func(t *testing.T) {
			t.Parallel()
			externalLife(t, external)
		})
		t.Run("self-hosted", func(t *testing.T) {
			t.Parallel()
			ownLife(t, own)
		})
	})
	m.rights(t)
}

func externalLife(t *testing.T, p *pool) {
	t.Helper()
	p.externalKubeconfig(t)
	p.apply(t, "sim-health-check", 0)
	p.scaling(t)
	p.rollout(t)
	p.drain(t)
	p.health(t)
	p.described(t)
	p.resilience(t)
	to := newManagement(t, p.m.assets, p.ctl)
	to.startProviders(t)
	moved := p.move(t, to, 1)
	moved.scale(t, 2)
	moved.until(t, "one more worker after the move", moved.settled(2))
	moved.remove(t)
	to.rights(t)
}

func ownLife(t *testing.T, p *pool) {
	t.Helper()
	p.apply(t, "sim-self-hosted", 0)
	p.scaling(t)
	p.rollout(t)
	p.drain(t)
	p.scale(t, 1)
	p.until(t, "a worker from zero", p.settled(1))
	p.remove(t)
}

// described: clusterctl describe shows a healthy Cluster with our objects in it.
func (p *pool) described(t *testing.T) {
	t.Helper()
	out := p.ctl.must(t, nil, "describe", "cluster", p.name, "-n", p.namespace, "--kubeconfig", p.m.Cluster.Kubeconfig(), "--echo", "--grouping=false")
	for _, want := range []string{"MCMCluster/" + p.name, "MCMExternalControlPlane/" + p.name, "MachineDeployment/" + p.name + "-md-0", "MCMMachine/"} {
		if !strings.Contains(out, want) {
			t.Errorf("clusterctl describe shows no %s:\n%s", want, out)
		}
	}
	if t.Failed() || testing.Verbose() {
		t.Log("\n" + out)
	}
}

// rights: nothing was forbidden to anybody who ran with the rights of a bundle.
func (m *management) rights(t *testing.T) {
	t.Helper()
	for _, p := range append(m.providers, m.core) {
		if lines := p.forbidden(); lines != "" {
			t.Errorf("%s lacked rights:\n%s", p.name, lines)
		}
	}
}
