package gcp

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// validate adds what is wrong with the values of a spec that decoded. What MCM accepts is a
// warning at most.
func (s *spec) validate() {
	s.Require(cloud.BlocksAll, "zone", s.Zone, "name a zone, e.g. europe-west1-b")
	s.Require(cloud.BlocksCreate, "region", s.Region, "name the zone's region, e.g. europe-west1")
	s.Require(cloud.BlocksCreate, "machineType", s.MachineType, "name a machine type, e.g. n2-standard-4")
	s.WarnIf(s.Region != "" && s.Zone != "" && regionOf(s.Zone) != s.Region, "region",
		"is %q, but the zone %q is in another one; name its region", s.Region, s.Zone)
	for i, zone := range s.Zones {
		s.BlockIf(regionOf(zone) != regionOf(s.Zone), fmt.Sprintf("zones[%d]", i),
			"is %q, which is no zone of the region of zone %q; name one that is, or remove it", zone, s.Zone)
	}
	s.validateGroups()
	s.validateTags()
	s.validateDisks()
	s.validateInterfaces()
	s.validateScheduling()
	for i, m := range s.Metadata {
		s.BlockIf(m.Key == userDataKey, fmt.Sprintf("metadata[%d].key", i),
			"is %q, which the user data of the Secret has; remove the entry", m.Key)
	}
}

func (s *spec) validateTags() {
	if s.ownership == nil && !s.Wrong("tags") {
		s.Problems.Add(cloud.BlocksAll, "tags", "lacks the network tags that name the owner of the VMs; add one that "+
			"contains "+clusterMark+" and one that contains "+roleMark)
	}
	s.CheckTags(cloud.Warning, "labels", s.Labels, tagLimits)
}

func (s *spec) validateDisks() {
	if len(s.Disks) == 0 && !s.Wrong("disks") {
		s.Block("disks", "is empty; add a boot disk")
	}
	for i := range s.Disks {
		d, path := &s.Disks[i], fmt.Sprintf("disks[%d]", i)
		s.WarnIf(d.SizeGB < 0, path+".sizeGb", "is %d, which Compute Engine refuses; name the size in GB, or remove the "+
			"field for that of the image", d.SizeGB)
		empty := d.SizeGB == 0 && d.Image == "" && d.Type != scratch && !s.Wrong(path)
		s.BlockIf(empty && !d.Boot && d.Type == "", path, "says nothing; name sizeGb and type, or remove the disk")
		s.WarnIf(empty && !d.Boot && d.Type != "", path+".sizeGb", "is missing, without an image; Compute Engine makes a "+
			"disk of 500 GB; name the size")
		if d.Type == scratch {
			s.Require(cloud.BlocksCreate, path+".interface", d.Interface, "name NVME or SCSI")
			s.OneOf(path+".interface", d.Interface, "NVME", "SCSI")
			s.WarnIf(d.Encryption != nil, path+".encryption", "is of a disk of type SCRATCH, which takes no key; remove it")
		}
		if d.Boot {
			s.Require(cloud.BlocksCreate, path+".image", d.Image,
				"name the image, e.g. projects/debian-cloud/global/images/family/debian-12")
		}
		if e := d.Encryption; e != nil {
			s.Require(cloud.BlocksCreate, path+".encryption.kmsKeyName", e.KeyName, "name the key")
			s.BlockIf(e.KeyAccount != "" && strings.TrimSpace(e.KeyAccount) == "", path+".encryption.kmsKeyServiceAccount",
				"is blank; name a service account or remove the field")
		}
		s.CheckTags(cloud.Warning, path+".labels", d.Labels, tagLimits)
	}
}

// prefixLength is what ipCidrRange may be.
var prefixLength = regexp.MustCompile(`/(3[0-2]|[12]?[0-9])`)

func (s *spec) validateInterfaces() {
	if len(s.NetworkInterfaces) == 0 && !s.Wrong("networkInterfaces") {
		s.Block("networkInterfaces", "is empty; add one with a network or a subnetwork")
	}
	for i, n := range s.NetworkInterfaces {
		path := fmt.Sprintf("networkInterfaces[%d]", i)
		s.BlockIf(n.Network == "" && n.Subnetwork == "" && !s.Wrong(path), path,
			"names neither a network nor a subnetwork; name one of them")
		s.OneOf(path+".stackType", n.StackType, "IPV4_ONLY", dualStack)
		s.OneOf(path+".ipv6accessType", n.IPv6AccessType, "INTERNAL", "EXTERNAL")
		s.Matches(cloud.BlocksCreate, path+".ipCidrRange", n.IPCIDRRange, prefixLength, "a length from /0 to /32, e.g. /24")
	}
}

func (s *spec) validateScheduling() {
	c := s.Scheduling
	s.Require(cloud.BlocksCreate, "scheduling.onHostMaintenance", c.OnHostMaintenance, "name MIGRATE or TERMINATE")
	s.OneOf("scheduling.onHostMaintenance", c.OnHostMaintenance, "MIGRATE", terminate)
	s.OneOf("scheduling.provisioningModel", c.ProvisioningModel, "STANDARD", spot)
	s.BlockIf(c.ProvisioningModel == "STANDARD" && c.Preemptible, "scheduling.provisioningModel",
		"is STANDARD, and the VMs are preemptible; remove one of the two")
	s.WarnIf(s.interruptible() && (c.AutomaticRestart || c.OnHostMaintenance == "MIGRATE"), "scheduling",
		"asks for VMs that may be taken away and for their restart or migration, which Compute Engine refuses; set "+
			"automaticRestart to false and onHostMaintenance to TERMINATE")
	g := s.GPU
	if g == nil {
		return
	}
	s.Require(cloud.BlocksCreate, "gpu.acceleratorType", g.Type, "name the type, e.g. nvidia-l4")
	s.BlockIf(g.Count <= 0 && !s.Wrong("gpu.count"), "gpu.count", "is %d and has to be at least 1", g.Count)
	s.BlockIf(c.OnHostMaintenance == "MIGRATE", "scheduling.onHostMaintenance",
		"is MIGRATE, and VMs with a GPU cannot migrate; set it to TERMINATE")
}
