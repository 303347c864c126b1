package vsphere_test

import (
	"cmp"
	"strings"
	"testing"

	"github.com/vmware/govmomi/vim25/types"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// TestSeveralNetworks: a VM has an interface on each network, in order.
func TestSeveralNetworks(t *testing.T) {
	t.Parallel()
	s := start(t)
	a, c := s.open(t, class("networks", spec{"additionalNetworks": []any{
		spec{"network": "DC0_DVPG0", "switchUuid": s.switchUUID(t)}, spec{"network": "VM Network"},
	}}))
	r := ask("m", c)
	vm, err := s.finish(t, a, r)
	must(t, err)
	devices, err := s.handle(t, vm.ID).Device(t.Context())
	must(t, err)
	var got []string
	for _, d := range devices.SelectByType((*types.VirtualEthernetCard)(nil)) {
		switch b := d.GetVirtualDevice().Backing.(type) {
		case *types.VirtualEthernetCardNetworkBackingInfo:
			got = append(got, b.DeviceName)
		case *types.VirtualEthernetCardDistributedVirtualPortBackingInfo:
			got = append(got, b.Port.PortgroupKey)
		}
	}
	if len(got) != 3 || got[0] != "VM Network" || !strings.HasPrefix(got[1], "dvportgroup-") || got[2] != "VM Network" {
		t.Errorf("got interfaces on %v, want VM Network, DC0_DVPG0 and VM Network", got)
	}
	s.gone(t, a, r.Ref)
	for field, n := range map[string]spec{
		"additionalNetworks[0].network":    {"network": "nowhere"},
		"additionalNetworks[0].switchUuid": {"network": "DC0_DVPG0", "switchUuid": "another"},
	} {
		_, c := s.open(t, class("networks", spec{"additionalNetworks": []any{n}}))
		s.refusesCreate(t, a, c, field)
	}
	s.setDRS(t, false)
	s.lonelyNetwork(t)
	_, c = s.open(t, inCluster(spec{"additionalNetworks": []any{spec{"network": "lonely-net"}}}))
	s.refusesCreate(t, a, c, "computeCluster")
}

// TestZoneNetworks: a zone may have interfaces of its own.
func TestZoneNetworks(t *testing.T) {
	t.Parallel()
	s := start(t)
	_, c := s.open(t, class("zoned", spec{
		"zone": "zone-a", "additionalNetworks": []any{spec{"network": "n-1"}},
		"zones": []any{spec{
			"name": "zone-b", "additionalNetworks": []any{spec{"network": "VM Network"}, spec{"network": "DC0_DVPG0"}},
		}},
	}))
	a, _ := s.open(t, class("small", nil))
	for zone, want := range map[string]int{"zone-b": 3, "zone-a": 0} {
		r := ask("m-"+zone, c)
		r.Zone = zone
		vm, err := s.finish(t, a, r)
		if want == 0 {
			if cloud.CodeOf(err) != cloud.Invalid {
				t.Errorf("%s: got %v, want the class's network to be missed", zone, err)
			}
			continue
		}
		must(t, err)
		devices, err := s.handle(t, vm.ID).Device(t.Context())
		must(t, err)
		if got := len(devices.SelectByType((*types.VirtualEthernetCard)(nil))); got != want {
			t.Errorf("%s: %d interfaces, want %d", zone, got, want)
		}
		s.gone(t, a, r.Ref)
	}
}

// takeSnapshots gives the template these snapshots, one on the other.
func (s *vcsim) takeSnapshots(t testing.TB, template string, names ...string) {
	t.Helper()
	vm, err := s.Finder.VirtualMachine(t.Context(), template)
	must(t, err)
	for _, name := range names {
		task, err := vm.CreateSnapshot(t.Context(), name, "", false, false)
		must(t, err)
		must(t, task.Wait(t.Context()))
	}
}

// TestLinkedClone: the clone shares the disks of a snapshot.
func TestLinkedClone(t *testing.T) {
	t.Parallel()
	s := start(t)
	a, c := s.open(t, class("linked", spec{"linkedClone": true}))
	s.refusesCreate(t, a, c, "linkedClone")
	s.takeSnapshots(t, "DC0_C0_RP0_VM0", "base", "patched")
	vm, err := s.Finder.VirtualMachine(t.Context(), "DC0_C0_RP0_VM0")
	must(t, err)
	for _, snapshot := range []string{"", "base", "patched"} {
		ref, err := vm.FindSnapshot(t.Context(), cmp.Or(snapshot, "patched"))
		must(t, err)
		_, c := s.open(t, class("linked", spec{"linkedClone": true, "snapshot": snapshot}))
		s.proxy.Forget()
		r := ask("m-"+snapshot, c)
		if vm, err := s.finish(t, a, r); err != nil || vm.State != cloud.StateRunning {
			t.Errorf("%q: got %v, %v, want a running VM", snapshot, vm.State, err)
		}
		seen := s.clones()
		if len(seen) != 1 || !strings.Contains(seen[0], ">"+ref.Value+"</snapshot>") ||
			!strings.Contains(seen[0], "createNewChildDiskBacking") {
			t.Errorf("%q: got %v, want a clone linked to %s", snapshot, seen, ref.Value)
		}
		s.gone(t, a, r.Ref)
	}
	for field, edits := range map[string]spec{
		"snapshot": {"snapshot": "none"}, "systemDisk.size": {"systemDisk": spec{"size": 20}},
	} {
		edits["linkedClone"] = true
		_, c := s.open(t, class("linked", edits))
		s.refusesCreate(t, a, c, field)
	}
}

// TestStoragePolicy: the VM and each of its disks are asked for with the policy, by name
// and by id, on a datastore that satisfies it.
func TestStoragePolicy(t *testing.T) {
	t.Parallel()
	s := start(t)
	const name, id = "vSAN Default Storage Policy", "aa6d5a82-1c88-45da-85d3-3d74b91a5bad"
	a, _ := s.open(t, class("small", nil))
	for _, policy := range []string{name, id} {
		_, c := s.open(t, class("policy", spec{"storagePolicy": policy}))
		s.proxy.Forget()
		r := ask("m", c)
		if vm, err := s.finish(t, a, r); err != nil || vm.State != cloud.StateRunning {
			t.Errorf("%q: got %v, %v, want a running VM", policy, vm.State, err)
		}
		if got := s.clones(); len(got) != 1 || strings.Count(got[0], "<profileId>"+id+"</profileId>") != 2 {
			t.Errorf("%q: got %v, want a clone with the policy of VM and disk", policy, got)
		}
		s.gone(t, a, r.Ref)
	}
	_, c := s.open(t, class("policy", spec{"storagePolicy": "gold"}))
	s.refusesCreate(t, a, c, "storagePolicy")
	store, err := s.Finder.Datastore(t.Context(), "LocalDS_0")
	must(t, err)
	s.Unsuit(store.Reference())
	_, c = s.open(t, class("policy", spec{"storagePolicy": name}))
	s.refusesCreate(t, a, c, "storagePolicy")
}
