package clouds

import (
	"context"
	"testing"

	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/vcentertest"
)

// vsphereCloud is govmomi's simulator.
type vsphereCloud struct {
	*vcentertest.VCenter
	before map[string]bool // VMs of the simulator's own
}

func startVSphere(t *testing.T) backend {
	t.Helper()
	v, err := vcentertest.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.Close)
	s := &vsphereCloud{v, map[string]bool{}}
	vms, err := v.VMs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range vms {
		s.before[x.Self.Value] = true
	}
	return s
}

func (s *vsphereCloud) Class(generation int) class {
	c := class{InstanceType: "vm", Region: "region-1", Zone: "zone-1"}
	c.Spec = map[string]any{
		"region": c.Region, "datacenter": vcentertest.Datacenter, "datastore": vcentertest.Datastore,
		"resourcePool": vcentertest.Pool,
		"folder":       vcentertest.Folder, "templateVM": vcentertest.Template, "network": vcentertest.Network,
		"numCpus": 2 + generation, "memory": 2048,
		"tags": map[string]string{"mcm.gardener.cloud/cluster": "clouds", "mcm.gardener.cloud/role": "node"},
	}
	return c
}

func (s *vsphereCloud) Credentials() map[string][]byte {
	return map[string][]byte{
		"vsphereHost": []byte(s.Host()), "vsphereUsername": []byte(vcentertest.User),
		"vspherePassword":   []byte(vcentertest.Password),
		"vsphereThumbprint": []byte(s.Thumbprint()),
	}
}

func (s *vsphereCloud) VMs(ctx context.Context) ([]vm, error) {
	guests, err := s.Guests(ctx)
	var vms []vm
	for _, g := range guests {
		if g.On {
			vms = append(vms, vm{
				ID: g.ID, Generation: int(g.CPUs) - 2, UserData: g.UserData, NodeName: g.Name,
				ProviderID: "vsphere://" + g.ID, MCM: "vsphere://region-1/" + g.ID,
			})
		}
	}
	return vms, err
}

func (s *vsphereCloud) Kill(ctx context.Context, id string) error { return s.Destroy(ctx, id) }

func (s *vsphereCloud) Ledger(ctx context.Context) ([]string, error) {
	vms, err := s.VCenter.VMs(ctx)
	var all []string
	for _, x := range vms {
		if !s.before[x.Self.Value] {
			all = append(all, "VM "+x.Name)
		}
	}
	return all, err
}
