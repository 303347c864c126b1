package clouds

import (
	"context"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/gcptest"
)

// gce is Compute Engine, which the manager finds by the variable that gcloud has for that. The
// service that gives out tokens is the same server: the manager trusts its certificate.
var gce *gcptest.Cloud

// gceTokens is where the server gives out tokens.
var gceTokens string

// serveGCE starts the server and returns what stops it. Its certificate is in a file of dir.
func serveGCE(dir string) (stop func(), err error) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { gce.ServeHTTP(w, r) }))
	gceTokens = server.URL + "/token"
	gce = gcptest.New(gcptest.Options{Now: time.Now, TokenURL: gceTokens, Hurry: 10})
	file := filepath.Join(dir, "gce.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return server.Close, err
	}
	if err := os.Setenv("SSL_CERT_FILE", file); err != nil {
		return server.Close, err
	}
	return server.Close, os.Setenv("CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE", server.URL+"/compute/v1")
}

// gcpCloud is the project.
type gcpCloud struct{}

func startGCP(*testing.T) backend { return gcpCloud{} }

func gcpTypes() []string { return []string{"n2-standard-2", "n2-standard-4"} }

func (gcpCloud) Class(generation int) class {
	c := class{InstanceType: gcpTypes()[generation], Region: gcptest.Region, Zone: gcptest.Region + "-b"}
	c.Spec = map[string]any{
		"region": c.Region, "zone": c.Zone, "machineType": c.InstanceType,
		"disks": []any{map[string]any{
			"boot": true, "sizeGb": 20, "image": "projects/debian-cloud/global/images/family/debian-12",
		}},
		"networkInterfaces": []any{map[string]any{"subnetwork": "nodes", "disableExternalIP": true}},
		"scheduling":        map[string]any{"onHostMaintenance": "MIGRATE", "automaticRestart": true},
		"tags":              []string{"kubernetes-io-cluster-clouds", "kubernetes-io-role-node"},
	}
	return c
}

func (gcpCloud) Credentials() map[string][]byte {
	return map[string][]byte{"serviceAccountJSON": gcptest.KeyAt(gceTokens)}
}

func (gcpCloud) VMs(context.Context) ([]vm, error) {
	var vms []vm
	for _, t := range gce.Things() {
		if t.Disk || t.Status != "RUNNING" {
			continue
		}
		generation := 0
		if t.Type == gcpTypes()[1] {
			generation = 1
		}
		vms = append(vms, vm{
			ID: t.ID, Generation: generation, UserData: gce.UserData(t.ID), NodeName: filepath.Base(t.ID), Address: t.IP,
			ProviderID: "gce://" + gcptest.Project + "/" + t.ID, MCM: "gce:///" + gcptest.Project + "/" + t.ID,
		})
	}
	return vms, nil
}

func (gcpCloud) Kill(_ context.Context, id string) error {
	gce.SetStatus(id, "DELETED")
	return nil
}

func (gcpCloud) Ledger(context.Context) ([]string, error) {
	var all []string
	for _, t := range gce.Things() {
		kind := "instance "
		if t.Disk {
			kind = "disk "
		}
		all = append(all, kind+t.ID)
	}
	return all, nil
}
