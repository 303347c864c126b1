package capi

import (
	"context"
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/hetzner"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/hetznertest"
	corev1 "k8s.io/api/core/v1"

	"github.com/capmcm/cluster-api-provider-mcm/test/e2e/capi/guests"
)

// hetznerProject is a project at Hetzner, whose load balancer leads to the servers with a label.
type hetznerProject struct {
	*hetznertest.Cloud

	env []string // with which our manager finds it
}

func newHetzner(t *testing.T) *hetznerProject {
	t.Helper()
	s := hetznertest.DefaultSettings()
	const step = 300 * time.Millisecond
	s.Create, s.Boot, s.Remove, s.Hide = step, step, step, step
	h := &hetznerProject{Cloud: hetznertest.New(s, nil, func(request string) {
		t.Errorf("the published API does not allow this: %s", request)
	})}
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	h.env = []string{hetzner.EndpointVariable + "=" + server.URL + "/v1"}
	return h
}

// Variables are those of flavor hetzner.
func (h *hetznerProject) Variables() map[string]string {
	return map[string]string{
		"CONTROL_PLANE_ZONE_1": "fsn1", "CONTROL_PLANE_ZONE_2": "nbg1", "CONTROL_PLANE_ZONE_3": "hel1",
		"HETZNER_LOCATION": "fsn1", "HETZNER_IMAGE_NAME": "ubuntu-24.04", "HETZNER_NETWORK_NAME": "nodes",
		"HETZNER_SSH_FINGERPRINT": hetznertest.Fingerprint, "HETZNER_TOKEN": hetznertest.Token,
	}
}

// VMs returns the servers. cloud-init knows their names and locations.
func (h *hetznerProject) VMs(context.Context) ([]guests.VM, error) {
	running := map[string]bool{}
	for _, s := range h.Running() {
		running[s.ID] = true
	}
	var vms []guests.VM
	for _, r := range h.Ledger() {
		if r.Kind != cloud.KindVM {
			continue
		}
		vms = append(vms, guests.VM{
			ID: r.ID, Name: r.MachineName, Version: oldKubernetes, NodeName: r.MachineName, ProviderID: "hcloud://" + r.ID,
			Running: running[r.ID],
			Metadata: guests.Metadata{
				InstanceID: r.ID, Hostname: r.MachineName, Zone: h.Labels(r.ID)[corev1.LabelTopologyZone],
				Source: map[string]string{"instance_id": r.ID, "hostname": r.MachineName, "local_hostname": r.MachineName},
			},
		})
	}
	return vms, nil
}

// UserData returns what a server boots with.
func (h *hetznerProject) UserData(_ context.Context, id string) ([]byte, error) {
	if data := h.Cloud.UserData(id); data != nil {
		return data, nil
	}
	return nil, fmt.Errorf("server %s has no user data", id)
}

// Members returns the servers that the label selector of the load balancer's target matches.
func (h *hetznerProject) Members(context.Context) ([]string, error) {
	var ids []string
	for _, s := range h.Running() {
		if h.Labels(s.ID)["control-plane"] == "hetzner" {
			ids = append(ids, s.ID)
		}
	}
	return ids, nil
}

// Settled: the control plane's servers have the label, and no others.
func (h *hetznerProject) Settled(ctx context.Context, controlPlane []string) error {
	return membersAre(ctx, h, controlPlane)
}

// Left names servers and addresses.
func (h *hetznerProject) Left(context.Context) ([]string, error) {
	var left []string
	for _, r := range h.Ledger() {
		left = append(left, string(r.Kind)+" "+r.ID)
	}
	return left, nil
}
