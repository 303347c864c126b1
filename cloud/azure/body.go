package azure

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

const (
	deleteWith  = "Delete" // what is made with a VM goes with it
	nicVersion  = "2022-11-01"
	fromImage   = "FromImage"
	attachDisk  = "Attach"
	emptyDisk   = "Empty"
	nicSuffix   = "-nic"
	osSuffix    = "-os-disk"
	dataSuffix  = "-data-disk"
	noDiskCache = "None"

	urnParts = 4
)

// tagsFor are the tags of all that is made for r, and what about them does not fit.
func (s *spec) tagsFor(r cloud.CreateRequest, more map[string]string) (map[string]string, []cloud.Problem) {
	own := map[string]string{machineTag: r.Name, ownerTag: r.OwnerID, attemptTag: r.Token}
	maps.Copy(own, more)
	request, wrong := codec.Encode(r.Tags)
	encoded, wrongToo := codec.Encode(own)
	all := driverkit.MergeTags(request, s.Tags, encoded)
	return all, slices.Concat(wrong, wrongToo, driverkit.TooManyTags("tags", all, tagLimits))
}

// machine is the VM to ask for, with its disks and its network interface.
func (a *account) machine(s *spec, r cloud.CreateRequest, p *plan) virtualMachine {
	tags, _ := s.tagsFor(r, nil) // what does not fit has been refused
	v := virtualMachine{resource: resource{Location: s.Location, Tags: tags}, Plan: p}
	if zone := s.zoneFor(r); zone != "" {
		v.Zones = []string{zone}
	}
	if id := s.Properties.IdentityID; id != "" {
		v.Identity = &identity{Type: "UserAssigned", IDs: map[string]struct{}{id: {}}}
	}
	v.Properties = vmProperties{
		Hardware:        &hardwareProfile{Size: s.Properties.Hardware.Size},
		Storage:         a.storage(s, r),
		OS:              s.osProfile(r),
		Network:         a.network(s, r),
		AvailabilitySet: s.Properties.AvailabilitySet, ScaleSet: s.Properties.ScaleSet,
		Security: s.securityProfile(), Diagnostics: s.diagnosticsProfile(),
		Priority: s.Properties.Priority, EvictionPolicy: s.Properties.EvictionPolicy, Billing: s.Properties.Billing,
	}
	if s.spot() {
		// One that is only deallocated is a machine that is neither there nor gone.
		v.Properties.EvictionPolicy = cmp.Or(v.Properties.EvictionPolicy, deleteWith)
	}
	if c := s.Properties.CapacityReservation; c != nil && c.GroupID != "" {
		v.Properties.CapacityReservation = &capacityProfile{Group: reference{ID: c.GroupID}}
	}
	return v
}

func (s *spec) osProfile(r cloud.CreateRequest) *osProfile {
	key := s.Properties.OS.Linux.SSH.Key
	key.Path = cmp.Or(key.Path, "/home/"+s.Properties.OS.User+"/.ssh/authorized_keys")
	if key.Data = strings.TrimSpace(key.Data); key.Data == "" {
		key.Data = spareKey()
	}
	return &osProfile{
		ComputerName: r.Name, User: s.Properties.OS.User, CustomData: base64.StdEncoding.EncodeToString(r.UserData),
		Linux: linuxConfiguration{
			// Without a password, Azure takes nothing else.
			NoPasswords: true, SSH: sshConfiguration{Keys: []sshKey{key}},
		},
	}
}

// storage are the image and the disks. The names are those of MCM's driver.
func (a *account) storage(s *spec, r cloud.CreateRequest) *storageProfile {
	st := s.Properties.Storage
	out := &storageProfile{
		Image: st.Image.reference(), Controller: st.Controller,
		OSDisk: vmDisk{
			Name: r.Name + osSuffix, CreateOption: st.OSDisk.Option, Caching: st.OSDisk.Caching, SizeGB: st.OSDisk.SizeGB,
			DeleteOption: deleteWith, Managed: &managedParameters{Type: st.OSDisk.Managed.Type},
		},
	}
	if sec := st.OSDisk.Managed.Security; sec != nil && sec.Encryption != "" {
		out.OSDisk.Managed.Security = &diskSecurity{sec.Encryption}
	}
	for _, d := range st.DataDisks {
		made := vmDisk{
			Name: d.nameFor(r.Name), LUN: d.LUN, CreateOption: emptyDisk, SizeGB: d.SizeGB,
			Caching: cmp.Or(d.Caching, noDiskCache), DeleteOption: deleteWith, Managed: &managedParameters{Type: d.Type},
		}
		if d.Image != nil {
			made.CreateOption, made.Managed.ID = attachDisk, a.client.path(s, diskType, made.Name)
		}
		out.DataDisks = append(out.DataDisks, made)
	}
	return out
}

// nameFor is the name of a data disk of a VM.
func (d diskSpec) nameFor(vm string) string { return vm + d.suffix() }

func (d diskSpec) suffix() string {
	name := ""
	if d.Name != "" {
		name = d.Name + "-"
	}
	return fmt.Sprintf("-%s%d%s", name, *d.LUN, dataSuffix)
}

func (i imageSpec) reference() *imageReference {
	out := &imageReference{ID: i.ID, CommunityGallery: i.CommunityGallery, SharedGallery: i.SharedGallery}
	if part := strings.Split(i.URN, ":"); len(part) == urnParts {
		out.Publisher, out.Offer, out.SKU, out.Version = part[0], part[1], part[2], part[3]
	}
	return out
}

// network is the VM's one interface. As with MCM, it forwards what is not addressed to it,
// because pods have addresses of their own.
func (a *account) network(s *spec, r cloud.CreateRequest) *networkProfile {
	tags, _ := s.tagsFor(r, map[string]string{createdTag: a.now().UTC().Format(time.RFC3339)})
	nic := nicConfigured{Name: r.Name + nicSuffix, Tags: tags}
	p := &nic.Properties
	p.Primary, p.DeleteOption, p.Forwarding, p.Accelerated = true, deleteWith, true, s.Properties.Network.Accelerated
	if id := s.Properties.Network.SecurityGroupID; id != "" {
		p.SecurityGroup = &reference{ID: id}
	}
	ip := ipConfigured{Name: nic.Name}
	ip.Properties.Primary = true
	ip.Properties.Subnet.ID = a.client.group(s, s.Subnet.ResourceGroup) + "/providers/Microsoft.Network/virtualNetworks/" +
		url.PathEscape(s.Subnet.VNet) + "/subnets/" + url.PathEscape(s.Subnet.Name)
	for _, id := range s.Properties.Network.PoolIDs {
		ip.Properties.Pools = append(ip.Properties.Pools, reference{ID: id})
	}
	p.IPs = []ipConfigured{ip}
	return &networkProfile{Version: nicVersion, Configured: []nicConfigured{nic}}
}

func (s *spec) securityProfile() *securityProfile {
	sec := s.Properties.Security
	if sec == nil {
		return nil
	}
	out := &securityProfile{Type: sec.Type}
	if sec.UEFI != nil {
		out.UEFI = &uefiSettings{TPM: sec.UEFI.TPM, SecureBoot: sec.UEFI.SecureBoot}
	}
	return out
}

func (s *spec) diagnosticsProfile() *diagnosticsProfile {
	d := s.Properties.Diagnostics
	if d == nil {
		return nil
	}
	out := &diagnosticsProfile{}
	out.Boot.Enabled, out.Boot.StorageURI = d.Enabled, d.StorageURI
	return out
}
