package gcp_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/gcptest"
)

// TestTakeover: a VM that MCM made has the machine's name, network tags and the class's labels, and
// is found by the providerID that MCM recorded, byte for byte. It gets no owner by being found.
func TestTakeover(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	at := w.AddVM(gcptest.SeedVM{
		Zone: zone, Name: "shoot--foo--bar-worker-z1-5c7d9-x2x4q",
		Tags:   []string{"kubernetes-io-cluster-c", "kubernetes-io-role-node", "web"},
		Labels: map[string]string{"name": "shoot--foo--bar"}, Age: 48 * time.Hour,
	})
	a, c := w.open(class(nil), credentials())
	m := newMachine("shoot--foo--bar-worker-z1-5c7d9-x2x4q", c)
	m.ProviderID = "gce:///my-project/europe-west1-b/shoot--foo--bar-worker-z1-5c7d9-x2x4q"
	want := cloud.VM{
		ID:             at,
		ProviderID:     m.ProviderID,
		NodeProviderID: "gce://my-project/europe-west1-b/shoot--foo--bar-worker-z1-5c7d9-x2x4q",
		Name:           m.Name, NodeName: m.Name, State: cloud.StateRunning, Reason: "RUNNING", Region: gcptest.Region,
		Zone: zone, InstanceType: "n2-standard-2", Addresses: []cloud.Address{{Kind: "InternalIP", Value: "10.0.0.3"}},
		Created: w.clock.Now().Add(-48 * time.Hour),
	}
	vm, err := a.Get(t.Context(), m.Ref)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, vm); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if vm, err := w.create(a, m); err != nil || vm.ID != at {
		t.Errorf("create with a recorded providerID: got %q, %v, want %q", vm.ID, err, at)
	}
	if got := w.Things(); len(got) != 1 || !cmp.Equal(got[0].Labels, map[string]string{"name": "shoot--foo--bar"}) {
		t.Errorf("the project has %+v, want the VM of MCM as it was", got)
	}
	if err := w.remove(a, m.Ref); err != nil || len(w.Things()) != 0 {
		t.Errorf("delete: %v, left behind %+v", err, w.Things())
	}
}

// TestOtherProject: that an instance of another project does not exist in this one must not mean that it is
// gone: neither a look nor a deletion says so, whatever the machine has recorded.
func TestOtherProject(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	a, c := w.open(class(nil), credentials())
	m := newMachine("m-1", c)
	vm, err := w.create(a, m)
	if err != nil {
		t.Fatal(err)
	}
	m.ProviderID = strings.Replace(vm.ProviderID, "my-project", "other", 1)
	if _, err := a.Get(t.Context(), m.Ref); cloud.CodeOf(err) != cloud.Denied {
		t.Errorf("get: got %v, want Denied", err)
	}
	if d, err := a.Delete(t.Context(), m.Ref); cloud.CodeOf(err) != cloud.Denied || d.Done {
		t.Errorf("delete: got %+v, %v, want Denied", d, err)
	}
}
