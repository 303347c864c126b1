package capi

import (
	"context"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"testing"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/gcptest"

	"github.com/capmcm/cluster-api-provider-mcm/test/e2e/capi/guests"
)

// gcpProject is a project on Compute Engine. The service that gives out tokens is the same server.
type gcpProject struct {
	*gcptest.Cloud

	tokens string   // where the server gives out tokens
	env    []string // with which our manager finds it, and trusts its certificate
}

func newGCP(t *testing.T) *gcpProject {
	t.Helper()
	g := &gcpProject{}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { g.ServeHTTP(w, r) }))
	t.Cleanup(server.Close)
	g.tokens = server.URL + "/token"
	g.Cloud = gcptest.New(gcptest.Options{
		Now: time.Now, TokenURL: g.tokens, Hurry: 10,
		Report: func(what string, body []byte) { t.Errorf("the published API does not allow this: %s: %s", what, body) },
	})
	file := filepath.Join(t.TempDir(), "gce.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	g.env = []string{"SSL_CERT_FILE=" + file, "CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE=" + server.URL + "/compute/v1"}
	return g
}

// Variables are those of flavor gcp.
func (g *gcpProject) Variables() map[string]string {
	return map[string]string{
		"CONTROL_PLANE_ZONE_1": gcptest.Region + "-b", "CONTROL_PLANE_ZONE_2": gcptest.Region + "-c",
		"CONTROL_PLANE_ZONE_3": gcptest.Region + "-d", "GCP_REGION": gcptest.Region, "GCP_ZONE": gcptest.Region + "-b",
		"GCP_IMAGE": "projects/debian-cloud/global/images/family/debian-12", "GCP_SUBNETWORK": "nodes",
		"GCP_NODE_SERVICE_ACCOUNT":      "nodes@my-project.iam.gserviceaccount.com",
		"GCP_API_SERVER_INSTANCE_GROUP": gcptest.Group, "GCP_SERVICE_ACCOUNT_JSON": oneLine(gcptest.KeyAt(g.tokens)),
	}
}

// VMs returns the instances. cloud-init knows their names.
func (g *gcpProject) VMs(context.Context) ([]guests.VM, error) {
	var vms []guests.VM
	for _, thing := range g.Things() {
		if thing.Disk {
			continue
		}
		name := path.Base(thing.ID)
		vms = append(vms, guests.VM{
			ID: thing.ID, Name: name, Version: oldKubernetes, NodeName: name,
			ProviderID: "gce://" + gcptest.Project + "/" + thing.ID, Running: thing.Status == "RUNNING",
			Metadata: guests.Metadata{
				InstanceID: thing.ID, Hostname: name, Region: gcptest.Region, Zone: path.Dir(thing.ID),
				Source: map[string]string{"instance_id": thing.ID, "local_hostname": name},
			},
		})
	}
	return vms, nil
}

// UserData returns what an instance boots with.
func (g *gcpProject) UserData(_ context.Context, id string) ([]byte, error) {
	if data := g.Cloud.UserData(id); data != nil {
		return data, nil
	}
	return nil, fmt.Errorf("instance %s has no user data", id)
}

// Members returns the instances in the groups behind the load balancer.
func (g *gcpProject) Members(context.Context) ([]string, error) { return g.Cloud.Members(), nil }

// Settled: the groups have the control plane's instances, and no others.
func (g *gcpProject) Settled(ctx context.Context, controlPlane []string) error {
	return membersAre(ctx, g, controlPlane)
}

// Left names instances and disks.
func (g *gcpProject) Left(context.Context) ([]string, error) {
	var left []string
	for _, thing := range g.Things() {
		left = append(left, thing.ID)
	}
	return left, nil
}
