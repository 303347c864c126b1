package vsphere_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/vmware/govmomi/vim25/types"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/vcentertest"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/wrap"
)

// TestPlacedWithItsNetworks: DRS recommends a host that has the networks of a VM only if it knows them when it
// is asked, so they are part of the clone.
func TestPlacedWithItsNetworks(t *testing.T) {
	t.Parallel()
	s := start(t)
	a, c := s.open(t, class("networks", spec{
		"computeCluster": "DC0_C0", "resourcePool": nil, "network": "DC0_DVPG0",
		"additionalNetworks": []any{spec{"network": "VM Network"}},
	}))
	s.proxy.Forget()
	vm, err := s.finish(t, a, ask("m", c))
	must(t, err)
	for _, op := range []string{"PlaceVm", "CloneVM_Task"} {
		found := false
		for _, call := range s.proxy.Calls() {
			body := string(call.Body)
			found = found || call.Op == op && strings.Count(body, "<deviceChange") == 2 &&
				strings.Contains(body, "portgroupKey") && strings.Contains(body, "<deviceName>VM Network</deviceName>")
		}
		if !found {
			t.Errorf("no %s has both networks", op)
		}
	}
	if macs := s.macs(t, vm.ID); len(macs) != 2 {
		t.Errorf("the VM has interfaces %v, want two", macs)
	}
}

// TestNameThatIsTaken: vCenter refuses a name that something else than a VM has, or of which files are left. The
// error says so, and the VM is made when the name is free.
func TestNameThatIsTaken(t *testing.T) {
	t.Parallel()
	for _, fault := range []types.BaseMethodFault{&types.DuplicateName{Name: "m"}, &types.FileAlreadyExists{}} {
		s := start(t)
		a, c := s.open(t, class("taken", nil))
		r := ask("m", c)
		s.FailTask("VirtualMachine.cloneVm", fault)
		_, err := s.finish(t, a, r)
		e, _ := errors.AsType[*cloud.Error](err)
		if e == nil || e.Code != cloud.Unavailable || e.Reason != "NameTaken" || !strings.Contains(err.Error(), `"m"`) {
			t.Errorf("%T: got %v, want Unavailable and the name", fault, err)
		}
		if _, err := s.finish(t, a, r); err != nil {
			t.Errorf("%T: when the name is free: %v", fault, err)
		}
		s.gone(t, a, r.Ref)
	}
}

// TestShortageOfOneClass: a datastore without room says nothing about classes with another one, although they
// clone the same template.
func TestShortageOfOneClass(t *testing.T) {
	t.Parallel()
	s := start(t)
	ds, err := s.Finder.Datastore(t.Context(), vcentertest.Datastore)
	must(t, err)
	s.FillDatastore(ds.Reference())
	a, c := s.open(t, class("small", nil))
	a = wrap.Offerings(0, wrap.Clock{})(cloud.AccountInfo{}, a)
	_, err = s.finish(t, a, ask("m", c))
	if e, _ := errors.AsType[*cloud.Error](err); e == nil || e.Code != cloud.Exhausted || e.Remembered {
		t.Fatalf("got %v, want Exhausted", err)
	}
	_, err = s.finish(t, a, ask("n", c))
	if e, _ := errors.AsType[*cloud.Error](err); e == nil || !e.Remembered {
		t.Errorf("another machine of the class: got %v, want the shortage to be remembered", err)
	}
	other, _ := s.driver().Parse(class("other", nil))
	_, err = s.finish(t, a, ask("o", other))
	if e, _ := errors.AsType[*cloud.Error](err); e == nil || e.Remembered {
		t.Errorf("another class: got %v, want vCenter to be asked", err)
	}
}
