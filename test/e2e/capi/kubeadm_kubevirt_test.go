package capi

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/kubevirttest"

	"github.com/capmcm/cluster-api-provider-mcm/test/e2e/capi/guests"
)

// kubeVirt is a namespace of the management cluster, in which the VMs are. KubeVirt's controllers are played.
type kubeVirt struct{ *kubevirttest.Served }

func newKubeVirt(t *testing.T, m *management) *kubeVirt {
	t.Helper()
	file := filepath.Join(t.TempDir(), "crds.yaml")
	if err := os.WriteFile(file, kubevirttest.CRDs, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := m.Cluster.ApplyFile(t.Context(), file); err != nil {
		t.Fatal(err)
	}
	server := kubevirttest.Connect(m.Cluster.URL(), m.Cluster.CA(), m.Cluster.Config().BearerToken)
	n, err := server.NewNamespace(t.Context(), "vms")
	if err != nil {
		t.Fatal(err)
	}
	k := &kubeVirt{n.Serve()}
	t.Cleanup(k.Close)
	return k
}

// Variables are those of flavor kubevirt.
func (k *kubeVirt) Variables() map[string]string {
	at, ca, token := k.Access()
	return map[string]string{
		"CONTROL_PLANE_ZONE_1": "zone-1", "CONTROL_PLANE_ZONE_2": "zone-2", "CONTROL_PLANE_ZONE_3": "zone-3",
		"KUBEVIRT_IMAGE_URL": "https://images.example.com/linux.img", "KUBEVIRT_STORAGE_CLASS": "standard",
		"KUBEVIRT_NAMESPACE": k.Name, "KUBEVIRT_SERVER": at, "KUBEVIRT_TOKEN": token,
		"KUBEVIRT_CA_DATA": base64.StdEncoding.EncodeToString(ca),
	}
}

// VMs returns the VMs of the namespace. cloud-init knows their names.
func (k *kubeVirt) VMs(ctx context.Context) ([]guests.VM, error) {
	all, err := k.Served.VMs(ctx)
	var vms []guests.VM
	for _, g := range all {
		vms = append(vms, guests.VM{
			ID: g.Name, Name: g.Name, Version: oldKubernetes, NodeName: g.Name, ProviderID: "kubevirt://" + g.Name,
			Running: g.Running,
			Metadata: guests.Metadata{
				InstanceID: g.Name, Hostname: g.Name, Zone: g.Zone,
				Source: map[string]string{"instance_id": g.Name, "local_hostname": g.Name},
			},
		})
	}
	return vms, err
}

// UserData returns what is in the Secret that a VM boots from.
func (k *kubeVirt) UserData(ctx context.Context, id string) ([]byte, error) {
	data, err := k.Served.UserData(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("user data of VM %s: %w", id, err)
	}
	return data, nil
}

// Members returns the VMs whose pods the selector of the Service matches.
func (k *kubeVirt) Members(ctx context.Context) ([]string, error) {
	all, err := k.Guests(ctx)
	var ids []string
	for _, g := range all {
		if g.Labels["mcm.gardener.cloud/role"] == "control-plane" && g.Labels["mcm.gardener.cloud/cluster"] == "kubevirt" {
			ids = append(ids, g.Name)
		}
	}
	return ids, err
}

// Settled: the control plane's VMs have the labels, and no others.
func (k *kubeVirt) Settled(ctx context.Context, controlPlane []string) error {
	return membersAre(ctx, k, controlPlane)
}

// Left names VMs, volumes and Secrets.
func (k *kubeVirt) Left(ctx context.Context) ([]string, error) {
	things, err := k.Things(ctx)
	var left []string
	for _, thing := range things {
		left = append(left, thing.Kind+" "+thing.Name)
	}
	return left, err
}
