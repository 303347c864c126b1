package clouds

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/kubevirttest"
	"github.com/capmcm/cluster-api-provider-mcm/test/cluster"
)

// kubeVirtCloud is a namespace of a second API server, beside that of the manager.
type kubeVirtCloud struct{ *kubevirttest.Served }

func startKubeVirt(t *testing.T) backend {
	t.Helper()
	file := filepath.Join(t.TempDir(), "crds.yaml")
	if err := os.WriteFile(file, kubevirttest.CRDs, 0o600); err != nil {
		t.Fatal(err)
	}
	c := cluster.ForTest(t, cluster.Options{Manifests: []string{file}})
	n, err := kubevirttest.Connect(c.URL(), c.CA(), c.Config().BearerToken).NewNamespace(t.Context(), "machines")
	if err != nil {
		t.Fatal(err)
	}
	s := n.Serve()
	t.Cleanup(s.Close)
	return &kubeVirtCloud{s}
}

func (k *kubeVirtCloud) Class(generation int) class {
	c := class{InstanceType: "vm", Region: "region-1", Zone: "zone-1"}
	c.Spec = map[string]any{
		"region": c.Region, "zone": c.Zone,
		"resources": map[string]any{"requests": map[string]any{"cpu": 2 + generation, "memory": "4Gi"}},
		"rootVolume": map[string]any{
			"source": map[string]any{"http": map[string]any{"url": "https://images.example.com/linux.img"}},
			"pvc":    map[string]any{"resources": map[string]any{"requests": map[string]any{"storage": "20Gi"}}},
		},
		"tags": map[string]string{"mcm.gardener.cloud/cluster": "clouds", "mcm.gardener.cloud/role": "node"},
	}
	return c
}

func (k *kubeVirtCloud) Credentials() map[string][]byte {
	return map[string][]byte{"kubeconfig": k.Kubeconfig()}
}

func (k *kubeVirtCloud) VMs(ctx context.Context) ([]vm, error) {
	guests, err := k.Guests(ctx)
	var vms []vm
	for _, g := range guests {
		id := "kubevirt://" + g.Name
		vms = append(vms, vm{
			ID: g.Name, Generation: g.CPUs - 2, UserData: g.UserData, NodeName: g.Name, ProviderID: id, MCM: id,
			Address: g.Address,
		})
	}
	return vms, err
}

func (k *kubeVirtCloud) Ledger(ctx context.Context) ([]string, error) {
	things, err := k.Things(ctx)
	var all []string
	for _, t := range things {
		all = append(all, t.Kind+" "+t.Name)
	}
	return all, err
}
