package vsphere

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/vmware/govmomi/vim25/types"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// Where a VM looks for what it boots with.
const (
	ignitionProperty = "guestinfo.ignition.config.data"
	userDataProperty = "user-data"
	hostNameProperty = "hostname"
	// propertyMax is the length of the value of a vApp property.
	propertyMax = 65535
)

// boot is what a VM is given to boot with: entries of the extra configuration,
// and values of vApp properties.
type boot struct {
	extra map[string]string
	edits []types.VAppPropertySpec

	// withoutVApp takes the vApp configuration away: cloud-init prefers its properties to guest
	// information, also where none of them is user data.
	withoutVApp bool
}

// vApp is the change of the vApp properties; nil if there is none.
func (b boot) vApp() types.BaseVmConfigSpec {
	if len(b.edits) == 0 {
		return nil
	}
	return &types.VmConfigSpec{Property: b.edits}
}

// boot returns how a VM of that configuration gets its user data: as the class's
// own vApp properties, which stand alone as with MCM; as the Ignition document that it
// is, or in one for the guests for which MCM does so; in vApp properties where the
// template has them; else as guest information.
func (s *spec) boot(r cloud.CreateRequest, c *types.VirtualMachineConfigInfo) (boot, error) {
	properties := propertiesOf(c)
	if err := s.checkNetwork(r, c, properties); err != nil {
		return boot{}, err
	}
	switch {
	case s.vAppGiven():
		return setProperties(properties, "vapp.properties", s.VApp.Properties)
	case s.readsIgnition(r.UserData, c):
		if len(s.SSHKeys) > 0 {
			return boot{}, keysProblem("cannot be added to an Ignition document; write them into its passwd.users")
		}
		return ignitionBoot(r.UserData, properties)
	case s.isIgnition(c):
		return ignitionBoot(s.wrapInIgnition(r, s.guest(c)), properties)
	}
	data, err := s.withKeys(r.UserData)
	if err != nil {
		return boot{}, err
	}
	encoded := base64.StdEncoding.EncodeToString(data)
	if _, there := properties[userDataProperty]; there {
		values := map[string]string{userDataProperty: encoded}
		if _, there := properties[hostNameProperty]; there {
			values[hostNameProperty] = r.Name
		}
		return setProperties(properties, "templateVM", values)
	}
	values := map[string]any{"instance-id": instanceUUID(r), "local-hostname": r.Name}
	if len(r.Network) > 0 {
		values["network"] = s.networkConfig(r, c)
	}
	meta, _ := json.Marshal(values) // strings and numbers only, so it never fails
	return boot{withoutVApp: c.VAppConfig != nil, extra: map[string]string{
		"guestinfo.userdata": encoded, "guestinfo.userdata.encoding": "base64",
		"guestinfo.metadata": base64.StdEncoding.EncodeToString(meta), "guestinfo.metadata.encoding": "base64",
	}}, nil
}

// readsIgnition reports whether Ignition reads the user data itself. MCM's driver puts whatever its
// Ignition guests get into a document of version 2, for the installer of their time; one of version 3
// reaches Ignition only as it is.
func (s *spec) readsIgnition(userData []byte, c *types.VirtualMachineConfigInfo) bool {
	version := cloud.IgnitionVersion(userData)
	return version != "" && (!s.isIgnition(c) || !strings.HasPrefix(version, "2."))
}

// guest is the guest id of a VM of that configuration: the class's, or else the template's.
func (s *spec) guest(c *types.VirtualMachineConfigInfo) string { return cmp.Or(s.GuestID, c.GuestId) }

// isIgnition reports whether MCM's driver gives the guest of a VM of that configuration an Ignition document.
func (s *spec) isIgnition(c *types.VirtualMachineConfigInfo) bool {
	return s.guest(c) == string(types.VirtualMachineGuestOsIdentifierCoreos64Guest) ||
		s.guest(c) == string(types.VirtualMachineGuestOsIdentifierOther4xLinux64Guest)
}

// propertiesOf are the vApp properties of a VM, by id.
func propertiesOf(c *types.VirtualMachineConfigInfo) map[string]types.VAppPropertyInfo {
	out := map[string]types.VAppPropertyInfo{}
	if c.VAppConfig == nil {
		return out
	}
	for _, p := range c.VAppConfig.GetVmConfigInfo().Property {
		out[p.Id] = p
	}
	return out
}

// setProperties gives properties of the template values. The field is the one to
// blame for a property that is not there.
func setProperties(there map[string]types.VAppPropertyInfo, field string, values map[string]string) (boot, error) {
	var b boot
	var problems []cloud.Problem
	for _, id := range slices.Sorted(maps.Keys(values)) {
		p, ok := there[id]
		switch {
		case !ok:
			problems = append(problems, cloud.Problem{
				Severity: cloud.BlocksCreate,
				Field:    fmt.Sprintf("providerSpec.%s[%s]", field, id),
				Message:  "is no vApp property of the template; correct its spelling or add it to the template",
			})
		case len(values[id]) > propertyMax:
			problems = append(problems, cloud.Problem{
				Severity: cloud.BlocksCreate, Field: "secret.userData",
				Message: fmt.Sprintf("has %d bytes as vApp property %s and may have %d; make it shorter or compress it",
					len(values[id]), id, propertyMax),
			})
		}
		p.Value = values[id]
		b.edits = append(b.edits, types.VAppPropertySpec{
			ArrayUpdateSpec: types.ArrayUpdateSpec{Operation: types.ArrayUpdateOperationEdit}, Info: &p,
		})
	}
	return b, cloud.Worst(opCreate, problems, cloud.BlocksCreate)
}

// withKeys returns user data to which the class's SSH keys are added. Without
// keys it stays as it is, byte for byte.
func (s *spec) withKeys(data []byte) ([]byte, error) {
	if len(s.SSHKeys) == 0 {
		return data, nil
	}
	keys, _ := json.Marshal(s.SSHKeys) // JSON is YAML; strings only, so it never fails
	section := "\nssh_authorized_keys: " + string(keys) + "\n"
	switch {
	case bytes.Contains(data, []byte("ssh_authorized_keys:")):
		return nil, keysProblem("cannot be added because secret.userData has ssh_authorized_keys; write them in one place")
	case len(data) == 0:
		return []byte("#cloud-config" + section), nil
	case bytes.HasPrefix(data, []byte("#!")):
		return wrapScript(data, section), nil
	case bytes.HasPrefix(data, []byte("#include")):
		return nil, keysProblem("cannot be added to secret.userData, which cloud-init reads as addresses; leave them out " +
			"or convert it")
	case !utf8.Valid(data):
		return nil, keysProblem("cannot be added to secret.userData, which is no text; leave them out or convert it")
	}
	return append(bytes.Clone(data), section...), nil // as MCM does to any text
}

func keysProblem(message string) error { return wrong(opCreate, "sshKeys", message) }

// wrapScript returns a cloud-config that runs a script.
func wrapScript(script []byte, section string) []byte {
	const file = "/var/lib/cluster-api-provider-mcm/boot"
	return fmt.Appendf(nil, "#cloud-config%swrite_files:\n- path: %s\n  permissions: '0700'\n  encoding: b64\n  "+
		"content: %s\nruncmd:\n- %s\n",
		section, file, base64.StdEncoding.EncodeToString(script), file)
}

// wrapInIgnition returns an Ignition document that puts hostname, SSH keys and user data
// where the guest's installer finds them, and has the interface use DHCP, as MCM's does.
func (s *spec) wrapInIgnition(r cloud.CreateRequest, guest string) []byte {
	directory := "/var/lib/coreos-install"
	if guest == string(types.VirtualMachineGuestOsIdentifierOther4xLinux64Guest) {
		directory = "/var/lib/flatcar-install"
	}
	type object = map[string]any
	file := func(path string, data []byte) object {
		const readable = 0o644
		source := "data:;base64," + base64.StdEncoding.EncodeToString(data)
		return object{"filesystem": "root", "path": path, "mode": readable, "contents": object{"source": source}}
	}
	document := object{
		"ignition": object{"version": "2.1.0"},
		"networkd": object{"units": []object{{
			"name":     "00-ens192.network",
			"contents": "[Match]\nName=ens192\n\n[Network]\nDHCP=yes\nLinkLocalAddressing=no\nIPv6AcceptRA=no\n",
		}}},
		"storage": object{"files": []object{
			file("/etc/hostname", []byte(r.Name)),
			file(directory+"/user_data", r.UserData),
		}},
	}
	if len(s.SSHKeys) > 0 {
		document["passwd"] = object{"users": []object{{"name": "core", "sshAuthorizedKeys": s.SSHKeys}}}
	}
	text, _ := json.Marshal(document) // strings and numbers only, so it never fails
	return text
}

// ignitionBoot gives the VM a document where Ignition looks for it.
func ignitionBoot(text []byte, properties map[string]types.VAppPropertyInfo) (boot, error) {
	if _, there := properties[ignitionProperty]; there {
		values := map[string]string{ignitionProperty: string(text)}
		if encoding := ignitionProperty + ".encoding"; strings.EqualFold(properties[encoding].Id, encoding) {
			values[ignitionProperty], values[encoding] = base64.StdEncoding.EncodeToString(text), "base64"
		}
		return setProperties(properties, "templateVM", values)
	}
	return boot{extra: map[string]string{
		ignitionProperty: base64.StdEncoding.EncodeToString(text), ignitionProperty + ".encoding": "base64",
	}}, nil
}

// networkConfig is a network configuration of cloud-init, version 2, which its VMware
// data source reads from the metadata.
type networkConfig struct {
	Version   int                 `json:"version"`
	Ethernets map[string]ethernet `json:"ethernets"` // by name
}

// ethernet is the configuration of an interface.
type ethernet struct {
	Match       match        `json:"match"`
	SetName     string       `json:"set-name"`
	DHCP4       bool         `json:"dhcp4"`
	DHCP6       bool         `json:"dhcp6"`
	Addresses   []string     `json:"addresses,omitempty"`
	Routes      []route      `json:"routes,omitempty"`
	Nameservers *nameservers `json:"nameservers,omitempty"`
}

type match struct {
	MACAddress string `json:"macaddress"`
}

type route struct {
	To  string `json:"to"`
	Via string `json:"via"`
}

type nameservers struct {
	Addresses []string `json:"addresses,omitempty"`
	Search    []string `json:"search,omitempty"`
}

// checkNetwork refuses static addresses that the guest would not learn of: only guest
// information has them.
func (s *spec) checkNetwork(r cloud.CreateRequest, c *types.VirtualMachineConfigInfo,
	properties map[string]types.VAppPropertyInfo,
) error {
	if len(r.Network) == 0 {
		return nil
	}
	const needs = ", and static addresses (spec.network) need a guest that cloud-init configures from guestinfo; "
	_, byProperty := properties[userDataProperty]
	switch {
	case s.Customization != "":
		return wrong(opCreate, "customization", "configures the network, too"+needs+"remove one of the two")
	case s.vAppGiven():
		return wrong(opCreate, "vapp.properties", "replaces user data and metadata"+needs+"remove one of the two")
	case cloud.IgnitionVersion(r.UserData) != "":
		return cloud.Worst(opCreate, []cloud.Problem{{
			Severity: cloud.BlocksCreate, Field: "secret.userData",
			Message: "is an Ignition document" + needs + "write the addresses into it and remove spec.network",
		}}, cloud.BlocksCreate)
	case s.isIgnition(c):
		return wrong(opCreate, "guestId", "or that of the template is "+s.guest(c)+", which boots with Ignition"+needs+
			"choose another template")
	case byProperty:
		return wrong(opCreate, "templateVM", "has the vApp property "+userDataProperty+needs+
			"remove the vApp properties of the template")
	}
	return cloud.Worst(opCreate, r.NetworkProblems(len(s.nics())), cloud.BlocksCreate)
}

// networkConfig returns cloud-init's configuration of the interfaces of a VM of that
// configuration, in the order of the class. Those without static addresses use DHCP.
func (s *spec) networkConfig(r cloud.CreateRequest, c *types.VirtualMachineConfigInfo) networkConfig {
	out := networkConfig{Version: 2, Ethernets: map[string]ethernet{}}
	for i, card := range cards(c) {
		if i >= len(s.nics()) {
			break
		}
		name := fmt.Sprintf("eth%d", i)
		e := ethernet{Match: match{strings.ToLower(card.MacAddress)}, SetName: name, DHCP4: true}
		if i < len(r.Network) && len(r.Network[i].Addresses) > 0 {
			e.set(r.Network[i])
		}
		out.Ethernets[name] = e
	}
	return out
}

// set gives an interface static addresses.
func (e *ethernet) set(n cloud.Interface) {
	e.DHCP4 = false
	for _, a := range n.Addresses {
		e.Addresses = append(e.Addresses, a.Prefix.String())
		if to := "0.0.0.0/0"; a.Gateway.IsValid() {
			if a.Gateway.Is6() {
				to = "::/0"
			}
			e.Routes = append(e.Routes, route{to, a.Gateway.String()})
		}
	}
	if len(n.Nameservers)+len(n.SearchDomains) == 0 {
		return
	}
	e.Nameservers = &nameservers{Search: n.SearchDomains}
	for _, server := range n.Nameservers {
		e.Nameservers.Addresses = append(e.Nameservers.Addresses, server.String())
	}
}
