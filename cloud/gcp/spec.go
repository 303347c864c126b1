package gcp

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/lenient"
)

// The network tags that say what belongs to whom contain one of these, as MCM looks for them.
const (
	clusterMark = "kubernetes-io-cluster-"
	roleMark    = "kubernetes-io-role-"
)

// The words of the API that the driver knows.
const (
	scratch    = "SCRATCH"
	persistent = "PERSISTENT"
	dualStack  = "IPV4_IPV6"
	terminate  = "TERMINATE"
	spot       = "SPOT"
)

// spec is a decoded provider spec. Parse alone modifies it.
type spec struct {
	APIVersion          string            `json:"apiVersion"`
	Kind                string            `json:"kind"`
	CanIPForward        bool              `json:"canIpForward"`
	DeletionProtection  bool              `json:"deletionProtection"`
	Description         *string           `json:"description"`
	Disks               []diskSpec        `json:"disks"`
	GPU                 *gpuSpec          `json:"gpu"`
	InstanceGroups      []string          `json:"instanceGroups"` // ours; unmanaged ones that VMs join, in their zone
	Labels              map[string]string `json:"labels"`
	MachineType         string            `json:"machineType"`
	Metadata            []metadataSpec    `json:"metadata"`
	MinCPUPlatform      string            `json:"minCpuPlatform"`
	NetworkInterfaces   []nicSpec         `json:"networkInterfaces"`
	Region              string            `json:"region"`
	Scheduling          schedulingSpec    `json:"scheduling"`
	ServiceAccounts     []accountSpec     `json:"serviceAccounts"`
	ShieldedInstance    *shieldedSpec     `json:"shieldedInstanceConfiguration"`
	AdvancedMachineSpec *advancedSpec     `json:"advancedMachineFeatures"`
	Tags                []string          `json:"tags"`
	Zone                string            `json:"zone"`
	Zones               []string          `json:"zones"` // ours; further zones of the region that machines may be in

	ownership []string // those of Tags that name the cluster and the role

	driverkit.Checks
}

type diskSpec struct {
	AutoDelete            *bool             `json:"autoDelete"` // true if it is left out
	Boot                  bool              `json:"boot"`
	SizeGB                int64             `json:"sizeGb"`
	Type                  string            `json:"type"`
	Interface             string            `json:"interface"`
	Image                 string            `json:"image"`
	Encryption            *encryptionSpec   `json:"encryption"`
	Labels                map[string]string `json:"labels"`
	ProvisionedIOPS       int64             `json:"provisionedIops"`
	ProvisionedThroughput int64             `json:"provisionedThroughput"`
	StoragePool           string            `json:"storagePool"`
}

type encryptionSpec struct {
	KeyName    string `json:"kmsKeyName"`
	KeyAccount string `json:"kmsKeyServiceAccount"`
}

type gpuSpec struct {
	Type  string `json:"acceleratorType"`
	Count int64  `json:"count"`
}

type metadataSpec struct {
	Key   string  `json:"key"`
	Value *string `json:"value"`
}

type nicSpec struct {
	DisableExternalIP   bool   `json:"disableExternalIP"`
	Network             string `json:"network"`
	Subnetwork          string `json:"subnetwork"`
	StackType           string `json:"stackType"`
	IPv6AccessType      string `json:"ipv6accessType"`
	UseAliasIPs         bool   `json:"useAliasIPs"`
	IPCIDRRange         string `json:"ipCidrRange"`
	SubnetworkRangeName string `json:"subnetworkRangeName"`
}

type schedulingSpec struct {
	AutomaticRestart  bool   `json:"automaticRestart"`
	OnHostMaintenance string `json:"onHostMaintenance"`
	Preemptible       bool   `json:"preemptible"`
	ProvisioningModel string `json:"provisioningModel"` // beside MCM's fields
}

type accountSpec struct {
	Email  string   `json:"email"`
	Scopes []string `json:"scopes"`
}

// shieldedSpec has nil for what the class leaves to the cloud, whose defaults are not all false.
type shieldedSpec struct {
	IntegrityMonitoring *bool `json:"integrityMonitoring"`
	SecureBoot          *bool `json:"secureBoot"`
	VTPM                *bool `json:"vtpm"`
}

type advancedSpec struct {
	NestedVirtualization bool `json:"enableNestedVirtualization"`
}

// decode decodes a provider spec.
func decode(raw json.RawMessage) *spec {
	s := &spec{}
	s.Checks = driverkit.Decode(raw, s, lenient.Options{
		Severity: severity, Hint: "zone, tags, machineType, disks, networkInterfaces and scheduling",
	})
	return s
}

// severity is which calls a field of a wrong type rules out: all of them need the zone and the
// network tags.
func severity(path string) cloud.Severity {
	top, _, _ := strings.Cut(path, ".")
	top, _, _ = strings.Cut(top, "[")
	if strings.EqualFold(top, "zone") || strings.EqualFold(top, "tags") {
		return cloud.BlocksAll
	}
	return cloud.BlocksCreate
}

// complete fills in the defaults and what follows from the fields.
func (s *spec) complete() {
	s.APIVersion, s.Kind = "", "" // say nothing
	for i := range s.Disks {
		d := &s.Disks[i]
		driverkit.Default(&d.AutoDelete, true)
	}
	set := map[string]string{}
	for _, tag := range s.Tags {
		set[tag] = ""
	}
	isCluster := driverkit.Contains(clusterMark)
	s.ownership = driverkit.Ownership(set, isCluster, func(tag string) bool {
		return strings.Contains(tag, roleMark) && !isCluster(tag)
	})
}

// interruptible reports whether Compute Engine may take the VMs away at any time.
func (s *spec) interruptible() bool {
	return s.Scheduling.Preemptible || s.Scheduling.ProvisioningModel == spot
}

// zoneFor is the zone that the VM of r is asked for in.
func (s *spec) zoneFor(r cloud.CreateRequest) string { return cmp.Or(r.Zone, s.Zone) }

// allZones are those that VMs of the class may be in, the usual one first.
func (s *spec) allZones() []string {
	all := []string{s.Zone}
	for _, zone := range s.Zones {
		if !slices.Contains(all, zone) {
			all = append(all, zone)
		}
	}
	return all
}

// offering is what a VM of the class in a zone is made of. VMs of the spot market have room and a quota of their
// own, and so have those with accelerators or in a reservation: that the market is named keeps a shortage to the
// class.
func (s *spec) offering(zone string) cloud.Offering {
	o := cloud.Offering{Region: s.Region, Zone: zone, InstanceType: s.MachineType, CapacityType: "on-demand"}
	if s.interruptible() {
		o.CapacityType = "spot"
	}
	return o
}
