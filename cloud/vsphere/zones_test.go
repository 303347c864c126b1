package vsphere_test

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/vmware/govmomi/vim25/types"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/cloudtest"
)

// free is a class with three zones that leaves the choice.
func free() cloud.ClassInput {
	return class("free", spec{"zones": []any{
		spec{"name": "a", "resourcePool": "DC0_C0/Resources"},
		spec{"name": "b", "hostSystem": "DC0_H0/DC0_H0"},
		spec{"name": "c", "computeCluster": "DC0_C0"},
	}, "resourcePool": nil})
}

// TestZones makes a VM in each zone of a class.
func TestZones(t *testing.T) {
	t.Parallel()
	s := start(t)
	a, c := s.open(t, class("zoned", zoned()))
	if c.Zone != "zone-a" || !slices.Equal(c.Zones, []string{"zone-b"}) || !c.TakesZone("zone-b") ||
		c.TakesZone("zone-c") {
		t.Errorf("got zone %q, zones %v, want zone-a, and zone-b beside it", c.Zone, c.Zones)
	}
	switchID := strings.ToLower(s.switchUUID(t))
	for _, wish := range []string{"", "zone-a", "zone-b"} {
		s.proxy.Forget()
		want := cmp.Or(wish, "zone-a")
		r := ask("m-"+want+"-"+wish, c)
		r.Zone = wish
		vm, err := s.finish(t, a, r)
		if err != nil || vm.State != cloud.StateRunning || vm.Zone != want {
			t.Fatalf("zone %q: got a VM in %q that is %v, %v, want it to run in %s", wish, vm.Zone, vm.State, err, want)
		}
		host, err := s.handle(t, vm.ID).HostSystem(t.Context())
		must(t, err)
		name, err := host.ObjectName(t.Context())
		must(t, err)
		if inB := want == "zone-b"; inB != (name == "DC0_H0") {
			t.Errorf("zone %q: the VM runs on %s", wish, name)
		} else if onSwitch := strings.Contains(fmt.Sprint(s.configurations()), "<switchUuid>"+switchID); inB != onSwitch {
			t.Errorf("zone %q: the VM is on the switch of zone-b: %v", wish, onSwitch)
		}
		for res, err := range a.List(t.Context(), c) {
			if err != nil || res.VM.Zone != want {
				t.Errorf("zone %q: listed in %q, %v", wish, res.VM.Zone, err)
			}
		}
		s.gone(t, a, r.Ref)
	}
}

// configurations are the bodies of the requests for changes.
func (s *vcsim) configurations() []string {
	var all []string
	for _, call := range s.proxy.Calls() {
		if call.Op == "ReconfigVM_Task" {
			all = append(all, string(call.Body))
		}
	}
	return all
}

// TestUnknownZone: a zone that the class does not have is refused before anything is
// made.
func TestUnknownZone(t *testing.T) {
	t.Parallel()
	s := start(t)
	for _, edits := range []spec{nil, {"zone": "here"}, zoned()} {
		a, c := s.open(t, class("zones", edits))
		s.proxy.Forget()
		r := ask("m", c)
		r.Zone = "elsewhere"
		_, err := s.finish(t, a, r)
		e, _ := errors.AsType[*cloud.Error](err)
		if e == nil || e.Code != cloud.Invalid || e.Reason != "UnknownZone" {
			t.Errorf("%v: got %v, want Invalid", edits, err)
		}
		if n := len(s.proxy.Calls()); n != 0 {
			t.Errorf("%v: %d calls, want none", edits, n)
		}
	}
}

// TestFullZone: the error names the zone that is full, so another one can be tried
// under the same token.
func TestFullZone(t *testing.T) {
	t.Parallel()
	s := start(t)
	a, c := s.open(t, free())
	s.FailTask("VirtualMachine.cloneVm", &types.NoDiskSpace{Datastore: "LocalDS_0"})
	r := ask("m", c)
	r.Zone = "c"
	_, err := s.finish(t, a, r)
	e, _ := errors.AsType[*cloud.Error](err)
	if e == nil || e.Code != cloud.Exhausted || e.Offering == nil || e.Offering.Zone != "c" {
		t.Errorf("got %v, want Exhausted with the zone", err)
	}
	r.Zone = "b"
	if vm, err := s.finish(t, a, r); err != nil || vm.State != cloud.StateRunning || vm.Zone != "b" {
		t.Errorf("in another zone: got %v, %v, want a running VM there", vm, err)
	}
	s.gone(t, a, r.Ref)
}

// TestFailureInAnotherZone: a caller that asked for another zone meanwhile is not told
// that this one is full.
func TestFailureInAnotherZone(t *testing.T) {
	t.Parallel()
	s := start(t)
	a, c := s.open(t, free())
	s.FailTask("VirtualMachine.cloneVm", &types.NoDiskSpace{Datastore: "LocalDS_0"})
	r := ask("m", c)
	r.Zone = "a"
	vm, err := a.Create(t.Context(), *r)
	must(t, err)
	s.advance(t, vm.RetryAfter)
	r.Zone = "b"
	if vm, err := s.finish(t, a, r); err != nil || vm.State != cloud.StateRunning || vm.Zone != "b" {
		t.Errorf("got %v, %v, want a running VM in the other zone", vm, err)
	}
	s.gone(t, a, r.Ref)
}

// TestZoneIsKept: without a wish the zone follows from the token.
func TestZoneIsKept(t *testing.T) {
	t.Parallel()
	s := start(t)
	_, c := s.open(t, free())
	r := ask("m", c)
	lost := s.proxy.Inject(cloudtest.Fault{
		Kind: cloudtest.DropRequest, Match: cloudtest.Op("CloneVM_Task"), Times: cloudtest.Forever,
	})
	for range 4 {
		a, _ := s.open(t, free())
		_, _ = a.Create(t.Context(), *r)
	}
	lost.Undo()
	if got := slices.Compact(s.clones()); len(got) != 1 {
		t.Errorf("the clone is asked for in %d ways, want 1: %s", len(got), strings.Join(got, "\n"))
	}
}
