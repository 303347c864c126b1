package gcp

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// The metadata that a guest reads its user data from.
const (
	userDataKey  = "user-data"
	encodingKey  = "user-data-encoding"
	startupKey   = "startup-script"
	ignitionText = `{"ignition"`
)

// userData returns the metadata with the user data. A script is run by Google's agent, as with
// MCM's driver; cloud-init and Ignition read the rest. What is no text goes as base64, since
// JSON cannot carry it; an item beside it names the encoding to cloud-init.
func userData(data []byte) []item {
	switch {
	case len(data) == 0:
		return nil
	case !utf8.Valid(data):
		return []item{{userDataKey, base64.StdEncoding.EncodeToString(data)}, {encodingKey, "base64"}}
	case cloud.OnlyCloudInit(data), bytes.HasPrefix(bytes.TrimSpace(data), []byte(ignitionText)):
		return []item{{userDataKey, string(data)}}
	}
	return []item{{startupKey, string(data)}}
}

// requestFor returns the VM of r as it is asked for, and what about r does not fit. Failed is how
// many times this attempt has failed.
func (s *spec) requestFor(r cloud.CreateRequest, project string, failed int) (request, []cloud.Problem) {
	labels, items, problems := encode(r.Tags)
	mine, _, wrong := encode(map[string]string{machineTag: r.Name, ownerTag: r.OwnerID})
	all := driverkit.MergeTags(labels, s.Labels, mine)
	items, wrongItems := s.items(r, items)
	problems = slices.Concat(problems, wrong, wrongItems, driverkit.TooManyTags("labels", all, tagLimits))
	zone := s.zoneFor(r)
	q := request{
		Name: r.Name, MachineType: "zones/" + zone + "/machineTypes/" + s.MachineType, CanIPForward: s.CanIPForward,
		DeletionProtection: s.DeletionProtection, MinCPUPlatform: s.MinCPUPlatform, Labels: all,
		Tags: networkTags{s.Tags}, Metadata: metadata{items}, Scheduling: scheduling(s.Scheduling),
	}
	q.Scheduling.Preemptible = s.interruptible() // also beside SPOT, as Google's documentation has it
	if s.Description != nil {
		q.Description = *s.Description
	}
	maps.DeleteFunc(labels, func(_, value string) bool { return value == elsewhere }) // disks have no metadata
	for i := range s.Disks {
		own := driverkit.MergeTags(s.marks(), mine, retentionLabel(*s.Disks[i].AutoDelete))
		marks := driverkit.MergeTags(labels, s.Disks[i].Labels, own)
		q.Disks = append(q.Disks, s.disk(i, zone, diskName(r, i, failed), marks))
	}
	for _, n := range s.NetworkInterfaces {
		q.NetworkInterfaces = append(q.NetworkInterfaces, s.nic(n, project))
	}
	s.addOptions(&q, project, zone)
	return q, problems
}

// addOptions adds what most classes do without.
func (s *spec) addOptions(q *request, project, zone string) {
	if g := s.GPU; g != nil {
		q.Accelerators = []accelerator{{
			Type: "projects/" + project + "/zones/" + zone + "/acceleratorTypes/" + g.Type, Count: g.Count,
		}}
	}
	for _, a := range s.ServiceAccounts {
		q.ServiceAccounts = append(q.ServiceAccounts, guestAccount(a))
	}
	if c := s.ShieldedInstance; c != nil {
		q.Shielded = &shielded{Integrity: c.IntegrityMonitoring, SecureBoot: c.SecureBoot, VTPM: c.VTPM}
	}
	if f := s.AdvancedMachineSpec; f != nil {
		q.Advanced = &advanced{Nested: f.NestedVirtualization}
	}
}

// items returns the metadata of the class, of the request and of the user data. Compute Engine
// takes each key once.
func (s *spec) items(r cloud.CreateRequest, tags []item) ([]item, []cloud.Problem) {
	var all []item
	for _, m := range s.Metadata {
		value := ""
		if m.Value != nil {
			value = *m.Value
		}
		all = append(all, item{m.Key, value})
	}
	data := userData(r.UserData)
	var problems []cloud.Problem
	bad := func(field, message string) {
		problems = append(problems, cloud.Problem{Severity: cloud.BlocksCreate, Field: field, Message: message})
	}
	for i, has := range all {
		if slices.ContainsFunc(data, func(d item) bool { return d.Key == has.Key }) {
			bad(fmt.Sprintf("providerSpec.metadata[%d].key", i),
				"is "+has.Key+", which the user data of the Secret has; remove the entry")
		}
	}
	for _, d := range data {
		if len(d.Value) > userDataMax {
			bad("secret.userData", fmt.Sprintf("has %d bytes as base64 and may have %d; make it shorter", len(d.Value),
				userDataMax))
		}
	}
	return slices.Concat(all, data, tags), problems
}

// diskName returns a name for a disk that no earlier try has used: Compute Engine refuses a VM one of
// whose disks has a name that is taken.
func diskName(r cloud.CreateRequest, i, failed int) string {
	const digest, most = 4, 63 - 1 - 2*4
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%s/%d/%d", r.OwnerID, r.Token, failed, i))
	name := strings.TrimRight(r.Name[:min(len(r.Name), most)], "-")
	return fmt.Sprintf("%s-%x", name, sum[:digest])
}

// disk returns a disk as it is asked for. A scratch disk is a part of its host and has neither an
// image nor labels.
func (s *spec) disk(i int, zone, name string, labels map[string]string) diskRequest {
	d := s.Disks[i]
	q := diskRequest{AutoDelete: *d.AutoDelete}
	switch types := "zones/" + zone + "/diskTypes/"; d.Type {
	case scratch:
		q.Type, q.Interface, q.Params.Type = scratch, d.Interface, types+"local-ssd"
	default:
		q.Type, q.Boot, q.Params = persistent, d.Boot, diskParams{
			Name: name, SizeGB: d.SizeGB, Image: d.Image, Labels: labels, IOPS: d.ProvisionedIOPS,
			Throughput: d.ProvisionedThroughput, StoragePool: d.StoragePool,
		}
		if d.Type != "" {
			q.Params.Type = types + d.Type
		}
	}
	if e := d.Encryption; e != nil {
		q.Encryption = &encryption{
			KeyName: strings.TrimSpace(e.KeyName), KeyAccount: strings.TrimSpace(e.KeyAccount),
		}
	}
	return q
}

// nic returns a network interface as it is asked for. Without disableExternalIP it gets an address
// of the internet for as long as the VM is there. With two stacks, MCM asks for the ranges of pods
// whether or not useAliasIPs is set, which is younger.
func (s *spec) nic(n nicSpec, project string) nic {
	var q nic
	q.Network = within("projects/"+project+"/global/networks/", n.Network)
	q.Subnetwork = within("regions/"+s.Region+"/subnetworks/", n.Subnetwork)
	if !n.DisableExternalIP {
		q.Access = []accessConfig{{}}
	}
	if n.StackType == dualStack && n.IPv6AccessType == "EXTERNAL" {
		q.IPv6Access = []accessConfig{{Type: "DIRECT_IPV6", Tier: "PREMIUM"}}
	}
	pods := alias{Range: n.IPCIDRRange, Name: n.SubnetworkRangeName}
	if n.StackType == dualStack || n.UseAliasIPs {
		q.StackType = n.StackType
	}
	if n.UseAliasIPs || n.StackType == dualStack && pods != (alias{}) {
		q.Aliases = []alias{pods}
	}
	return q
}

// within returns the path of what has a bare name. A path, e.g. to a network that another project
// shares, stays as it is.
func within(parent, name string) string {
	if name == "" || strings.Contains(name, "/") {
		return name
	}
	return parent + name
}
