package vsphere_test

import (
	"encoding/base64"
	"encoding/json"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/cloudtest"
)

// dualStack is an interface with an address of each family.
func dualStack() cloud.Interface {
	return cloud.Interface{
		Addresses: []cloud.StaticAddress{
			{Prefix: netip.MustParsePrefix("10.9.0.5/24"), Gateway: netip.MustParseAddr("10.9.0.1")},
			{Prefix: netip.MustParsePrefix("fd00::5/64"), Gateway: netip.MustParseAddr("fd00::1")},
		},
		Nameservers: []netip.Addr{netip.MustParseAddr("10.9.0.53")}, SearchDomains: []string{"example.org"},
	}
}

// metadata is the guestinfo.metadata of a VM.
func (s *vcsim) metadata(t testing.TB, id string) []byte {
	t.Helper()
	for _, vm := range s.all(t) {
		if vm.Config.Uuid == id {
			data, err := base64.StdEncoding.DecodeString(extra(vm, "guestinfo.metadata"))
			must(t, err)
			return data
		}
	}
	t.Fatalf("there is no VM %s", id)
	return nil
}

// macs are the MAC addresses of a VM, in order.
func (s *vcsim) macs(t *testing.T, id string) []string {
	t.Helper()
	devices, err := s.handle(t, id).Device(t.Context())
	must(t, err)
	var all []string
	for _, d := range devices.SelectByType((*types.VirtualEthernetCard)(nil)) {
		all = append(all, strings.ToLower(d.(types.BaseVirtualEthernetCard).GetVirtualEthernetCard().MacAddress))
	}
	return all
}

// TestStaticAddresses: the metadata has a network configuration of cloud-init, version 2,
// by the MAC addresses that the VM has, also for interfaces that the template lacks, and
// whichever answer is lost.
func TestStaticAddresses(t *testing.T) {
	t.Parallel()
	s := start(t)
	a, c := s.open(t, class("static", spec{"additionalNetworks": []any{
		spec{"network": "DC0_DVPG0"}, spec{"network": "VM Network"},
	}}))
	type object = map[string]any
	for nth := range 7 {
		r := ask("m", c)
		r.Network = []cloud.Interface{dualStack(), {}}
		fault := s.proxy.Inject(cloudtest.Fault{Kind: cloudtest.DropResponse, Match: cloudtest.Mutating, Nth: nth})
		vm, err := s.finish(t, a, r)
		for range 5 {
			if err != nil {
				s.advance(t, 0)
				vm, err = s.finish(t, a, r)
			}
		}
		must(t, err)
		fault.Undo()
		macs := s.macs(t, vm.ID)
		if len(macs) != 3 || slices.Contains(macs, "") || len(slices.Compact(slices.Sorted(slices.Values(macs)))) != 3 {
			t.Fatalf("MAC addresses are %q, want three", macs)
		}
		var got object
		must(t, json.Unmarshal(s.metadata(t, vm.ID), &got))
		dhcp := func(i int, name string) object {
			return object{"match": object{"macaddress": macs[i]}, "set-name": name, "dhcp4": true, "dhcp6": false}
		}
		want := object{"version": 2.0, "ethernets": object{
			"eth0": object{
				"match": object{"macaddress": macs[0]}, "set-name": "eth0", "dhcp4": false, "dhcp6": false,
				"addresses": []any{"10.9.0.5/24", "fd00::5/64"},
				"routes": []any{
					object{"to": "0.0.0.0/0", "via": "10.9.0.1"}, object{"to": "::/0", "via": "fd00::1"},
				},
				"nameservers": object{"addresses": []any{"10.9.0.53"}, "search": []any{"example.org"}},
			},
			"eth1": dhcp(1, "eth1"), "eth2": dhcp(2, "eth2"),
		}}
		if diff := cmp.Diff(want, got["network"]); diff != "" || got["local-hostname"] != "m" {
			t.Errorf("answer %d lost: network of %v (-want +got):\n%s", nth, got, diff)
		}
		s.gone(t, a, r.Ref)
	}
}

// TestStaticAddressesRefused: what the guest would not learn is refused before a VM is cloned.
func TestStaticAddressesRefused(t *testing.T) {
	t.Parallel()
	s := start(t)
	for field, edits := range map[string]spec{
		"customization":   {"customization": "linux"},
		"vapp.properties": {"vapp": spec{"properties": spec{"a": "b"}}},
		"guestId":         {"guestId": "other4xLinux64Guest"},
		"network.devices": nil,
	} {
		a, c := s.open(t, class("static", edits))
		s.proxy.Forget()
		r := ask("m", c)
		r.Network = []cloud.Interface{dualStack()}
		if edits == nil {
			r.Network = append(r.Network, dualStack())
		}
		_, err := s.finish(t, a, r)
		if cloud.CodeOf(err) != cloud.Invalid || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: got %v, want Invalid", field, err)
		}
		for _, call := range s.proxy.Calls() {
			if call.Mutates {
				t.Errorf("%s: %s is asked for", field, call.Op)
			}
		}
	}
}

// network is the configuration of interfaces that the guest gets, as the kit compares it.
func (s *vcsim) network(t testing.TB, id string) []cloud.Interface {
	t.Helper()
	var meta struct {
		Network struct {
			Ethernets map[string]struct {
				Addresses   []netip.Prefix
				Routes      []struct{ To, Via netip.Addr }
				Nameservers struct {
					Addresses []netip.Addr
					Search    []string
				}
			}
		}
	}
	text := strings.NewReplacer(`"0.0.0.0/0"`, `"0.0.0.0"`, `"::/0"`, `"::"`).Replace(string(s.metadata(t, id)))
	must(t, json.Unmarshal([]byte(text), &meta))
	e := meta.Network.Ethernets["eth0"]
	n := cloud.Interface{Nameservers: e.Nameservers.Addresses, SearchDomains: e.Nameservers.Search}
	for _, prefix := range e.Addresses {
		address := cloud.StaticAddress{Prefix: prefix}
		for _, route := range e.Routes {
			if route.To.Is4() == prefix.Addr().Is4() {
				address.Gateway = route.Via
			}
		}
		n.Addresses = append(n.Addresses, address)
	}
	return []cloud.Interface{n}
}
