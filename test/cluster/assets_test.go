package cluster_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/capmcm/cluster-api-provider-mcm/test/cluster"
)

func TestFindPrefersTheOverride(t *testing.T) {
	root, err := cluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	override := t.TempDir()
	t.Setenv("KUBEBUILDER_ASSETS", override)
	mine := filepath.Join(override, "kube-apiserver")
	if err := os.WriteFile(mine, nil, 0o700); err != nil {
		t.Fatal(err)
	}
	assets, err := cluster.Find()
	if errors.Is(err, cluster.ErrNoAssets) {
		t.Skipf("no control plane: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if assets.APIServer != mine {
		t.Errorf("API server %q, want %q from KUBEBUILDER_ASSETS", assets.APIServer, mine)
	}
	if want := filepath.Join(root, "out", "controlplane", "etcd"); assets.Etcd != want {
		t.Errorf("etcd %q, want %q: what KUBEBUILDER_ASSETS lacks comes from here", assets.Etcd, want)
	}
}

// recorder is a cluster.TB that notes how a test ended.
type recorder struct {
	cluster.TB
	ended string
}

func (*recorder) Helper()                 {}
func (r *recorder) Fatalf(string, ...any) { r.ended = "failed" }
func (r *recorder) Skipf(string, ...any)  { r.ended = "skipped" }

func TestRequireWithoutAssets(t *testing.T) {
	if testing.Short() {
		t.Skip("-short decides before the assets do")
	}
	t.Chdir(t.TempDir()) // outside the repository nothing is built
	t.Setenv("KUBEBUILDER_ASSETS", t.TempDir())
	for ci, want := range map[string]string{"true": "failed", "": "skipped"} {
		t.Setenv("CI", ci)
		r := &recorder{}
		cluster.Require(r)
		if r.ended != want {
			t.Errorf("without a control plane and CI=%q: %s, want %s", ci, r.ended, want)
		}
	}
}
