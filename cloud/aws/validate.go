package aws

import (
	"fmt"
	"regexp"
	"strings"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// rootDevice is how a class with several block devices names the image's own.
const rootDevice = "/root"

var (
	// regionName is a part of a host name: requests are signed for it, and sent there.
	regionName  = regexp.MustCompile(`\A[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?\z`)
	deviceName  = regexp.MustCompile(`/root|/dev/(sd[a-z]|xvd[a-c][a-z]?)`)
	volumeTypes = []string{"gp2", "gp3", "io1", "io2", "st1", "sc1", "standard"}
	marketTypes = []string{"spot", "capacity-block", "interruptible-capacity-reservation"}
)

// validate adds what is wrong with the values of a spec that decoded. Region
// and tags are needed by every call, everything else only to create.
func (s *spec) validate() {
	s.Require(cloud.BlocksAll, "region", s.Region, "name the region, e.g. eu-west-1")
	if s.Region != "" && !regionName.MatchString(s.Region) {
		s.Problems.Add(cloud.BlocksAll, "region",
			"is not the name of a region; it may have letters, digits and hyphens only, e.g. eu-west-1")
	}
	s.ownership = driverkit.Ownership(s.Tags, driverkit.Contains(clusterMark), driverkit.Contains(roleMark))
	if s.ownership == nil {
		s.Problems.Add(cloud.BlocksAll, "tags",
			fmt.Sprintf("lacks the ownership tags; add a key %s<cluster> and a key %s<role>", clusterMark, roleMark))
	}
	s.validateRole()
	s.validateTags()
	s.Require(cloud.BlocksCreate, "ami", s.AMI, "name the image, e.g. ami-0123456789abcdef0")
	s.Require(cloud.BlocksCreate, "machineType", s.MachineType, "name the instance type, e.g. m5.large")
	s.BlockIf((s.IAM.Name == "") == (s.IAM.ARN == "") && !s.Wrong("iam"), "iam",
		"has to have exactly one of name and arn; name the instance profile by one of them")
	s.validateDevices()
	s.validateInterfaces()
	s.validateSubnets()
	s.validateTargetGroups()
	s.validateMarket()
	s.validatePlacement()
	s.validateMetadata()
	s.validateCPU()
	s.PrivateUserData.Validate(&s.Checks)
	s.WarnIf(s.EBSOptimized, "ebsOptimized", "is asked of EC2 here; MCM's driver ignored it")
	s.WarnIf(s.Monitoring, "monitoring", "is asked of EC2 here; MCM's driver ignored it")
}

func (s *spec) validateDevices() {
	roots, several := 0, len(s.BlockDevices) > 1
	var names []string
	for i, d := range s.BlockDevices {
		at := fmt.Sprintf("blockDevices[%d].", i)
		if names = append(names, d.DeviceName); d.DeviceName == rootDevice {
			roots++
		}
		s.BlockIf(several && deviceName.FindString(d.DeviceName) != d.DeviceName, at+"deviceName",
			"is %q and has to be /root, /dev/sdX or /dev/xvdX", d.DeviceName)
		s.validateDisk(at+"ebs.", d.EBS)
		s.WarnIf(d.NoDevice != "", at+"noDevice", "has no effect, as with MCM's driver; remove it")
		s.WarnIf(d.VirtualName != "", at+"virtualName", "has no effect, as with MCM's driver; remove it")
	}
	s.BlockIf(several && roots != 1, "blockDevices", "has %d devices named /root and has to have exactly one", roots)
	if several {
		s.Distinct("blockDevices", "deviceName", names, "give each a name of its own")
	}
}

func (s *spec) validateDisk(at string, e ebsSpec) {
	s.Require(cloud.BlocksCreate, at+"volumeType", e.VolumeType, "use one of "+strings.Join(volumeTypes, ", "))
	s.OneOf(at+"volumeType", e.VolumeType, volumeTypes...)
	if !s.Wrong(at + "volumeSize") {
		s.AtLeast(at+"volumeSize", &e.VolumeSize, 1)
	}
	if e.IOPS != 0 || (e.VolumeType == "io1" || e.VolumeType == "io2") && !s.Wrong(at+"iops") {
		s.AtLeast(at+"iops", &e.IOPS, 1)
	}
	s.AtLeast(at+"throughput", e.Throughput, 1)
	key := awssdk.ToString(e.KMSKeyID) != ""
	s.WarnIf(key && e.Encrypted, at+"kmsKeyID",
		"is asked of EC2 here; MCM's driver ignored it and used the account's default key")
	s.WarnIf(key && !e.Encrypted, at+"kmsKeyID", "has no effect without encrypted: true; add that, or remove it")
}

func (s *spec) validateInterfaces() {
	s.BlockIf(len(s.NetworkInterfaces) == 0 && !s.Wrong("networkInterfaces"), "networkInterfaces",
		"is missing; add at least one with subnetID and securityGroupIDs")
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
		s.WarnIf(n.PrimaryIPv6 != nil && n.IPv6AddressCount == nil, at+"primaryIpv6",
			"has no effect without ipv6AddressCount; add that, or remove it")
	}
}

func (s *spec) validateGroups(field string, ids []string) {
	s.BlockIf(len(ids) == 0 && !s.Wrong(field), field, "is missing; name at least one security group")
	for i, id := range ids {
		s.Require(cloud.BlocksCreate, fmt.Sprintf("%s[%d]", field, i), id, "name a security group or remove the entry")
	}
}

func (s *spec) validateMarket() {
	if m := s.MarketOptions; m != nil {
		const at = "instanceMarketOptions.marketType"
		s.Require(cloud.BlocksCreate, at, m.MarketType, "use one of "+strings.Join(marketTypes, ", "))
		s.OneOf(at, m.MarketType, marketTypes...)
	}
	s.validateSpot()
	s.WarnIf(s.SpotPrice != nil && s.MarketOptions != nil, "spotPrice",
		"has no effect because instanceMarketOptions is there too; remove it")
	s.WarnIf(s.SpotPrice != nil && s.MarketOptions == nil, "spotPrice",
		"is deprecated; use instanceMarketOptions.marketType: spot")
	if r := s.CapacityReservation; r != nil {
		s.BlockIf(r.Preference != "" && (r.ID != "" || r.GroupARN != ""), "capacityReservation.capacityReservationPreference",
			"cannot be set together with capacityReservationId or capacityReservationResourceGroupArn; remove one of them")
		s.BlockIf(r.ID != "" && r.GroupARN != "", "capacityReservation.capacityReservationId",
			"cannot be set together with capacityReservationResourceGroupArn; remove one of them")
	}
}

func (s *spec) validatePlacement() {
	p := s.Placement
	if p == nil {
		return
	}
	s.OneOf("placement.tenancy", p.Tenancy, "default", "dedicated", "host")
	s.BlockIf(awssdk.ToString(p.HostID) != "" && p.Tenancy != "host", "placement.hostId",
		"needs placement.tenancy: host; set that, or remove it")
	s.AtLeast("placement.partitionNumber", p.PartitionNumber, 1)
	if p.Affinity != nil {
		s.OneOf("placement.affinity", *p.Affinity, "default", "host")
	}
}

func (s *spec) validateCPU() {
	c := s.CPUOptions
	if c == nil {
		return
	}
	s.BlockIf((c.CoreCount == nil) != (c.ThreadsPerCore == nil), "cpuOptions",
		"has to have both of coreCount and threadsPerCore, or none; add the other")
	s.AtLeast("cpuOptions.coreCount", c.CoreCount, 1)
	s.Between("cpuOptions.threadsPerCore", c.ThreadsPerCore, 1, 2)
	s.OneOf("cpuOptions.amdSevSnp", c.AMDSEVSNP, "enabled", "disabled")
}

func (s *spec) validateMetadata() {
	m := s.MetadataOptions
	open := m == nil || m.HTTPTokens != "required" && m.HTTPEndpoint != "disabled"
	s.WarnIf(open && !s.Wrong("instanceMetadataOptions"), "instanceMetadataOptions.httpTokens",
		"is not required, so unless the account or the image requires IMDSv2, a process on the VM that can be made to "+
			"fetch a URL can leak the credentials of the instance profile; set it to required")
	if m == nil {
		return
	}
	s.OneOf("instanceMetadataOptions.httpEndpoint", m.HTTPEndpoint, "enabled", "disabled")
	s.OneOf("instanceMetadataOptions.httpTokens", m.HTTPTokens, "required", "optional")
	s.OneOf("instanceMetadataOptions.httpProtocolIpv6", m.HTTPIPv6, "enabled", "disabled")
	s.Between("instanceMetadataOptions.httpPutResponseHopLimit", m.HopLimit, 0, 64)
}
