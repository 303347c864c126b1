package vsphere_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/types"
	"go.yaml.in/yaml/v3"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/vcentertest"
)

// TestDatastoreCluster makes VMs in a datastore cluster: one whose storage DRS is
// off, on the datastore with the most space, and one that recommends.
func TestDatastoreCluster(t *testing.T) {
	t.Parallel()
	s := start(t)
	dc, err := s.Finder.DefaultDatacenter(t.Context())
	must(t, err)
	folders, err := dc.Folders(t.Context())
	must(t, err)
	pod, err := folders.DatastoreFolder.CreateStoragePod(t.Context(), "pod-1")
	must(t, err)
	a, c := s.open(t, class("pod", spec{"datastore": nil, "datastoreCluster": "pod-1"}))
	r := ask("m", c)
	if _, err := s.finish(t, a, r); cloud.CodeOf(err) != cloud.Exhausted {
		t.Errorf("with an empty datastore cluster: got %v, want Exhausted", err)
	}
	ds, err := s.Finder.Datastore(t.Context(), "LocalDS_0")
	must(t, err)
	task, err := pod.MoveInto(t.Context(), []types.ManagedObjectReference{ds.Reference()})
	must(t, err)
	must(t, task.Wait(t.Context()))
	if vm, err := s.finish(t, a, r); err != nil || vm.State != cloud.StateRunning {
		t.Errorf("with a datastore: got %v, %v, want a running VM", vm.State, err)
	}
	s.gone(t, a, r.Ref)
	on := true
	task, err = object.NewStorageResourceManager(s.Client.Client).ConfigureStorageDrsForPod(t.Context(), pod,
		types.StorageDrsConfigSpec{PodConfigSpec: &types.StorageDrsPodConfigSpec{Enabled: &on}}, true)
	must(t, err)
	must(t, task.Wait(t.Context()))
	r = ask("recommended", c)
	if vm, err := s.finish(t, a, r); err != nil || vm.State != cloud.StateRunning {
		t.Errorf("with storage DRS: got %v, %v, want a running VM", vm.State, err)
	}
	s.gone(t, a, r.Ref)
}

// TestSample: config/samples says what a VM can be made of.
func TestSample(t *testing.T) {
	t.Parallel()
	s := start(t)
	text, err := os.ReadFile("../../config/samples/vsphere/machineclass.yaml")
	must(t, err)
	var sample struct {
		Provider     string
		ProviderSpec spec `yaml:"providerSpec"`
	}
	must(t, yaml.Unmarshal(text, &sample))
	in := cloud.ClassInput{Name: "sample", Spec: newSpec(sample.ProviderSpec)}
	if c, problems := s.driver().Parse(in); len(problems) > 0 || sample.Provider != s.driver().Traits().Name ||
		c.Region != "region-1" {
		t.Errorf("provider %s, problems %v", sample.Provider, problems)
	}
	for field, here := range map[string]string{
		"datacenter": vcentertest.Datacenter, "resourcePool": vcentertest.Pool, "datastore": vcentertest.Datastore,
		"folder":     vcentertest.Folder,
		"templateVM": vcentertest.Template, "network": vcentertest.Network,
	} {
		sample.ProviderSpec[field] = here
	}
	a, c := s.open(t, cloud.ClassInput{Name: "sample", Spec: newSpec(sample.ProviderSpec)})
	r := ask("m", c)
	if vm, err := s.finish(t, a, r); err != nil || vm.State != cloud.StateRunning {
		t.Errorf("got %v, %v, want a running VM", vm.State, err)
	}
	s.gone(t, a, r.Ref)
}

// TestSampleOfZones: what the sample offers as failure domains.
func TestSampleOfZones(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../config/samples/vsphere/machineclass-zones.yaml")
	must(t, err)
	var sample struct {
		ProviderSpec spec `yaml:"providerSpec"`
	}
	must(t, yaml.Unmarshal(text, &sample))
	raw, err := json.Marshal(sample.ProviderSpec)
	must(t, err)
	c, problems := start(t).driver().Parse(cloud.ClassInput{Name: "sample", Spec: raw})
	if diff := cmp.Diff([]string{"zone-1", "zone-2"}, c.Zones); diff != "" || len(problems) > 0 {
		t.Errorf("problems %v, zones: %s", problems, diff)
	}
}

// TestCapacityOfTemplate: what the class does not say is the template's.
func TestCapacityOfTemplate(t *testing.T) {
	t.Parallel()
	s := start(t)
	a, c := s.open(t, class("as it is", spec{"numCpus": nil, "memory": nil, "guestId": "vmwarePhoton64Guest"}))
	got, err := a.Capacity(t.Context(), c)
	must(t, err)
	want := cloud.Capacity{
		Resources:    map[string]string{"cpu": "1", "memory": "32Mi", "ephemeral-storage": "10485760Ki"},
		Architecture: "amd64",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
