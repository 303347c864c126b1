package capi

import (
	"context"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The releases of ours: the previous one, and this tree.
const (
	oldRelease = "v0.1.0"
	newRelease = "v0.1.1"
)

// firstReleasable is what the repository got with the commit from which the providers could be
// released first. That stands for the previous release until there is one: a path outlives a
// history that is rewritten, as a hash does not.
const firstReleasable = "config/simcloud"

// TestUpgrade brings a Cluster with workers, made by the previous release, to this
// tree with clusterctl.
func TestUpgrade(t *testing.T) {
	turn := queue.add(2)
	t.Parallel()
	turn.await(t)
	a := require(t)
	old := previous(t, a)
	ctl := newClusterctl(t, old)
	m := newManagement(t, old, ctl)
	m.is(t, oldRelease)
	checkPlan(t, m, ctl)
	m.startProviders(t)
	p := newPool(t, m, ctl, m.Stack, "upgrade", "c1")
	p.externalKubeconfig(t)
	p.apply(t, "sim-workers-only", 2)
	p.until(t, "two workers of the previous release", p.settled(2))
	m.assets = a
	p.upgrade(t, 2)
	p.scale(t, 3)
	p.until(t, "one more worker after the upgrade", p.settled(3))
	p.remove(t)
	m.permissions(t)
}

// previous returns the assets of the previous release: its manager, and a
// repository with it and this tree's.
func previous(t *testing.T, a assets) assets {
	t.Helper()
	dir := t.TempDir()
	tree := filepath.Join(dir, "tree")
	commit := previousCommit(t, a.root)
	old := a
	old.binaries, old.repository = filepath.Join(dir, "bin"), filepath.Join(dir, "release")
	for _, command := range [][]string{
		{"mkdir", tree, old.binaries},
		{"git", "-C", a.root, "archive", "--output=" + filepath.Join(dir, "tree.tar"), commit},
		{"tar", "-xf", filepath.Join(dir, "tree.tar"), "-C", tree},
		{"go", "build", "-C", tree, "-o", old.manager(), "./cmd/manager"},
		{"cp", filepath.Join(a.binaries, "simcloud"), old.binaries},
		{"go", "-C", a.root, "run", "./cmd/release", "-out", old.repository, "-version", newRelease},
		// The one that is written last is what clusterctl installs.
		{"go", "-C", tree, "run", "./cmd/release", "-out", old.repository, "-version", oldRelease},
	} {
		if out, err := exec.CommandContext(t.Context(), command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", command, err, out)
		}
	}
	return old
}

// previousCommit returns the commit of the previous release. A copy of the repository without its
// history has none.
func previousCommit(t *testing.T, root string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "git", "-C", root, "log", "--diff-filter=A", "--format=%H", "--",
		firstReleasable).Output()
	commits := strings.Fields(string(out))
	if err != nil || len(commits) == 0 {
		t.Skipf("the commit that added %s, the previous release, is not in this repository: %v", firstReleasable, err)
	}
	return commits[len(commits)-1]
}

// checkPlan: clusterctl offers this tree.
func checkPlan(t *testing.T, m *management, ctl clusterctl) {
	t.Helper()
	plan := ctl.must(t, nil, "upgrade", "plan", "--kubeconfig", m.Cluster.Kubeconfig())
	for _, label := range []string{"infrastructure-capmcm", "bootstrap-capmcm", "control-plane-capmcm"} {
		offered := slices.ContainsFunc(strings.Split(plan, "\n"), func(line string) bool {
			words := strings.Fields(line)
			return len(words) > 2 && words[0] == label && slices.Equal(words[len(words)-2:], []string{oldRelease, newRelease})
		})
		if !offered {
			t.Errorf("clusterctl upgrade plan does not offer %s of %s:\n%s", newRelease, label, plan)
		}
	}
}

// installed is what tells the releases apart: what the inventory says, and the
// image of each Deployment.
func (m *management) installed(ctx context.Context) (map[string]string, error) {
	found := map[string]string{}
	var inventory clusterctlv1.ProviderList
	if err := m.cl.List(ctx, &inventory); err != nil {
		return nil, err
	}
	for _, p := range inventory.Items {
		found[p.Name] = p.Version
	}
	for _, p := range providers() {
		var d appsv1.Deployment
		if err := m.cl.Get(ctx, client.ObjectKey{Namespace: p.namespace, Name: p.deployment}, &d); err != nil {
			return nil, err
		}
		_, found[p.deployment], _ = strings.Cut(d.Spec.Template.Spec.Containers[0].Image, ":")
	}
	return found, nil
}

// all is what installed returns where everything of ours is of one release.
func all(release string) map[string]string {
	want := map[string]string{"cluster-api": core}
	for _, label := range []string{"infrastructure-capmcm", "bootstrap-capmcm", "control-plane-capmcm"} {
		want[label] = release
	}
	for _, p := range providers() {
		want[p.deployment] = release
	}
	return want
}

// upgrade brings the providers to the next release with clusterctl, while a
// Cluster has workers. No VM is made or goes for it, no object of a machine is
// written, and the new managers go on where the old ones ended. No kubelet runs
// the Deployments here, so the test changes the processes: the old ones end before,
// as clusterctl scales their Deployments down, and those with the flags, and the
// new ServiceAccounts, of the new Deployments begin afterwards.
func (p *pool) upgrade(t *testing.T, workers int) {
	t.Helper()
	m := p.m
	vms, err := p.lives(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	specs := p.specs(t)
	for _, old := range m.providers {
		if err := old.Stop(time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	m.providers = nil
	p.ctl.must(t, nil, "upgrade", "apply", "--kubeconfig", m.Cluster.Kubeconfig(),
		"--infrastructure", "capmcm:"+newRelease, "--bootstrap", "capmcm:"+newRelease,
		"--control-plane", "capmcm:"+newRelease)
	m.is(t, newRelease)
	m.startProviders(t)
	p.until(t, "the Cluster is available after the upgrade", p.available)
	p.until(t, "its workers are as they were", p.settled(workers))
	after, err := p.lives(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(vms, after) {
		t.Errorf("the upgrade has touched VMs: %v became %v", vms, after)
	}
	if now := p.specs(t); !maps.Equal(specs, now) {
		t.Errorf("the upgrade has changed specs: generations %v became %v", specs, now)
	}
}

// is checks that everything of ours is of one release.
func (m *management) is(t *testing.T, release string) {
	t.Helper()
	found, err := m.installed(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if want := all(release); !maps.Equal(found, want) {
		t.Errorf("installed is %v, want %v", found, want)
	}
}

// specs are the generations of the machines' objects, and of the Secrets that
// they booted from, by UID.
func (p *pool) specs(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	var machines infrav1.MCMMachineList
	var secrets corev1.SecretList
	for _, list := range []client.ObjectList{&machines, &secrets} {
		if err := p.m.cl.List(t.Context(), list, client.InNamespace(p.namespace)); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range machines.Items {
		found[string(m.UID)] = fmt.Sprint(m.Generation)
	}
	for _, s := range secrets.Items {
		if s.Data["format"] != nil {
			found[string(s.UID)] = string(s.Data["value"])
		}
	}
	return found
}
