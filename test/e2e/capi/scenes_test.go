package capi

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/capmcm/cluster-api-provider-mcm/test/cluster"
	"github.com/capmcm/cluster-api-provider-mcm/test/cluster/audit"
)

// TestClusterAPI goes through the life of Clusters with workers of ours: one whose
// control plane is somebody else's, and one that is its own.
func TestClusterAPI(t *testing.T) {
	turn := queue.add(7)
	t.Parallel()
	turn.await(t)
	a := require(t)
	ctl := newClusterctl(t, a)
	m := newManagement(t, a, ctl)
	t.Run("clusterctl init", func(t *testing.T) { checkInit(t, m) })
	m.startProviders(t)
	external := newPool(t, m, ctl, controlPlane(t, a, t.TempDir()), "external", "c1")
	own := newPool(t, m, ctl, m.Stack, "own", "c2")
	class := newPool(t, m, ctl, m.Stack, "class", "c3")
	t.Run("clusters", func(t *testing.T) {
		t.Run("external control plane", func(t *testing.T) {
			t.Parallel()
			externalLife(t, external)
		})
		t.Run("self-hosted", func(t *testing.T) {
			t.Parallel()
			ownLife(t, own)
			classLife(t, class)
		})
	})
	m.permissions(t)
}

func externalLife(t *testing.T, p *pool) {
	t.Helper()
	p.externalKubeconfig(t)
	p.apply(t, "sim-health-check", 0)
	p.scaling(t)
	p.rollout(t)
	p.drain(t)
	p.health(t)
	p.remediation(t)
	p.described(t)
	p.resilience(t)
	to := newManagement(t, p.m.assets, p.ctl)
	to.startProviders(t)
	moved := p.move(t, to, 1)
	moved.scale(t, 2)
	moved.until(t, "one more worker after the move", moved.settled(2))
	moved.unfinished(t, 6)
	moved.remove(t)
	to.permissions(t)
	permissions(t, p.nodes.Cluster, "kube-system:capmcm-workload")
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
	out := p.ctl.must(t, nil, "describe", "cluster", p.name, "-n", p.namespace, "--kubeconfig", p.m.Cluster.Kubeconfig(),
		"--echo", "--grouping=false")
	for kind, name := range map[string]string{
		"MCMCluster": p.name, "MCMExternalControlPlane": p.name,
		"MachineDeployment": p.name + "-md-0", "MCMConfig": "", "MCMMachine": "",
	} {
		if want := fmt.Sprintf("─%s %s/%s", kind, p.namespace, name); !strings.Contains(out, want) {
			t.Errorf("clusterctl describe shows no %s:\n%s", want, out)
		}
	}
	t.Log("\n" + out)
}

// permissions: the API server has refused nothing to ServiceAccounts: those of the
// bundles, core's, and those of kubeconfigs of workload clusters.
func permissions(t *testing.T, of *cluster.Cluster, users ...string) {
	t.Helper()
	entries, err := of.Audit().Since(0, func(e audit.Entry) bool {
		return strings.HasPrefix(e.User, "system:serviceaccount:")
	})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, e := range entries {
		seen[e.User] = true
		// A self-hosted Cluster's account loses its permissions with its control plane, a
		// moment before the connections that probe the API server end.
		probe := e.Target() == "/" && strings.Contains(e.User, ":mcm-")
		if e.Code == http.StatusForbidden && !probe {
			t.Errorf("%s may not %s %s %s in %q", e.User, e.Verb, e.Target(), e.Name, e.Namespace)
		}
	}
	for _, user := range users {
		if !seen["system:serviceaccount:"+user] {
			t.Errorf("%s has asked for nothing: %v", user, seen)
		}
	}
}

// permissions of all that runs in a management cluster, and more.
func (m *management) permissions(t *testing.T, more ...string) {
	t.Helper()
	users := append([]string{"capi-system:capi-manager"}, more...)
	for _, p := range providers() {
		users = append(users, p.namespace+":"+p.account)
	}
	permissions(t, m.Cluster, users...)
}
