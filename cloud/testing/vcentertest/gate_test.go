package vcentertest_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/vmware/govmomi"
	"github.com/vmware/govmomi/fault"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/vcentertest"
)

// user logs in as the driver does.
func user(t *testing.T, v *vcentertest.VCenter) *govmomi.Client {
	t.Helper()
	at := v.Client.URL()
	at.User = url.UserPassword(vcentertest.User, vcentertest.Password)
	c, err := govmomi.NewClient(t.Context(), at, true)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestRefusals asks for what a vCenter refuses.
func TestRefusals(t *testing.T) {
	t.Parallel()
	v, err := vcentertest.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.Close)
	found, err := v.Finder.VirtualMachine(t.Context(), vcentertest.Template)
	if err != nil {
		t.Fatal(err)
	}
	host, err := v.Finder.HostSystem(t.Context(), "DC0_H0/DC0_H0")
	if err != nil {
		t.Fatal(err)
	}
	template := object.NewVirtualMachine(user(t, v).Client, found.Reference())
	pool, elsewhere := v.Pool.Reference(), host.Reference()
	in := types.VirtualMachineRelocateSpec{Pool: &pool}
	for _, c := range []struct {
		name string
		spec types.VirtualMachineCloneSpec
		want types.BaseMethodFault
	}{
		{"", types.VirtualMachineCloneSpec{Location: in}, &types.InvalidName{}},
		{"a/b", types.VirtualMachineCloneSpec{Location: in}, &types.InvalidName{}},
		{"a%b", types.VirtualMachineCloneSpec{Location: in}, &types.InvalidName{}},
		{strings.Repeat("x", 81), types.VirtualMachineCloneSpec{Location: in}, &types.InvalidName{}},
		{strings.Repeat("%2f", 80), types.VirtualMachineCloneSpec{Location: in}, nil},
		{"host", types.VirtualMachineCloneSpec{Location: types.VirtualMachineRelocateSpec{
			Pool: &pool, Host: &elsewhere,
		}}, &types.InvalidArgument{}},
		{"entry", types.VirtualMachineCloneSpec{Location: in, Config: &types.VirtualMachineConfigSpec{
			ExtraConfig: []types.BaseOptionValue{&types.OptionValue{Key: "", Value: "x"}},
		}}, &types.InvalidArgument{}},
		{"number", types.VirtualMachineCloneSpec{Location: in, Config: &types.VirtualMachineConfigSpec{
			ExtraConfig: []types.BaseOptionValue{&types.OptionValue{Key: "x", Value: int32(1)}},
		}}, &types.InvalidArgument{}},
	} {
		_, err := template.Clone(t.Context(), v.Folder, c.name, c.spec)
		if c.want == nil && err != nil || c.want != nil && !fault.Is(err, c.want) {
			t.Errorf("clone %q: got %v, want %T", c.name, err, c.want)
		}
	}
	if _, err := object.NewCustomFieldsManager(template.Client()).Add(t.Context(), "", "VirtualMachine", nil,
		nil); !fault.Is(err, &types.InvalidName{}) {
		t.Errorf("an attribute without a name: got %v, want InvalidName", err)
	}
}
