package aws

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
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
	s.require(cloud.BlocksAll, "region", s.Region, "name the region, e.g. eu-west-1")
	s.ownership = s.findOwnership()
	if s.ownership == nil {
		s.problems.Add(cloud.BlocksAll, "tags",
			fmt.Sprintf("lacks the ownership tags; add a key %s<cluster> and a key %s<role>", clusterMark, roleMark))
	}
	for _, key := range []string{nameTag, ownerTag} {
		if _, set := s.Tags[key]; set {
			s.problems.Add(cloud.Warning, "tags["+key+"]",
				"is given to every resource by the manager and has no effect here; remove it")
		}
	}
	s.require(cloud.BlocksCreate, "ami", s.AMI, "name the image, e.g. ami-0123456789abcdef0")
	s.require(cloud.BlocksCreate, "machineType", s.MachineType, "name the instance type, e.g. m5.large")
	if (s.IAM.Name == "") == (s.IAM.ARN == "") && !s.wrong("iam") {
		s.problems.Add(cloud.BlocksCreate, "iam",
			"has to have exactly one of name and arn; name the instance profile by one of them")
	}
	s.validateDevices()
	s.validateInterfaces()
	s.validateMarket()
	s.validateReservation()
	s.validatePlacement()
	s.validateOptions()
	if s.EBSOptimized {
		s.problems.Add(cloud.Warning, "ebsOptimized", "is asked of EC2 here; MCM's driver ignored it")
	}
	if s.Monitoring {
		s.problems.Add(cloud.Warning, "monitoring", "is asked of EC2 here; MCM's driver ignored it")
	}
}

// require adds a problem when a field is empty, unless there is one with it.
func (s *spec) require(severity cloud.Severity, path, value, remedy string) {
	if strings.TrimSpace(value) == "" && !s.wrong(path) {
		s.problems.Add(severity, path, "is missing; "+remedy)
	}
}

// oneOf adds a problem when a field has another value than these; empty is
// allowed.
func (s *spec) oneOf(path, value string, allowed ...string) {
	if value != "" && !slices.Contains(allowed, value) {
		s.problems.Add(cloud.BlocksCreate, path, fmt.Sprintf("is %q and has to be one of %s", value,
			strings.Join(allowed, ", ")))
	}
}

// atLeast adds a problem when a number is too small; nil is allowed.
func (s *spec) atLeast(path string, value *int32, least int32) {
	if value != nil && *value < least {
		s.problems.Add(cloud.BlocksCreate, path, fmt.Sprintf("is %d and has to be at least %d", *value, least))
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
				s.problems.Add(cloud.BlocksCreate, at+"deviceName", fmt.Sprintf("is %q and has to be /root, /dev/sdX or /dev/xvdX",
					d.DeviceName))
			}
			if names[d.DeviceName] {
				s.problems.Add(cloud.BlocksCreate, at+"deviceName",
					fmt.Sprintf("is %q, as that of another device; give each a name of its own", d.DeviceName))
			}
			names[d.DeviceName] = true
		}
		s.validateDisk(at+"ebs.", d.EBS)
		if d.NoDevice != "" {
			s.problems.Add(cloud.Warning, at+"noDevice", "has no effect, as with MCM's driver; remove it")
		}
		if d.VirtualName != "" {
			s.problems.Add(cloud.Warning, at+"virtualName", "has no effect, as with MCM's driver; remove it")
		}
	}
	if len(s.BlockDevices) > 1 && roots != 1 {
		s.problems.Add(cloud.BlocksCreate, "blockDevices",
			fmt.Sprintf("has %d devices named /root and has to have exactly one", roots))
	}
}

func (s *spec) validateDisk(at string, e ebsSpec) {
	s.require(cloud.BlocksCreate, at+"volumeType", e.VolumeType, "use one of "+strings.Join(volumeTypes, ", "))
	s.oneOf(at+"volumeType", e.VolumeType, volumeTypes...)
	if !s.wrong(at + "volumeSize") {
		s.atLeast(at+"volumeSize", &e.VolumeSize, 1)
	}
	if e.IOPS < 0 || e.IOPS == 0 && (e.VolumeType == "io1" || e.VolumeType == "io2") && !s.wrong(at+"iops") {
		s.atLeast(at+"iops", &e.IOPS, 1)
	}
	s.atLeast(at+"throughput", e.Throughput, 1)
	if e.KMSKeyID == nil || *e.KMSKeyID == "" {
		return
	}
	if e.Encrypted {
		s.problems.Add(cloud.Warning, at+"kmsKeyID",
			"is asked of EC2 here; MCM's driver ignored it and used the account's default key")
	} else {
		s.problems.Add(cloud.Warning, at+"kmsKeyID", "has no effect without encrypted: true; add that, or remove it")
	}
}

func (s *spec) validateInterfaces() {
	if len(s.NetworkInterfaces) == 0 && !s.wrong("networkInterfaces") {
		s.problems.Add(cloud.BlocksCreate, "networkInterfaces",
			"is missing; add at least one with subnetID and securityGroupIDs")
	}
	for i, n := range s.NetworkInterfaces {
		at := fmt.Sprintf("networkInterfaces[%d].", i)
		if s.wrong(strings.TrimSuffix(at, ".")) && n.SubnetID == "" && n.SecurityGroupIDs == nil {
			continue // it is no object at all
		}
		s.require(cloud.BlocksCreate, at+"subnetID", n.SubnetID, "name the subnet, e.g. subnet-0123456789abcdef0")
		s.validateGroups(at+"securityGroupIDs", n.SecurityGroupIDs)
		s.oneOf(at+"interfaceType", n.InterfaceType, "interface", "efa", "efa-only")
		s.atLeast(at+"networkCardIndex", n.NetworkCardIndex, 0)
		s.atLeast(at+"deviceIndex", n.DeviceIndex, 0)
		s.atLeast(at+"ipv6AddressCount", n.IPv6AddressCount, 0)
		s.atLeast(at+"ipv6PrefixCount", n.IPv6PrefixCount, 0)
		if n.PrimaryIPv6 != nil && n.IPv6AddressCount == nil {
			s.problems.Add(cloud.Warning, at+"primaryIpv6", "has no effect without ipv6AddressCount; add that, or remove it")
		}
	}
}

func (s *spec) validateGroups(field string, ids []string) {
	if len(ids) == 0 && !s.wrong(field) {
		s.problems.Add(cloud.BlocksCreate, field, "is missing; name at least one security group")
	}
	for i, id := range ids {
		s.require(cloud.BlocksCreate, fmt.Sprintf("%s[%d]", field, i), id, "name a security group or remove the entry")
	}
}

func (s *spec) validateMarket() {
	if s.MarketOptions != nil {
		s.require(cloud.BlocksCreate, "instanceMarketOptions.marketType", s.MarketOptions.MarketType, "use one of "+
			strings.Join(marketTypes, ", "))
		s.oneOf("instanceMarketOptions.marketType", s.MarketOptions.MarketType, marketTypes...)
	}
	if s.SpotPrice == nil {
		return
	}
	if s.MarketOptions != nil {
		s.problems.Add(cloud.Warning, "spotPrice", "has no effect because instanceMarketOptions is there too; remove it")
		return
	}
	s.problems.Add(cloud.Warning, "spotPrice", "is deprecated; use instanceMarketOptions.marketType: spot")
}

func (s *spec) validateReservation() {
	r := s.CapacityReservation
	if r == nil {
		return
	}
	if r.Preference != "" && (r.ID != "" || r.GroupARN != "") {
		s.problems.Add(cloud.BlocksCreate, "capacityReservation.capacityReservationPreference",
			"cannot be set together with capacityReservationId or capacityReservationResourceGroupArn; remove one of them")
	}
	if r.ID != "" && r.GroupARN != "" {
		s.problems.Add(cloud.BlocksCreate, "capacityReservation.capacityReservationId",
			"cannot be set together with capacityReservationResourceGroupArn; remove one of them")
	}
}

func (s *spec) validatePlacement() {
	p := s.Placement
	if p == nil {
		return
	}
	s.oneOf("placement.tenancy", p.Tenancy, "default", "dedicated", "host")
	if p.HostID != nil && *p.HostID != "" && p.Tenancy != "host" {
		s.problems.Add(cloud.BlocksCreate, "placement.hostId", "needs placement.tenancy: host; set that, or remove it")
	}
	s.atLeast("placement.partitionNumber", p.PartitionNumber, 1)
	if p.Affinity != nil {
		s.oneOf("placement.affinity", *p.Affinity, "default", "host")
	}
}

func (s *spec) validateOptions() {
	if m := s.MetadataOptions; m != nil {
		s.oneOf("instanceMetadataOptions.httpEndpoint", m.HTTPEndpoint, "enabled", "disabled")
		s.oneOf("instanceMetadataOptions.httpTokens", m.HTTPTokens, "required", "optional")
		s.oneOf("instanceMetadataOptions.httpProtocolIpv6", m.HTTPIPv6, "enabled", "disabled")
		const most = 64
		if m.HopLimit != nil && (*m.HopLimit < 0 || *m.HopLimit > most) {
			s.problems.Add(cloud.BlocksCreate, "instanceMetadataOptions.httpPutResponseHopLimit",
				fmt.Sprintf("is %d and has to be from 0 to %d", *m.HopLimit, most))
		}
	}
	c := s.CPUOptions
	if c == nil {
		return
	}
	if (c.CoreCount == nil) != (c.ThreadsPerCore == nil) {
		s.problems.Add(cloud.BlocksCreate, "cpuOptions",
			"has to have both of coreCount and threadsPerCore, or none; add the other")
	}
	s.atLeast("cpuOptions.coreCount", c.CoreCount, 1)
	if t := c.ThreadsPerCore; t != nil && *t != 1 && *t != 2 {
		s.problems.Add(cloud.BlocksCreate, "cpuOptions.threadsPerCore", fmt.Sprintf("is %d and has to be 1 or 2", *t))
	}
	s.oneOf("cpuOptions.amdSevSnp", c.AMDSEVSNP, "enabled", "disabled")
}
