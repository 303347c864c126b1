package vsphere

import (
	"encoding/base64"
	"slices"
	"strings"
	"testing"

	"github.com/vmware/govmomi/vim25/types"
)

// decoded is a document that is sent as base64.
func decoded(t *testing.T, text string) []byte {
	t.Helper()
	data, err := base64.StdEncoding.DecodeString(text)
	must(t, err)
	return data
}

// TestGuestOfTheTemplate: MCM's driver boots a VM as the guest of its template does, where the class names no
// other guest.
func TestGuestOfTheTemplate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, reason    string
		class, template string
		ignition        bool
	}{
		{"of the template", "the class says nothing", "", "coreos64Guest", true},
		{"Flatcar's", "the class says nothing", "", "other4xLinux64Guest", true},
		{"of the class", "it goes before the template's", "ubuntu64Guest", "coreos64Guest", false},
		{"of the class, with Ignition", "it goes before the template's", "coreos64Guest", "ubuntu64Guest", true},
		{"neither", "cloud-init is the rule", "", "ubuntu64Guest", false},
	} {
		template := config()
		template.GuestId = c.template
		s := &spec{GuestID: c.class}
		b, err := s.boot(request("#cloud-config\n"), template)
		must(t, err)
		if _, got := values(b)["extra "+ignitionProperty]; got != c.ignition {
			t.Errorf("%s: got %v, want Ignition: %v, because %s", c.name, values(b), c.ignition, c.reason)
		}
		document := values(b)["extra "+ignitionProperty]
		if c.template == "other4xLinux64Guest" && !strings.Contains(string(decoded(t, document)), "flatcar-install") {
			t.Errorf("%s: the document %s is not for Flatcar", c.name, document)
		}
	}
}

// TestVAppOfTheTemplate: cloud-init prefers the vApp properties of a template to guest information, also where
// none of them is user data. A VM that boots from guest information has none.
func TestVAppOfTheTemplate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, reason string
		spec         spec
		properties   []string
		removed      bool
	}{
		{"others", "cloud-init would read them and nothing else", spec{}, []string{"hostname", "password"}, true},
		{"user data", "it is where the user data is", spec{}, []string{"user-data"}, false},
		{"none", "there is nothing to remove", spec{}, nil, false},
		{
			"the class's", "they are what the class wants",
			spec{VApp: &vApp{map[string]string{"a": "b"}}},
			[]string{"a"},
			false,
		},
		{"left to the template", "MCM changes nothing then", spec{VApp: &vApp{}}, []string{"a"}, false},
	} {
		change, err := c.spec.change(request("#cloud-config\n"), config(c.properties...), nil, nil)
		must(t, err)
		if got := change.VAppConfigRemoved != nil && *change.VAppConfigRemoved; got != c.removed {
			t.Errorf("%s: removed %v, want %v, because %s", c.name, got, c.removed, c.reason)
		}
	}
}

// TestSparseChange: what a class leaves out is the template's, and is not sent; what it gives is, also where it
// says no.
func TestSparseChange(t *testing.T) {
	t.Parallel()
	no := false
	for _, c := range []struct {
		name, reason string
		spec         spec
		want         []string // of the fields that a class may set
	}{
		{"nothing", "all is the template's", spec{}, nil},
		{"zeros", "0 is the template's, as with MCM", spec{SystemDisk: &systemDisk{}}, nil},
		{"no", "it is what the class says", spec{MemoryReservationLockedToMax: &no}, []string{"locked"}},
		{"one", "it alone is sent", spec{NumCPUs: 2}, []string{"cpus"}},
		{"all", "all are sent", spec{
			NumCPUs: 2, MemoryMB: 4, GuestID: "ubuntu64Guest", MemoryReservationLockedToMax: &no, SystemDisk: &systemDisk{20},
		}, []string{"cpus", "disk", "guest", "locked", "memory"}},
	} {
		change, err := c.spec.change(request(""), config(), nil, nil)
		must(t, err)
		var got []string
		for field, sent := range map[string]bool{
			"cpus": change.NumCPUs != 0, "memory": change.MemoryMB != 0, "guest": change.GuestId != "",
			"locked": change.MemoryReservationLockedToMax != nil, "disk": len(change.DeviceChange) > 0,
			"vApp": change.VAppConfig != nil || change.VAppConfigRemoved != nil,
		} {
			if sent {
				got = append(got, field)
			}
		}
		if slices.Sort(got); !slices.Equal(got, c.want) {
			t.Errorf("%s: sent %v, want %v, because %s", c.name, got, c.want, c.reason)
		}
	}
}

// TestKeysAreTrimmed: MCM's driver takes white space around a key away.
func TestKeysAreTrimmed(t *testing.T) {
	t.Parallel()
	s := decode([]byte(`{"sshKeys": ["  ssh-ed25519 AAAA\n"]}`))
	if !slices.Equal(s.SSHKeys, []string{"ssh-ed25519 AAAA"}) {
		t.Errorf("got %q", s.SSHKeys)
	}
}

// TestNetworkOfIgnition: MCM's document has the guest's interface use DHCP.
func TestNetworkOfIgnition(t *testing.T) {
	t.Parallel()
	b, err := (&spec{GuestID: string(types.VirtualMachineGuestOsIdentifierCoreos64Guest)}).boot(request("x"), config())
	must(t, err)
	text := string(decoded(t, values(b)["extra "+ignitionProperty]))
	for _, want := range []string{`"00-ens192.network"`, "DHCP=yes", "IPv6AcceptRA=no"} {
		if !strings.Contains(text, want) {
			t.Errorf("the document %s lacks %s", text, want)
		}
	}
}
