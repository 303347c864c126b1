package azure_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/azuretest"
)

// TestTakeover: what MCM made carries the tags of the class alone and is named after the machine. It is found by
// the providerID that MCM recorded, byte for byte, gets no owner by being found, and goes whole with its machine.
func TestTakeover(t *testing.T) {
	t.Parallel()
	const (
		name       = "shoot--foo--bar-worker-z1-5c7d9-x2x4q"
		providerID = "azure:///westeurope/shoot--foo--bar-worker-z1-5c7d9-x2x4q"
	)
	r := newRoom(t, nil)
	made := r.now.Now().Add(-48 * time.Hour)
	tags := map[string]string{"kubernetes.io-cluster-c1": "1", "kubernetes.io-role-node": "1"}
	all := []azuretest.Resource{
		{Type: azuretest.TypeVM, Name: name, Zones: []string{"1"}, Properties: map[string]any{
			"hardwareProfile": map[string]any{"vmSize": smallSize},
		}},
		{Type: azuretest.TypeNIC, Name: name + "-nic", VM: name, Address: "10.0.0.4"},
		{Type: azuretest.TypeDisk, Name: name + "-os-disk", VM: name, Zones: []string{"1"}},
	}
	for _, resource := range all {
		resource.Tags, resource.Made, resource.DeleteWith = tags, made, true
		r.Add(resource)
	}
	m := r.request
	m.Name, m.ProviderID = name, providerID
	vm, err := r.account.Get(t.Context(), m.Ref)
	if err != nil || vm.ProviderID != providerID || vm.State != cloud.StateRunning || vm.OwnerID != "" ||
		vm.NodeName != name {
		t.Fatalf("get: %+v, %v; want the VM that MCM made, running", vm, err)
	}
	const node = "azure:///subscriptions/" + azuretest.Subscription + "/resourceGroups/machines" +
		"/providers/Microsoft.Compute/virtualMachines/" + name
	if vm.NodeProviderID != node {
		t.Errorf("providerID of the Node: %s, want %s", vm.NodeProviderID, node)
	}
	if again, err := r.account.Create(t.Context(), m); err != nil || again.ProviderID != providerID {
		t.Errorf("create with the recorded providerID: %+v, %v; want that VM", again, err)
	}
	for _, resource := range r.Ledger() {
		if diff := cmp.Diff(tags, resource.Tags); diff != "" {
			t.Errorf("tags of %s, -want +got:\n%s", resource.Name, diff)
		}
	}
	for range 10 {
		if d, err := r.account.Delete(t.Context(), m.Ref); err != nil || d.Done {
			break
		}
		r.now.Advance(time.Minute)
	}
	if left := r.Ledger(); len(left) > 0 {
		t.Errorf("after the deletion there are %+v, want nothing", left)
	}
}
