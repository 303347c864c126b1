package clouds

import (
	"context"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud/hetzner"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/hetznertest"
)

// hetznerCloud is a project at Hetzner. The manager finds it by the variable with which Hetzner's own
// tools take another address.
type hetznerCloud struct{ *hetznertest.Cloud }

// hetznerProject is the project, which is there before the manager starts, as EC2 is.
var hetznerProject *hetznertest.Cloud

// serveHetzner starts the project and returns how to end it.
func serveHetzner() (stop func(), err error) {
	settings := hetznertest.DefaultSettings()
	const step = 300 * time.Millisecond
	settings.Create, settings.Boot, settings.Remove, settings.Hide = step, step, step, step
	hetznerProject = hetznertest.New(settings, nil, func(request string) { println("hetzner: odd: " + request) })
	server := httptest.NewServer(hetznerProject)
	return server.Close, os.Setenv(hetzner.EndpointVariable, server.URL+"/v1")
}

func startHetzner(*testing.T) backend { return hetznerCloud{hetznerProject} }

func hetznerTypes() []string { return []string{"cx23", "cx33"} }

func (hetznerCloud) Class(generation int) class {
	c := class{InstanceType: hetznerTypes()[generation], Region: "hel1", Zone: "hel1-dc2"}
	c.Spec = map[string]any{
		"cluster": "clouds", "zone": c.Zone, "serverType": c.InstanceType, "imageName": "ubuntu-24.04",
		"sshFingerprint": hetznertest.Fingerprint, "networkName": "nodes", "floatingPoolName": "pool",
	}
	return c
}

func (hetznerCloud) Credentials() map[string][]byte {
	return map[string][]byte{"token": []byte(hetznertest.Token)}
}

func (h hetznerCloud) VMs(context.Context) ([]vm, error) {
	var vms []vm
	for _, s := range h.Running() {
		generation := 0
		if s.Type == hetznerTypes()[1] {
			generation = 1
		}
		vms = append(vms, vm{
			ID: s.ID, Generation: generation, UserData: h.UserData(s.ID), Address: s.Address, NodeName: s.Name,
			ProviderID: "hcloud://" + s.ID, MCM: "hcloud:///hel1-dc2/" + s.ID,
		})
	}
	return vms, nil
}

func (h hetznerCloud) Kill(_ context.Context, id string) error {
	h.SetStatus(id, "gone")
	return nil
}

func (h hetznerCloud) Ledger(context.Context) ([]string, error) {
	var all []string
	for _, r := range h.Cloud.Ledger() {
		all = append(all, string(r.Kind)+" "+r.ID)
	}
	return all, nil
}
