package vsphere_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/vcentertest"
)

// TestPermissions takes every privilege away in turn: the error names it, and the VM
// is made once it is there.
func TestPermissions(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.makeGroup(t)
	for call, privilege := range vcentertest.Privileges() {
		edits := spec{"tags": spec{"kubernetes.io/cluster/" + call: "1", "kubernetes.io/role/node": "1"}}
		deletes := false
		switch call {
		case "PlaceVm":
			edits["computeCluster"], edits["resourcePool"] = "DC0_C0", nil
		case "ReconfigureComputeResource_Task":
			edits["vmGroup"] = "workers"
		case "RecommendDatastores":
			continue // needs a datastore cluster
		case "PowerOffVM_Task", "Destroy_Task":
			deletes = true
		}
		a, c := s.open(t, class("denied", edits))
		r := ask("m-"+strings.ToLower(strings.ReplaceAll(call, "_", "-")), c)
		if deletes {
			_, err := s.finish(t, a, r)
			must(t, err)
		}
		s.Deny(privilege, true)
		var err error
		for range 5 {
			if deletes {
				_, err = a.Delete(t.Context(), r.Ref)
			} else {
				_, err = s.finish(t, a, r)
			}
			if err != nil {
				break
			}
			s.advance(t, 0)
		}
		if cloud.CodeOf(err) != cloud.Denied || !strings.Contains(err.Error(), privilege) {
			t.Errorf("%s without %s: got %v, want Denied and the privilege", call, privilege, err)
		}
		s.Deny(privilege, false)
		if !deletes {
			if _, err := s.finish(t, a, r); err != nil {
				t.Errorf("%s with %s: %v", call, privilege, err)
			}
		}
		s.gone(t, a, r.Ref)
	}
}

// TestFullDatastore: there is no room for the clone.
func TestFullDatastore(t *testing.T) {
	t.Parallel()
	s := start(t)
	ds, err := s.Finder.Datastore(t.Context(), vcentertest.Datastore)
	must(t, err)
	s.FillDatastore(ds.Reference())
	a, c := s.open(t, class("small", nil))
	_, err = s.finish(t, a, ask("m", c))
	e, _ := errors.AsType[*cloud.Error](err)
	if e == nil || e.Code != cloud.Exhausted || e.Reason != "NoDiskSpace" || !strings.Contains(err.Error(),
		vcentertest.Datastore) {
		t.Errorf("got %v, want Exhausted and the datastore", err)
	}
}

// TestLateTasks: the end of a clone is seen after the VM.
func TestLateTasks(t *testing.T) {
	t.Parallel()
	s := start(t)
	a, c := s.open(t, class("small", nil))
	for _, finish := range []bool{true, false} {
		r := ask("m", c)
		end := s.Delay("VirtualMachine.cloneVm")
		for range 3 {
			vm, err := a.Create(t.Context(), *r)
			if err != nil || vm.RetryAfter == 0 || vm.ProviderID != "" {
				t.Errorf("while the clone runs: got %+v, %v, want to wait", vm, err)
			}
			s.advance(t, vm.RetryAfter)
		}
		if d, err := a.Delete(t.Context(), r.Ref); err != nil || d.Done || d.RetryAfter == 0 {
			t.Errorf("delete while the clone runs: got %+v, %v, want to wait", d, err)
		}
		end()
		if finish {
			if vm, err := s.finish(t, a, r); err != nil || vm.State != cloud.StateRunning {
				t.Errorf("afterwards: got %v, %v, want a running VM", vm.State, err)
			}
		}
		s.gone(t, a, r.Ref)
	}
}

// TestNetworkElsewhere: the VM's host does not have the class's network.
func TestNetworkElsewhere(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.lonelyNetwork(t)
	a, c := s.open(t, class("network", spec{"network": "lonely-net"}))
	r := ask("m", c)
	_, err := s.finish(t, a, r)
	e, _ := errors.AsType[*cloud.Error](err)
	if e == nil || e.Code != cloud.Invalid || e.Reason != "InvalidDeviceBacking" {
		t.Errorf("got %v, want Invalid", err)
	}
	s.gone(t, a, r.Ref)
}

// lonelyNetwork makes lonely-net, a network that no host has.
func (s *vcsim) lonelyNetwork(t *testing.T) {
	t.Helper()
	dc, err := s.Finder.DefaultDatacenter(t.Context())
	must(t, err)
	folders, err := dc.Folders(t.Context())
	must(t, err)
	task, err := folders.NetworkFolder.CreateDVS(t.Context(), types.DVSCreateSpec{
		ConfigSpec: &types.VMwareDVSConfigSpec{DVSConfigSpec: types.DVSConfigSpec{Name: "lonely"}},
	})
	must(t, err)
	info, err := task.WaitForResult(t.Context())
	must(t, err)
	dvs := object.NewDistributedVirtualSwitch(s.Client.Client, info.Result.(types.ManagedObjectReference))
	task, err = dvs.AddPortgroup(t.Context(), []types.DVPortgroupConfigSpec{{Name: "lonely-net", NumPorts: 1}})
	must(t, err)
	must(t, task.Wait(t.Context()))
}
