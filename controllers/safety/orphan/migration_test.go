package orphan

import (
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
)

// made is how a VM came about, as its tags tell.
type made struct {
	owner  string // owner id, empty for one of MCM's
	tagged bool   // made by Cluster API's providers
}

func (w *env) makeAs(name string, m made) string {
	w.Helper()
	if m.tagged {
		return w.makeTagged(name, m.owner, "here")
	}
	return w.makeVM(name, m.owner)
}

// TestMovedVMs: a VM that has moved to another API has its only owner there, and
// the collectors of both APIs know it, whatever its tags and the form of the
// providerID.
func TestMovedVMs(t *testing.T) {
	t.Parallel()
	forms := map[string]func(id string) string{
		"MCMForm":  provider,
		"NodeForm": func(id string) string { return sim.ProviderID("sim-1a", id) },
	}
	owners := map[string]func(name, ownerID, providerID string) client.Object{
		"MCMMachine": func(name, ownerID, providerID string) client.Object { return mcmMachine(name, ownerID, providerID) },
		"Retained": func(name, ownerID, providerID string) client.Object {
			return mcmMachine(name, ownerID, providerID, func(m *infrav1.MCMMachine) {
				m.Annotations[machinev1.RetainVMAnnotation] = "true"
			})
		},
		"Machine": func(name, ownerID, providerID string) client.Object { return machine(name, ownerID, providerID) },
		"Held": func(name, ownerID, providerID string) client.Object {
			return machine(name, ownerID, providerID, func(m *machinev1.Machine) {
				m.Annotations[machinev1.MigrationHoldAnnotation] = "x"
			})
		},
	}
	cases := map[string]struct {
		reason         string
		vm             made
		name, objectID string // of the owner
	}{
		"OfMCM":        {"A VM of MCM's has no owner id, and is found by its name.", made{}, "m-1", "o-1"},
		"OfMCMRenamed": {"Or by its providerID, whatever its owner is called.", made{}, "other", "o-1"},
		"Native":       {"The owner id moves along.", made{owner: "o-1"}, "m-1", "o-1"},
		"NativeLost":   {"Even one that was lost costs no VM: the providerID names it.", made{owner: "o-1"}, "m-1", "uid"},
		"Tagged": {
			"The tags of a Cluster stay on a VM that went over to the native API.",
			made{owner: "o-1", tagged: true},
			"m-1", "o-1",
		},
		"TaggedLost":    {"Even without its owner id.", made{owner: "o-1", tagged: true}, "other", "uid"},
		"TaggedUnowned": {"Even without an owner id in the tags.", made{tagged: true}, "m-1", "o-1"},
	}
	for name, tc := range cases {
		for form, providerID := range forms {
			for kind, owner := range owners {
				t.Run(name+form+kind, func(t *testing.T) {
					t.Parallel()
					w := newEnvOfBothAPIs(t, apis{native: true, clusterAPI: true}, home1()...)
					id, orphan := w.makeAs("m-1", tc.vm), w.makeAs("m-2", made{owner: "o-2", tagged: tc.vm.tagged})
					w.Create(owner(tc.name, tc.objectID, providerID(id)))
					w.pass("a", 2*time.Hour)
					if left := w.left(); !left[id] || left[orphan] {
						t.Errorf("%s It is left: %t, an orphan beside it: %t", tc.reason, left[id], left[orphan])
					}
				})
			}
		}
	}
}

// TestMovingVMs: while objects of both APIs know a VM, it may be that one of
// them knows another VM or none. As long as one is held, nothing goes.
func TestMovingVMs(t *testing.T) {
	t.Parallel()
	for _, tagged := range []bool{false, true} {
		w := newEnvOfBothAPIs(t, apis{native: true, clusterAPI: true}, home1()...)
		id, disk := w.makeAs("m-1", made{owner: "o-1", tagged: tagged}), w.makeDisk("m-1", "o-1")
		w.Create(machine("m-1", "o-1", "", func(m *machinev1.Machine) {
			m.Annotations[machinev1.MigrationHoldAnnotation] = "x"
		}))
		w.Create(mcmMachine("m-1", "o-1", sim.ProviderID("sim-1a", "vm-other")))
		w.pass("a", 2*time.Hour)
		if left := w.left(); !left[id] || !left[disk] {
			t.Errorf("tagged %t: left %v", tagged, left)
		}
	}
}
