package aws

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// rootDevice is how a class with several block devices names the image's own.
const rootDevice = "/root"

var (
	deviceName  = regexp.MustCompile(`^/dev/(sd[a-z]|xvd[a-c][a-z]?)$`)
	volumeTypes = []string{"gp2", "gp3", "io1", "io2", "st1", "sc1", "standard"}
	marketTypes = []string{"spot", "capacity-block", "interruptible-capacity-reservation"}
)

// validate adds what is wrong with the values of a spec that decoded. Region
// and tags are needed by every call, everything else only to create.
func (s *spec) validate() {
	s.Require(cloud.BlocksAll, "region", s.Region, "name the region, e.g. eu-west-1")
	s.ownership = driverkit.Ownership(s.Tags, driverkit.Contains(clusterMark), driverkit.Contains(roleMark))
	if s.ownership == nil {
		s.Problems.Add(cloud.BlocksAll, "tags",
			fmt.Sprintf("lacks the ownership tags; add a key %s<cluster> and a key %s<role>", clusterMark, roleMark))
	}
	for _, key := range []string{nameTag, ownerTag} {
		if _, set := s.Tags[key]; set {
			s.Problems.Add(cloud.Warning, "tags["+key+"]",
				"is set by the manager on every resource and has no effect here; remove it")
		}
	}
	s.validateRole()
	s.validateTags()
	s.Require(cloud.BlocksCreate, "ami", s.AMI, "name the image, e.g. ami-0123456789abcdef0")
	s.Require(cloud.BlocksCreate, "machineType", s.MachineType, "name the instance type, e.g. m5.large")
	if (s.IAM.Name == "") == (s.IAM.ARN == "") && !s.Wrong("iam") {
		s.Problems.Add(cloud.BlocksCreate, "iam",
			"has to have exactly one of name and arn; name the instance profile by one of them")
	}
	s.validateDevices()
	s.validateInterfaces()
	s.validateSubnets()
	s.validateMarket()
	s.validateReservation()
	s.validatePlacement()
	s.validateOptions()
	if s.EBSOptimized {
		s.Problems.Add(cloud.Warning, "ebsOptimized", "is asked of EC2 here; MCM's driver ignored it")
	}
	if s.Monitoring {
		s.Problems.Add(cloud.Warning, "monitoring", "is asked of EC2 here; MCM's driver ignored it")
	}
}

func (s *spec) validateDevices() {
	roots, names := 0, map[string]bool{}
	for i, d := range s.BlockDevices {
		at := fmt.Sprintf("blockDevices[%d].", i)
		if len(s.BlockDevices) > 1 {
			switch {
			case d.DeviceName == rootDevice:
				roots++
			case !deviceName.MatchString(d.DeviceName):
				s.Problems.Add(cloud.BlocksCreate, at+"deviceName", fmt.Sprintf("is %q and has to be /root, /dev/sdX or /dev/xvdX",
					d.DeviceName))
			}
			if names[d.DeviceName] {
				s.Problems.Add(cloud.BlocksCreate, at+"deviceName",
					fmt.Sprintf("is %q, as that of another device; give each a name of its own", d.DeviceName))
			}
			names[d.DeviceName] = true
		}
		s.validateDisk(at+"ebs.", d.EBS)
		if d.NoDevice != "" {
			s.Problems.Add(cloud.Warning, at+"noDevice", "has no effect, as with MCM's driver; remove it")
		}
		if d.VirtualName != "" {
			s.Problems.Add(cloud.Warning, at+"virtualName", "has no effect, as with MCM's driver; remove it")
		}
	}
	if len(s.BlockDevices) > 1 && roots != 1 {
		s.Problems.Add(cloud.BlocksCreate, "blockDevices",
			fmt.Sprintf("has %d devices named /root and has to have exactly one", roots))
	}
}

func (s *spec) validateDisk(at string, e ebsSpec) {
	s.Require(cloud.BlocksCreate, at+"volumeType", e.VolumeType, "use one of "+strings.Join(volumeTypes, ", "))
	s.OneOf(at+"volumeType", e.VolumeType, volumeTypes...)
	if !s.Wrong(at + "volumeSize") {
		s.AtLeast(at+"volumeSize", &e.VolumeSize, 1)
	}
	if e.IOPS < 0 || e.IOPS == 0 && (e.VolumeType == "io1" || e.VolumeType == "io2") && !s.Wrong(at+"iops") {
		s.AtLeast(at+"iops", &e.IOPS, 1)
	}
	s.AtLeast(at+"throughput", e.Throughput, 1)
	if e.KMSKeyID == nil || *e.KMSKeyID == "" {
		return
	}
	if e.Encrypted {
		s.Problems.Add(cloud.Warning, at+"kmsKeyID",
			"is asked of EC2 here; MCM's driver ignored it and used the account's default key")
	} else {
		s.Problems.Add(cloud.Warning, at+"kmsKeyID", "has no effect without encrypted: true; add that, or remove it")
	}
}

func (s *spec) validateInterfaces() {
	if len(s.NetworkInterfaces) == 0 && !s.Wrong("networkInterfaces") {
		s.Problems.Add(cloud.BlocksCreate, "networkInterfaces",
			"is missing; add at least one with subnetID and securityGroupIDs")
	}
	for i, n := range s.NetworkInterfaces {
		at := fmt.Sprintf("networkInterfaces[%d].", i)
		if s.Wrong(strings.TrimSuffix(at, ".")) && n.SubnetID == "" && n.SecurityGroupIDs == nil {
			continue // it is no object at all
		}
		if len(s.Subnets) == 0 {
			s.Require(cloud.BlocksCreate, at+"subnetID", n.SubnetID, "name the subnet, e.g. subnet-0123456789abcdef0")
		}
		s.validateGroups(at+"securityGroupIDs", n.SecurityGroupIDs)
		s.OneOf(at+"interfaceType", n.InterfaceType, "interface", "efa", "efa-only")
		s.AtLeast(at+"networkCardIndex", n.NetworkCardIndex, 0)
		s.AtLeast(at+"deviceIndex", n.DeviceIndex, 0)
		s.AtLeast(at+"ipv6AddressCount", n.IPv6AddressCount, 0)
		s.AtLeast(at+"ipv6PrefixCount", n.IPv6PrefixCount, 0)
		if n.PrimaryIPv6 != nil && n.IPv6AddressCount == nil {
			s.Problems.Add(cloud.Warning, at+"primaryIpv6", "has no effect without ipv6AddressCount; add that, or remove it")
		}
	}
}

func (s *spec) validateGroups(field string, ids []string) {
	if len(ids) == 0 && !s.Wrong(field) {
		s.Problems.Add(cloud.BlocksCreate, field, "is missing; name at least one security group")
	}
	for i, id := range ids {
		s.Require(cloud.BlocksCreate, fmt.Sprintf("%s[%d]", field, i), id, "name a security group or remove the entry")
	}
}

func (s *spec) validateMarket() {
	if s.MarketOptions != nil {
		s.Require(cloud.BlocksCreate, "instanceMarketOptions.marketType", s.MarketOptions.MarketType, "use one of "+
			strings.Join(marketTypes, ", "))
		s.OneOf("instanceMarketOptions.marketType", s.MarketOptions.MarketType, marketTypes...)
	}
	s.validateSpot()
	if s.SpotPrice == nil {
		return
	}
	if s.MarketOptions != nil {
		s.Problems.Add(cloud.Warning, "spotPrice", "has no effect because instanceMarketOptions is there too; remove it")
		return
	}
	s.Problems.Add(cloud.Warning, "spotPrice", "is deprecated; use instanceMarketOptions.marketType: spot")
}

func (s *spec) validateReservation() {
	r := s.CapacityReservation
	if r == nil {
		return
	}
	if r.Preference != "" && (r.ID != "" || r.GroupARN != "") {
		s.Problems.Add(cloud.BlocksCreate, "capacityReservation.capacityReservationPreference",
			"cannot be set together with capacityReservationId or capacityReservationResourceGroupArn; remove one of them")
	}
	if r.ID != "" && r.GroupARN != "" {
		s.Problems.Add(cloud.BlocksCreate, "capacityReservation.capacityReservationId",
			"cannot be set together with capacityReservationResourceGroupArn; remove one of them")
	}
}

func (s *spec) validatePlacement() {
	p := s.Placement
	if p == nil {
		return
	}
	s.OneOf("placement.tenancy", p.Tenancy, "default", "dedicated", "host")
	if p.HostID != nil && *p.HostID != "" && p.Tenancy != "host" {
		s.Problems.Add(cloud.BlocksCreate, "placement.hostId", "needs placement.tenancy: host; set that, or remove it")
	}
	s.AtLeast("placement.partitionNumber", p.PartitionNumber, 1)
	if p.Affinity != nil {
		s.OneOf("placement.affinity", *p.Affinity, "default", "host")
	}
}

func (s *spec) validateOptions() {
	s.validateMetadata()
	c := s.CPUOptions
	if c == nil {
		return
	}
	if (c.CoreCount == nil) != (c.ThreadsPerCore == nil) {
		s.Problems.Add(cloud.BlocksCreate, "cpuOptions",
			"has to have both of coreCount and threadsPerCore, or none; add the other")
	}
	s.AtLeast("cpuOptions.coreCount", c.CoreCount, 1)
	if t := c.ThreadsPerCore; t != nil && *t != 1 && *t != 2 {
		s.Problems.Add(cloud.BlocksCreate, "cpuOptions.threadsPerCore", fmt.Sprintf("is %d and has to be 1 or 2", *t))
	}
	s.OneOf("cpuOptions.amdSevSnp", c.AMDSEVSNP, "enabled", "disabled")
}

func (s *spec) validateMetadata() {
	m := s.MetadataOptions
	if (m == nil || m.HTTPTokens != "required" && m.HTTPEndpoint != "disabled") && !s.Wrong("instanceMetadataOptions") {
		s.Problems.Add(cloud.Warning, "instanceMetadataOptions.httpTokens",
			"is not required, so unless the account or the image requires IMDSv2, a process on the VM that can be made to "+
				"fetch a URL can leak the credentials of the instance profile; set it to required")
	}
	if m := s.MetadataOptions; m != nil {
		s.OneOf("instanceMetadataOptions.httpEndpoint", m.HTTPEndpoint, "enabled", "disabled")
		s.OneOf("instanceMetadataOptions.httpTokens", m.HTTPTokens, "required", "optional")
		s.OneOf("instanceMetadataOptions.httpProtocolIpv6", m.HTTPIPv6, "enabled", "disabled")
		const most = 64
		if m.HopLimit != nil && (*m.HopLimit < 0 || *m.HopLimit > most) {
			s.Problems.Add(cloud.BlocksCreate, "instanceMetadataOptions.httpPutResponseHopLimit",
				fmt.Sprintf("is %d and has to be from 0 to %d", *m.HopLimit, most))
		}
	}
}
