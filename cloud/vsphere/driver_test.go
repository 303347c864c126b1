package vsphere_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/cloudtest"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/wrap"
)

// spec is a provider spec; edits change it, nil takes a field away.
type spec map[string]any

func newSpec(edits spec) json.RawMessage {
	s := spec{
		"region": "region-1", "datacenter": "DC0", "datastore": "LocalDS_0", "resourcePool": "DC0_C0/Resources",
		"folder":     "mcm",
		"templateVM": "DC0_C0_RP0_VM0", "network": "VM Network", "numCpus": 2, "memory": 2048,
		"extraConfig": map[string]any{"SET.guest.ipAddress": "10.0.0.7"}, // the simulator's way to give it one
		"tags":        map[string]any{"kubernetes.io/cluster/c1": "1", "kubernetes.io/role/node": "1"},
	}
	for key, value := range edits {
		if value == nil {
			delete(s, key)
			continue
		}
		s[key] = value
	}
	text, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return text
}

func class(name string, edits spec) cloud.ClassInput {
	return cloud.ClassInput{Name: name, Namespace: "default", Spec: newSpec(edits)}
}

func tags(cluster, role string) spec {
	return spec{"tags": map[string]string{"kubernetes.io/cluster/" + cluster: "1", "kubernetes.io/role/" + role: "1"}}
}

// tagged are the edits that give a class two zones and these tags.
func tagged(pairs ...string) spec {
	all := tags("c1", "node")
	for i := 0; i < len(pairs); i += 2 {
		all["tags"].(map[string]string)[pairs[i]] = pairs[i+1]
	}
	maps.Copy(all, zoned())
	return all
}

// zoned are the edits that give a class two zones, of which the first is the place
// that newSpec names.
func zoned() spec {
	return spec{"zone": "zone-a", "zones": []any{
		spec{"name": "zone-b", "hostSystem": "DC0_H0/DC0_H0", "network": "DC0_DVPG0"},
	}}
}

// beside are the fields that MCM's driver does not have, in a place in a cluster that
// prepare has made ready.
func beside() spec {
	return spec{
		"additionalNetworks": []any{spec{"network": "DC0_DVPG0"}},
		"vsphereTags":        []any{named("zones", "a"), named("teams", "blue")},
		"antiAffinityGroup":  "pool-1", "vmGroup": "workers", "storagePolicy": "vSAN Default Storage Policy",
		"zone": "zone-a", "zones": []any{spec{"name": "zone-b", "hostSystem": "DC0_C0/DC0_C0_H1", "network": "DC0_DVPG0"}},
	}
}

// prepare makes what beside names.
func (s *vcsim) prepare(t testing.TB) {
	t.Helper()
	s.categories(t)
	s.makeGroup(t)
}

// full is a class with every field set that the simulator can serve.
func full() spec {
	all := beside()
	maps.Copy(all, spec{
		"datacenter": "DC0", "memoryReservationLockedToMax": true, "systemDisk": spec{"size": 20}, "guestId": "ubuntu64Guest",
		"extraConfig": spec{"SET.guest.ipAddress": "10.0.0.7", "disk.EnableUUID": "TRUE"}, "force": true, "waitForIP": true,
		"network": "DC0_DVPG0", "sshKeys": []any{"ssh-ed25519 AAAA test"}, "numCpus": 4, "memory": 4096,
		"tags": spec{"mcm.gardener.cloud/cluster": "c1", "mcm.gardener.cloud/role": "node", "team": "a"},
	})
	return all
}

func fixture(t testing.TB) *cloudtest.Fixture {
	t.Helper()
	s := start(t)
	s.prepare(t)
	destroy := func(t testing.TB, id string) {
		t.Helper()
		must(t, s.Destroy(t.Context(), id))
	}
	another := cloudtest.Another{Scopes: wrap.Scopes()}
	if strings.Contains(t.Name(), "/C43_") {
		another.Credentials = start(t).credentials()
	}
	return &cloudtest.Fixture{
		Another: another,
		Driver:  func() cloud.Driver { return s.driver() },
		Class:   class("small", zoned()),
		Others: map[string]cloud.ClassInput{
			"another cluster": class("small", tags("c2", "node")), "another role": class("small", tags("c1", "other")),
			"a longer cluster": class("small", tags("c11", "node")),
		},
		Elsewhere: class("elsewhere", nil),
		Scarce: map[string]cloudtest.Scarcity{"Zone": {
			Class: class("small", zoned()), Zone: "zone-a", Free: class("small", zoned()), FreeZone: "zone-b",
			SellOut: func(testing.TB) func() {
				s.FailTask("VirtualMachine.cloneVm", &types.InsufficientCpuResourcesFault{})
				return func() {}
			},
		}},
		Tagged:      class("tagged", tagged("team", "a", "stage", "test")),
		Retagged:    class("tagged", tagged("team", "b", "cost", "7")),
		Memory:      wrap.Offerings(0, wrap.Clock{}),
		UnknownType: class("unknown", spec{"templateVM": "no-such-template", "numCpus": nil}),
		Broken: class("broken", spec{
			"templateVM": nil, "network": 7, "datastore": []any{}, "numCpus": "two", "sshKeys": "none", "extraConfig": 1,
			"systemDisk": "x",
		}),
		Credentials: s.credentials(),
		Public:      []string{"vsphereHost", "vsphereUsername", "vsphereInsecureSSL"},
		Backend: cloudtest.Backend{
			Proxy: s.proxy, Ledger: s.ledger, Seed: s.seed, Advance: s.advance, UserData: s.userData, PageSize: 100,
			Network: s.network,
			States: []cloudtest.VMState{
				{Name: "poweredOff", Set: s.power((*object.VirtualMachine).PowerOff), Want: cloud.StateStopped},
				{Name: "suspended", Set: s.power((*object.VirtualMachine).Suspend), Want: cloud.StateStopped},
				{Name: "orphaned", Set: s.orphan, Want: cloud.StateFailed},
				{Name: "destroyed", Set: destroy, Want: cloud.StateUnknown},
			},
			Boot:   s.boot,
			Fail:   s.orphan,
			Occupy: s.occupy,
			Expire: s.expire,
			Revoke: func(t testing.TB) { s.Revoke(); s.expire(t) },
		},
	}
}

func harness() cloudtest.Harness {
	return cloudtest.Harness{
		New: fixture,
		Lacks: map[string]string{
			"C44/Failed": "a clone that fails leaves nothing",
			"C48":        "requests quote the template's devices; TestConformance/C05 and the tests of a step compare them",
			"C45":        "a clone is a task that Create waits for, and its networks and disks are parts of it",
			"C47":        "the simulated inventory is no measure of vCenter's calls; C34 counts those of a machine",
			"C46/Spot":   "vCenter has no spot market", "C46/Regular": "vCenter has no spot market",
			"C46/Group":        "the simulator places VMs without the rules of groups; TestShortageOfOneClass tries a datastore",
			"C46/Accelerators": "MCM's classes for vSphere name none",
			"C33":              "vCenter takes no VM away",
			"C16":              "vCenter has no eventual consistency: what a call made is in the inventory when it returns",
			"C24/Many":         "the simulator gives an address to one interface; TestAddresses tries many",
			"C28":              "a clone's disks and interfaces are parts of the VM, in its directory, and nothing else is made",
			"C42":              "no class keeps anything: the disks of a VM are destroyed with it",
			"C38":              "vCenter has no load balancers",
			"C39":              "vCenter keeps no text of a console; a file has one where the template has a serial port",
		},
		Samples: samples(),
		Rules:   rules(),
		Secrets: secrets(),
		Golden: &cloudtest.Golden{File: "testdata/create.golden", Class: func(*cloudtest.Fixture) cloud.ClassInput {
			return class("full", full())
		}, Normalize: normalize},
		ProviderIDs: providerIDs(),
		Errors:      errorRows(),
		Volumes:     volumes(),
		ProviderID: func(vm cloud.VM, c cloud.Class) (mcm, node string) {
			return "vsphere://" + c.Region + "/" + vm.ID, "vsphere://" + vm.ID
		},
		Capacity: cloud.Capacity{
			Resources:    map[string]string{"cpu": "2", "memory": "2048Mi", "ephemeral-storage": "10485760Ki"},
			Architecture: "amd64",
		},
		Draws: cloudtest.Draws(),
	}
}

func TestConformance(t *testing.T) { //nolint:paralleltest // the kit captures the log of the process
	cloudtest.Run(t, harness())
}

// TestConformanceBesideMCM tries the cases about creation and deletion with the fields that
// MCM's driver does not have: each of their requests is lost, repeated and late in turn.
func TestConformanceBesideMCM(t *testing.T) { //nolint:paralleltest // the kit captures the log of the process
	h := harness()
	h.Unrecorded, h.Parallel, h.Lacks = true, 20, map[string]string{}
	h.New = func(t testing.TB) *cloudtest.Fixture {
		t.Helper()
		f := fixture(t)
		f.Class = class("small", beside())
		return f
	}
	matter := []string{"C04", "C06", "C07", "C08", "C10", "C19", "C29", "C30", "C31"}
	ids, _ := cloudtest.Cases()
	for _, id := range ids {
		if !slices.Contains(matter, id) {
			h.Lacks[id] = "TestConformance tries it, and these fields change nothing about it"
		}
	}
	cloudtest.Run(t, h)
}
