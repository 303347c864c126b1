package gcp_test

import (
	"errors"
	"path"
	"testing"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/cloudtest"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/gcptest"
)

const (
	zoneB = gcptest.Region + "-b"
	zoneC = gcptest.Region + "-c"
)

// TestZones: names are unique in a zone only. A class with several zones makes one VM, in the zone that its
// machine asks for, and finds it before it has a providerID, also with a checkpoint that was lost.
func TestZones(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	a, c := w.open(class(spec{"zone": zoneB, "zones": []string{zoneC}}), credentials())
	if !c.TakesZone(zoneC) || c.TakesZone(gcptest.Region+"-d") {
		t.Errorf("zones of the class: %v", c.NamedZones())
	}
	m := newMachine("m-1", c)
	m.Zone = zoneC
	vm, err := w.create(a, m)
	if err != nil || vm.Zone != zoneC {
		t.Fatalf("create in zone %s: %+v, %v", zoneC, vm, err)
	}
	m.State, m.Zone = "", zoneB
	next, _ := w.open(class(spec{"zone": zoneB, "zones": []string{zoneC}}), credentials())
	again, err := w.create(next, m)
	if err != nil || again.ProviderID != vm.ProviderID {
		t.Errorf("create again: %+v, %v; want %s", again, err, vm.ProviderID)
	}
	if got, err := next.Get(t.Context(), m.Ref); err != nil || got.ProviderID != vm.ProviderID {
		t.Errorf("get without a providerID: %+v, %v; want %s", got, err, vm.ProviderID)
	}
	if err := w.remove(next, m.Ref); err != nil || len(w.Things()) != 0 {
		t.Errorf("delete without a providerID: %v, %d things left; want none", err, len(w.Things()))
	}
}

// TestZoneOfTheOperation: a request that is under way is followed in the zone that it was made for, and one
// that has failed there reports that zone as exhausted.
func TestZoneOfTheOperation(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.FailNext("ZONE_RESOURCE_POOL_EXHAUSTED", "The zone does not have enough resources available.")
	a, c := w.open(class(spec{"zone": zoneB, "zones": []string{zoneC}}), credentials())
	m := newMachine("m-1", c)
	m.Zone = zoneC
	if vm, err := a.Create(t.Context(), m.CreateRequest); err != nil || vm.RetryAfter == 0 {
		t.Fatalf("create: %+v, %v; want a VM that is waited for", vm, err)
	}
	m.Zone = zoneB
	_, err := w.create(a, m)
	e, _ := errors.AsType[*cloud.Error](err)
	if e == nil || e.Code != cloud.Exhausted || e.Offering == nil || e.Offering.Zone != zoneC {
		t.Fatalf("create whose operation fails: %v, want %s exhausted", err, zoneC)
	}
	if vm, err := w.create(a, m); err != nil || vm.Zone != zoneB {
		t.Errorf("create in zone %s: %+v, %v", zoneB, vm, err)
	}
}

// TestZoneOfALostRequest: a request whose answer was lost may have made a VM that is not shown yet. The attempt
// stays in its zone, although the machine asks for another one now.
func TestZoneOfALostRequest(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	a, c := w.open(class(spec{"zone": zoneB, "zones": []string{zoneC}}), credentials())
	m := newMachine("m-1", c)
	m.Zone = zoneC
	w.Hide(20 * time.Second)
	lost := w.proxy.Inject(cloudtest.Fault{Kind: cloudtest.DropResponse, Match: cloudtest.Mutating})
	if _, err := a.Create(t.Context(), m.CreateRequest); err == nil || lost.Fired() != 1 {
		t.Fatalf("create whose answer is lost: %v, %d answers lost", err, lost.Fired())
	}
	m.Zone = zoneB
	next, _ := w.open(class(spec{"zone": zoneB, "zones": []string{zoneC}}), credentials())
	if vm, err := w.create(next, m); err != nil || vm.Zone != zoneC {
		t.Errorf("create again: %+v, %v; want the VM in zone %s", vm, err, zoneC)
	}
	for _, thing := range w.Things() {
		if path.Dir(thing.ID) != zoneC {
			t.Errorf("%s is there, want nothing outside of zone %s", thing.ID, zoneC)
		}
	}
}
