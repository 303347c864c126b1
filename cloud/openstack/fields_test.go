package openstack_test

import (
	"slices"
	"testing"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/openstack"
	rig "github.com/capmcm/cluster-api-provider-mcm/test/openstack"
)

// TestFieldsBesideMCMs: what the fields that MCM does not have mean for real services, on
// a server whose ports Nova makes.
func TestFieldsBesideMCMs(t *testing.T) {
	t.Parallel()
	const group, rules = "kubernetes-v1", 4 // two of Neutron's for what leaves, two for what comes
	p := rig.ForTest(t).NewProject(t).More(t).Route(t)
	a, c, err := open(t, credentials(p), spec{
		"networkID": nil, "networks": []any{spec{"name": rig.NetworkName}, spec{"id": p.Network2}},
		"floatingIPPool": p.Rig.External, "defaultSecurityGroup": group, "serverGroup": rig.SpreadName,
		"keyName": nil, "withoutKeyPair": true, "availabilityZone": nil, "withoutAvailabilityZone": true,
		"podNetworkCIDRs": nil, "withoutPodNetworkCIDRs": true,
	})
	if err != nil {
		t.Fatal(err)
	}
	r := request(c)
	r.Tags = map[string]string{cloud.ClusterIDTag: "a-cluster"}
	vm, err := finished(t, a, r)
	if err != nil {
		t.Fatal(err)
	}
	id, n := p.SecurityGroup(t, group)
	if n != rules {
		t.Errorf("security group %s has %d rules, want %d", group, n, rules)
	}
	for _, port := range p.PortsOf(t, vm.ID) {
		if !slices.Equal(port.Groups, []string{id}) || !port.Secure {
			t.Errorf("got port %+v, want it in group %s", port, id)
		}
	}
	address := onlyAddress(t, a, c)
	if address.MachineName != r.Name || address.OwnerID != r.OwnerID || !address.Attached ||
		address.Tags[cloud.ClusterIDTag] != "a-cluster" {
		t.Errorf("got %+v, want an address of machine %q", address, r.Name)
	}
	if i := slices.IndexFunc(vm.Addresses, func(at cloud.Address) bool { return at.Kind == "ExternalIP" }); i < 0 {
		t.Errorf("got the addresses %+v, want a floating IP among them", vm.Addresses)
	}
	gone(t, a, r.Ref)
	if left := (backend{p}).ledger(t); len(left) > 0 {
		t.Errorf("left behind: %+v", left)
	}
}

// TestPortSecurityIsOff: on the port that the driver makes, and on the one that Nova makes.
func TestPortSecurityIsOff(t *testing.T) {
	t.Parallel()
	p := rig.ForTest(t).NewProject(t).More(t)
	a, c, err := open(t, credentials(p), spec{
		"networkID": nil, "networks": []any{spec{"name": rig.NetworkName, "podNetwork": true}, spec{"id": p.Network2}},
		"subnets": []string{rig.SubnetName}, "disablePortSecurity": true, "podNetworkCIDRs": nil,
	})
	if err != nil {
		t.Fatal(err)
	}
	r := request(c)
	vm, err := finished(t, a, r)
	if err != nil {
		t.Fatal(err)
	}
	ports := p.PortsOf(t, vm.ID)
	if len(ports) != 2 {
		t.Errorf("got the ports %+v, want two", ports)
	}
	for _, port := range ports {
		if port.Secure || len(port.Groups)+len(port.Pairs) > 0 {
			t.Errorf("got port %+v, want one without port security", port)
		}
	}
	gone(t, a, r.Ref)
	if left := (backend{p}).ledger(t); len(left) > 0 {
		t.Errorf("left behind: %+v", left)
	}
}

// TestFloatingIPIsUsedAgain: one that an earlier attempt left behind, and one that somebody
// else gave the server.
func TestFloatingIPIsUsedAgain(t *testing.T) {
	t.Parallel()
	p := rig.ForTest(t).NewProject(t).Route(t)
	a, c, err := open(t, credentials(p), edit(novaPort.of(p), spec{"floatingIPPool": rig.PoolName}))
	if err != nil {
		t.Fatal(err)
	}
	r := request(c)
	left := p.AddFloatingIP(t, openstack.AddressMark([]string{clusterKey, roleKey}, r.OwnerID, r.Name), nil)
	other := r.Ref
	other.Name, other.OwnerID = "other", "other"
	foreign := p.AddFloatingIP(t, openstack.AddressMark([]string{clusterKey, roleKey}, "other", "other"), nil)
	if _, err := finished(t, a, r); err != nil {
		t.Fatal(err)
	}
	var attached []string
	for address, err := range a.List(t.Context(), c, cloud.KindAddress) {
		if err != nil {
			t.Fatal(err)
		}
		if address.Attached {
			attached = append(attached, address.ID)
		}
	}
	if !slices.Equal(attached, []string{left}) {
		t.Errorf("got the addresses %v on a port, want %s", attached, left)
	}
	gone(t, a, r.Ref)
	if all := p.FloatingIPs(t); len(all) != 1 || all[0].ID != foreign {
		t.Errorf("got %+v, want the address of another machine", all)
	}
	gone(t, a, other)
}

// onlyAddress returns the one floating IP that is listed.
func onlyAddress(t *testing.T, a cloud.Account, c cloud.Class) cloud.Resource {
	t.Helper()
	var found []cloud.Resource
	for r, err := range a.List(t.Context(), c, cloud.KindAddress) {
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, r)
	}
	if len(found) != 1 {
		t.Fatalf("got the addresses %+v, want one", found)
	}
	return found[0]
}

// TestToken: a Secret with a token of Keystone's in place of a password.
func TestToken(t *testing.T) {
	t.Parallel()
	p := rig.ForTest(t).NewProject(t)
	creds := credentials(p)
	delete(creds, "username")
	delete(creds, "password")
	creds["tokenID"] = []byte(p.Token(t))
	a, c, err := open(t, creds, novaPort.of(p))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Capacity(t.Context(), c); err != nil {
		t.Error(err)
	}
	creds["tokenID"] = []byte("ended")
	if _, _, err := open(t, creds, novaPort.of(p)); cloud.CodeOf(err) != cloud.Denied {
		t.Errorf("a token that has ended: got %v, want Denied", err)
	}
}
