package vsphere_test

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/vmware/govmomi/vim25/types"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/cloudtest"
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

// TestSpread: a class that leaves the choice uses the zone where it has the fewest
// VMs, also when many come at once and after a new start.
func TestSpread(t *testing.T) {
	t.Parallel()
	s := start(t)
	a, c := s.open(t, free())
	count := map[string]int{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	requests := map[string]*cloud.CreateRequest{}
	for i := range 6 {
		r := ask(fmt.Sprintf("at-once-%d", i), c)
		requests[r.Name] = r
		wg.Go(func() {
			_, err := a.Create(t.Context(), *r)
			mu.Lock()
			defer mu.Unlock()
			must(t, err)
		})
	}
	wg.Wait()
	for _, r := range requests {
		vm, err := s.finish(t, a, r)
		must(t, err)
		count[vm.Zone]++
	}
	for i := range 3 {
		a, c := s.open(t, free())
		r := ask(fmt.Sprintf("restarted-%d", i), c)
		vm, err := s.finish(t, a, r)
		must(t, err)
		requests[r.Name] = r
		count[vm.Zone]++
	}
	if want := map[string]int{"a": 3, "b": 3, "c": 3}; !maps.Equal(count, want) {
		t.Errorf("got %v, want %v", count, want)
	}
	for _, r := range requests {
		s.gone(t, a, r.Ref)
	}
}

// TestFullZone: a class that leaves the choice is exhausted when all of its zones are.
func TestFullZone(t *testing.T) {
	t.Parallel()
	s := start(t)
	a, c := s.open(t, free())
	full := &types.NoDiskSpace{Datastore: "LocalDS_0"}
	s.FailTask("VirtualMachine.cloneVm", full)
	r := ask("one-is-full", c)
	if vm, err := s.finish(t, a, r); err != nil || vm.State != cloud.StateRunning || vm.Zone == "" {
		t.Errorf("with one zone full: got %v, %v, want a VM in another", vm, err)
	}
	s.gone(t, a, r.Ref)
	s.Refuse("CloneVM_Task", &types.InsufficientMemoryResourcesFault{})
	s.proxy.Forget()
	r = ask("all-are-full", c)
	_, err := s.finish(t, a, r)
	e, _ := errors.AsType[*cloud.Error](err)
	if e == nil || e.Code != cloud.Exhausted || e.Offering == nil || e.Offering.Zone == "" {
		t.Errorf("with all zones full: got %v, want Exhausted with the zone", err)
	}
	if n := len(s.clones()); n != 3 {
		t.Errorf("with all zones full: %d requests, want one for each of 3 zones", n)
	}
	s.Refuse("CloneVM_Task", nil)
	if vm, err := s.finish(t, a, r); err != nil || vm.State != cloud.StateRunning {
		t.Errorf("again: got %v, %v, want a running VM", vm, err)
	}
	s.gone(t, a, r.Ref)
}

// TestZoneIsKept: what is asked for under one token does not change with the VMs that
// come and go meanwhile.
func TestZoneIsKept(t *testing.T) {
	t.Parallel()
	s := start(t)
	_, c := s.open(t, free())
	r := ask("m", c)
	lost := s.proxy.Inject(cloudtest.Fault{
		Kind: cloudtest.DropRequest, Match: cloudtest.Op("CloneVM_Task"), Times: cloudtest.Forever,
	})
	for i := range 4 {
		a, _ := s.open(t, free())
		_, _ = a.Create(t.Context(), *r)
		s.seedIn(t, c, fmt.Sprintf("other-%d", i), []string{"a", "b", "c"}[i%3])
	}
	lost.Undo()
	if got := slices.Compact(s.clones()); len(got) != 1 {
		t.Errorf("the clone is asked for in %d ways, want 1: %s", len(got), strings.Join(got, "\n"))
	}
}

// seedIn puts a VM of the class into a zone, as far as its mark says.
func (s *vcsim) seedIn(t *testing.T, c cloud.Class, name, zone string) {
	t.Helper()
	id := s.seed(t, cloudtest.Seed{Kind: cloud.KindVM, Class: c, Name: name, OwnerID: name})
	text := fmt.Sprintf(`{"machine":%q,"owner":%q,"phase":"started","zone":%q,"class":%q,"tags":`+
		`{"kubernetes.io/cluster/c1":"1","kubernetes.io/role/node":"1"}}`, name, name, zone, c.Namespace+"/"+c.Name)
	task, err := s.handle(t, id).Reconfigure(t.Context(), types.VirtualMachineConfigSpec{
		ExtraConfig: []types.BaseOptionValue{&types.OptionValue{Key: markKey, Value: text}},
	})
	must(t, err)
	must(t, task.Wait(t.Context()))
}
