package vsphere_test

import (
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/vmware/govmomi/vim25/types"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/cloudtest"
)

// inCluster is a class in the cluster of the simulator.
func inCluster(edits spec) cloud.ClassInput {
	all := spec{"computeCluster": "DC0_C0", "resourcePool": nil}
	maps.Copy(all, edits)
	return class("in a cluster", all)
}

// setDRS turns the DRS of the cluster on or off.
func (s *vcsim) setDRS(t *testing.T, on bool) {
	t.Helper()
	cluster, err := s.Finder.ClusterComputeResource(t.Context(), "DC0_C0")
	must(t, err)
	task, err := cluster.Reconfigure(t.Context(), &types.ClusterConfigSpecEx{
		DrsConfig: &types.ClusterDrsConfigInfo{Enabled: &on},
	}, true)
	must(t, err)
	must(t, task.Wait(t.Context()))
}

// maintain puts hosts of the cluster into maintenance mode.
func (s *vcsim) maintain(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		host, err := s.Finder.HostSystem(t.Context(), "DC0_C0/"+name)
		must(t, err)
		task, err := host.EnterMaintenanceMode(t.Context(), 10, false, nil)
		must(t, err)
		must(t, task.Wait(t.Context()))
	}
}

// TestClusterWithoutDRS: a cluster that recommends no host gets its VMs onto a host
// that can run them.
func TestClusterWithoutDRS(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.setDRS(t, false)
	s.maintain(t, "DC0_C0_H0", "DC0_C0_H1")
	for name, edits := range map[string]spec{"any-host": nil, "host": {"hostSystem": "DC0_C0/DC0_C0_H2"}} {
		a, c := s.open(t, inCluster(edits))
		r := ask(name, c)
		vm, err := s.finish(t, a, r)
		if err != nil || vm.State != cloud.StateRunning {
			t.Fatalf("%s: got %v, %v, want a running VM", name, vm.State, err)
		}
		host, err := s.handle(t, vm.ID).HostSystem(t.Context())
		must(t, err)
		if got, err := host.ObjectName(t.Context()); err != nil || got != "DC0_C0_H2" {
			t.Errorf("%s: the VM runs on %s, %v, want the host that is not in maintenance mode", name, got, err)
		}
		s.gone(t, a, r.Ref)
	}
	a, c := s.open(t, inCluster(nil))
	s.maintain(t, "DC0_C0_H2")
	_, err := s.finish(t, a, ask("m", c))
	if e, _ := errors.AsType[*cloud.Error](err); e == nil || e.Code != cloud.Exhausted || e.Reason != "NoHost" {
		t.Errorf("with all hosts in maintenance mode: got %v, want Exhausted", err)
	}
}

// TestUnlicensedDRS: the configuration of a cluster does not show that its DRS lacks a
// license.
func TestUnlicensedDRS(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.Refuse("PlaceVm", &types.LicenseRestricted{})
	a, c := s.open(t, inCluster(nil))
	r := ask("m", c)
	if vm, err := s.finish(t, a, r); err != nil || vm.State != cloud.StateRunning {
		t.Errorf("got %v, %v, want a running VM", vm.State, err)
	}
	s.gone(t, a, r.Ref)
}

// TestOtherRefusals: a cluster whose DRS is on may refuse for a while.
func TestOtherRefusals(t *testing.T) {
	t.Parallel()
	s := start(t)
	busy := &types.InvalidState{}
	busy.FaultMessage = []types.LocalizableMessage{{Key: "k", Message: "The cluster is being configured."}}
	s.Refuse("PlaceVm", busy)
	a, c := s.open(t, inCluster(nil))
	_, err := s.finish(t, a, ask("m", c))
	if cloud.CodeOf(err) != cloud.Unavailable || !strings.Contains(err.Error(), "The cluster is being configured") {
		t.Errorf("got %v, want Unavailable with the message of vCenter", err)
	}
}

// TestNoHostHasTheNetwork: where no host can run the VM, the class is wrong.
func TestNoHostHasTheNetwork(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.setDRS(t, false)
	s.lonelyNetwork(t)
	a, c := s.open(t, inCluster(spec{"network": "lonely-net"}))
	_, err := s.finish(t, a, ask("m", c))
	e, _ := errors.AsType[*cloud.Error](err)
	if e == nil || e.Code != cloud.Invalid || len(e.Problems) != 1 ||
		e.Problems[0].Field != "providerSpec.computeCluster" {
		t.Errorf("got %v, want Invalid and the field", err)
	}
}

var cloneBody = regexp.MustCompile(`(?s)<CloneVM_Task.*</CloneVM_Task>`)

// clones are the bodies of the requests for clones.
func (s *vcsim) clones() []string {
	var all []string
	for _, call := range s.proxy.Calls() {
		if call.Op == "CloneVM_Task" {
			all = append(all, string(cloneBody.Find(call.Body)))
		}
	}
	return all
}

// TestPlaceIsKept: a clone is asked for again at the place that was chosen first,
// unless vCenter has refused it.
func TestPlaceIsKept(t *testing.T) {
	t.Parallel()
	s := start(t)
	a, c := s.open(t, inCluster(nil)) // the simulator recommends at random
	for _, name := range []string{"a", "b", "c"} {
		s.proxy.Forget()
		r := ask(name, c)
		lost := s.proxy.Inject(cloudtest.Fault{
			Kind: cloudtest.DropRequest, Match: cloudtest.Op("CloneVM_Task"), Times: 5,
		})
		for range 5 {
			_, _ = a.Create(t.Context(), *r)
		}
		lost.Undo()
		if _, err := s.finish(t, a, r); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := slices.Compact(s.clones()); len(got) != 1 {
			t.Errorf("%s: the clone is asked for in %d ways, want 1: %s", name, len(got), strings.Join(got, "\n"))
		}
		s.gone(t, a, r.Ref)
	}
	r := ask("refused", c)
	s.Refuse("CloneVM_Task", &types.InvalidHostState{})
	if _, err := a.Create(t.Context(), *r); err == nil || strings.Contains(r.State, "host") {
		t.Errorf("after a refusal: %v, checkpoint %s, want the host forgotten", err, r.State)
	}
	s.Refuse("CloneVM_Task", nil)
	if _, err := s.finish(t, a, r); err != nil {
		t.Errorf("after a refusal: %v", err)
	}
	s.gone(t, a, r.Ref)
}
