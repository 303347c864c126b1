package aws

import (
	"encoding/json"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/aws/bootdata"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/lenient"
)

// The tags that say what belongs to whom. A key counts as the cluster's or the
// role's when it contains the mark, as in MCM's driver.
const (
	clusterMark = "kubernetes.io/cluster/"
	roleMark    = "kubernetes.io/role/"
	nameTag     = "Name"
	ownerTag    = "mcm.cluster.x-k8s.io/owner-id"
)

// placementAnnotation holds EC2's Placement as JSON. It counts only when the
// spec has no placement.
const placementAnnotation = "machine.sapcloud.io/awsPlacement"

// placementField is where a machine has that annotation.
const placementField = "spec.nodeTemplate.metadata.annotations[" + placementAnnotation + "]"

// spec is a decoded provider spec of MCM's AWS driver. Nothing modifies it once
// Parse has returned.
type spec struct {
	APIVersion          string            `json:"apiVersion"`
	Kind                string            `json:"kind"`
	AMI                 string            `json:"ami"`
	Region              string            `json:"region"`
	MachineType         string            `json:"machineType"`
	IAM                 profileSpec       `json:"iam"`
	KeyName             *string           `json:"keyName"`
	BlockDevices        []blockDeviceSpec `json:"blockDevices"`
	NetworkInterfaces   []interfaceSpec   `json:"networkInterfaces"`
	Subnets             []subnetSpec      `json:"subnets"`
	TargetGroups        []targetGroupSpec `json:"targetGroups"`
	AssumeRole          *roleSpec         `json:"assumeRole"`
	Tags                map[string]string `json:"tags"`
	SpotPrice           *string           `json:"spotPrice"`
	MarketOptions       *marketSpec       `json:"instanceMarketOptions"`
	CapacityReservation *reservationSpec  `json:"capacityReservation"`
	Placement           *placementSpec    `json:"placement"`
	MetadataOptions     *metadataSpec     `json:"instanceMetadataOptions"`
	CPUOptions          *cpuSpec          `json:"cpuOptions"`
	SourceDestCheck     *bool             `json:"srcAndDstChecksEnabled"`
	EBSOptimized        bool              `json:"ebsOptimized"`
	Monitoring          bool              `json:"monitoring"`
	PrivateUserData     *bootdata.Spec    `json:"privateUserData"`
	ownership           []string          // keys of Tags that say what is the class's own, sorted

	driverkit.Checks
}

type profileSpec struct {
	Name string `json:"name"`
	ARN  string `json:"arn"`
}

type blockDeviceSpec struct {
	DeviceName  string  `json:"deviceName"`
	EBS         ebsSpec `json:"ebs"`
	NoDevice    string  `json:"noDevice"`
	VirtualName string  `json:"virtualName"`
}

type ebsSpec struct {
	VolumeType          string  `json:"volumeType"`
	VolumeSize          int32   `json:"volumeSize"` // GiB
	IOPS                int32   `json:"iops"`
	Throughput          *int32  `json:"throughput"`
	Encrypted           bool    `json:"encrypted"`
	DeleteOnTermination *bool   `json:"deleteOnTermination"`
	SnapshotID          *string `json:"snapshotID"`
	KMSKeyID            *string `json:"kmsKeyID"`
}

type interfaceSpec struct {
	SubnetID            string   `json:"subnetID"`
	SecurityGroupIDs    []string `json:"securityGroupIDs"`
	PublicIP            *bool    `json:"associatePublicIPAddress"`
	DeleteOnTermination *bool    `json:"deleteOnTermination"`
	Description         *string  `json:"description"`
	InterfaceType       string   `json:"interfaceType"`
	NetworkCardIndex    *int32   `json:"networkCardIndex"`
	DeviceIndex         *int32   `json:"deviceIndex"`
	IPv6AddressCount    *int32   `json:"ipv6AddressCount"`
	PrimaryIPv6         *bool    `json:"primaryIpv6"`
	IPv6PrefixCount     *int32   `json:"ipv6PrefixCount"`
}

// efa reports whether the interface is an Elastic Fabric Adapter.
func (n interfaceSpec) efa() bool { return n.InterfaceType == "efa" || n.InterfaceType == "efa-only" }

type marketSpec struct {
	MarketType  string    `json:"marketType"`
	SpotOptions *spotSpec `json:"spotOptions"`
}

type reservationSpec struct {
	Preference string `json:"capacityReservationPreference"`
	ID         string `json:"capacityReservationId"`
	GroupARN   string `json:"capacityReservationResourceGroupArn"`
}

type placementSpec struct {
	GroupID         *string `json:"groupId"`
	Tenancy         string  `json:"tenancy"`
	HostID          *string `json:"hostId"`
	PartitionNumber *int32  `json:"partitionNumber"`
	Affinity        *string `json:"affinity"`
}

type metadataSpec struct {
	HTTPEndpoint string `json:"httpEndpoint"`
	HTTPTokens   string `json:"httpTokens"`
	HopLimit     *int32 `json:"httpPutResponseHopLimit"`
	HTTPIPv6     string `json:"httpProtocolIpv6"`
}

type cpuSpec struct {
	CoreCount      *int32 `json:"coreCount"`
	ThreadsPerCore *int32 `json:"threadsPerCore"`
	AMDSEVSNP      string `json:"amdSevSnp"`
}

// placementOf is the placement that a machine's annotation asks for, with the keys of
// EC2's Go SDK; nil if there is none, an empty one, or the spec has one.
func (s *spec) placementOf(annotations map[string]string) (*types.Placement, []cloud.Problem) {
	text := annotations[placementAnnotation]
	if text == "" || s.Placement != nil {
		return nil, nil
	}
	var p types.Placement
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return nil, []cloud.Problem{{
			Severity: cloud.BlocksCreate, Field: placementField,
			Message: "is no Placement of EC2; write JSON such as {\"GroupName\":\"a-group\"}, or use providerSpec.placement",
		}}
	}
	return &p, nil
}

// setDefaults writes out what MCM's driver means by leaving a field out.
func (s *spec) setDefaults() {
	s.APIVersion, s.Kind = "", "" // say nothing
	for i := range s.BlockDevices {
		d := &s.BlockDevices[i].EBS
		driverkit.Default(&d.DeleteOnTermination, true)
	}
	home := s.homeSubnet()
	for i := range s.NetworkInterfaces {
		n := &s.NetworkInterfaces[i]
		driverkit.Default(&n.DeleteOnTermination, true)
		driverkit.Default(&n.DeviceIndex, int32(i))
		if n.IPv6AddressCount != nil {
			driverkit.Default(&n.PrimaryIPv6, true)
		}
		if len(s.Subnets) > 0 {
			n.SubnetID = home
		}
	}
	driverkit.Default(&s.SourceDestCheck, true)
}

// decode decodes a provider spec as MCM's driver does.
func decode(raw json.RawMessage) *spec {
	s := &spec{}
	s.Checks = driverkit.Decode(raw, s, lenient.Options{
		Severity: neededAlways, Hint: "ami, region, machineType, iam, networkInterfaces and tags",
	})
	return s
}

// neededAlways are the fields without which nothing can be called.
func neededAlways(path string) cloud.Severity {
	switch top, _, _ := strings.Cut(path, "."); strings.ToLower(top) {
	case "region", "tags", "assumerole":
		return cloud.BlocksAll
	}
	return cloud.BlocksCreate
}
