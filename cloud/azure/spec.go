package azure

import (
	"cmp"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/lenient"
)

// The tags that say what belongs to whom: MCM's driver knows them by how their keys begin.
const (
	clusterPrefix = "kubernetes.io-cluster-"
	rolePrefix    = "kubernetes.io-role-"
)

// spec is a decoded provider spec of MCM's driver for Azure. Nothing modifies it once Parse
// has returned.
type spec struct {
	Location      string            `json:"location"`
	Tags          map[string]string `json:"tags"`
	Properties    properties        `json:"properties"`
	ResourceGroup string            `json:"resourceGroup"`
	Subnet        subnetSpec        `json:"subnetInfo"`
	Cloud         *cloudSpec        `json:"cloudConfiguration"`

	ownership []string // keys of Tags that say what is the class's own, sorted, in small letters
	zone      string
	zones     []string

	driverkit.Checks
}

type cloudSpec struct {
	Name string `json:"name"`
}

type subnetSpec struct {
	VNet          string `json:"vnetName"`
	ResourceGroup string `json:"vnetResourceGroup"` // that of the VMs if it is empty
	Name          string `json:"subnetName"`
}

// properties are those of the VM. Zones, Priority, EvictionPolicy and BillingProfile are not
// MCM's.
type properties struct {
	Hardware            hardwareSpec     `json:"hardwareProfile"`
	Storage             storageSpec      `json:"storageProfile"`
	OS                  osSpec           `json:"osProfile"`
	Network             networkSpec      `json:"networkProfile"`
	AvailabilitySet     *reference       `json:"availabilitySet"`
	ScaleSet            *reference       `json:"virtualMachineScaleSet"`
	MachineSet          *machineSetSpec  `json:"machineSet"` // older than the two
	IdentityID          string           `json:"identityID"`
	Zone                *int             `json:"zone"`
	Zones               []int            `json:"zones"`
	Diagnostics         *diagnosticsSpec `json:"diagnosticsProfile"`
	Security            *securitySpec    `json:"securityProfile"`
	CapacityReservation *reservationSpec `json:"capacityReservation"`
	Priority            string           `json:"priority"`
	EvictionPolicy      string           `json:"evictionPolicy"`
	Billing             *billingProfile  `json:"billingProfile"`
}

type hardwareSpec struct {
	Size string `json:"vmSize"`
}

type storageSpec struct {
	Image      imageSpec  `json:"imageReference"`
	Controller string     `json:"diskControllerType"`
	OSDisk     osDiskSpec `json:"osDisk"`
	DataDisks  []diskSpec `json:"dataDisks"`
}

type imageSpec struct {
	ID               string `json:"id"`
	URN              string `json:"urn"` // publisher:offer:sku:version
	CommunityGallery string `json:"communityGalleryImageID"`
	SharedGallery    string `json:"sharedGalleryImageID"`
	SkipAgreement    bool   `json:"skipMarketplaceAgreement"` // the image has no plan
}

type osDiskSpec struct {
	Name    string          `json:"name"` // has no effect
	Caching string          `json:"caching"`
	Managed managedDiskSpec `json:"managedDisk"`
	SizeGB  int32           `json:"diskSizeGB"`
	Option  string          `json:"createOption"`
}

type managedDiskSpec struct {
	ID       string            `json:"id"` // has no effect
	Type     string            `json:"storageAccountType"`
	Security *diskSecuritySpec `json:"securityProfile"`
}

type diskSecuritySpec struct {
	Encryption string `json:"securityEncryptionType"`
}

type diskSpec struct {
	Name    string     `json:"name"`
	LUN     *int32     `json:"lun"`
	Caching string     `json:"caching"`
	Type    string     `json:"storageAccountType"`
	SizeGB  int32      `json:"diskSizeGB"`
	Image   *imageSpec `json:"imageRef"`
}

// osSpec: computerName, adminPassword and customData have no effect, as with MCM.
type osSpec struct {
	ComputerName string    `json:"computerName"`
	User         string    `json:"adminUsername"`
	Password     string    `json:"adminPassword"`
	CustomData   string    `json:"customData"`
	Linux        linuxSpec `json:"linuxConfiguration"`
}

type linuxSpec struct {
	NoPasswords bool `json:"disablePasswordAuthentication"`
	SSH         struct {
		Key sshKey `json:"publicKeys"`
	} `json:"ssh"`
}

// networkSpec: networkInterfaces have no effect, as with MCM; securityGroupID and
// loadBalancerPoolIDs are not MCM's.
type networkSpec struct {
	Interfaces      json.RawMessage `json:"networkInterfaces"`
	Accelerated     *bool           `json:"acceleratedNetworking"`
	SecurityGroupID string          `json:"securityGroupID"`
	PoolIDs         []string        `json:"loadBalancerPoolIDs"` // backend address pools
}

type machineSetSpec struct {
	ID   string `json:"id"`
	Kind string `json:"kind"` // vmo or availabilityset
}

type diagnosticsSpec struct {
	Enabled    bool   `json:"enabled"`
	StorageURI string `json:"storageURI"`
}

type securitySpec struct {
	Type string `json:"securityType"`
	UEFI *struct {
		TPM        *bool `json:"vtpmEnabled"`
		SecureBoot *bool `json:"secureBootEnabled"`
	} `json:"uefiSettings"`
}

type reservationSpec struct {
	GroupID string `json:"capacityReservationGroupID"`
}

// decode decodes a provider spec.
func decode(raw json.RawMessage) *spec {
	s := &spec{}
	s.Checks = driverkit.Decode(raw, s, lenient.Options{
		Severity: severity, Hint: "location, resourceGroup, tags, subnetInfo and properties",
	})
	p := &s.Properties
	p.ScaleSet, p.AvailabilitySet = named(p.ScaleSet), named(p.AvailabilitySet)
	if m := p.MachineSet; m != nil {
		switch strings.ToLower(m.Kind) {
		case "vmo":
			p.ScaleSet = cmp.Or(p.ScaleSet, named(&reference{ID: m.ID}))
		case "availabilityset":
			p.AvailabilitySet = cmp.Or(p.AvailabilitySet, named(&reference{ID: m.ID}))
		}
	}
	for i := range p.Storage.DataDisks {
		driverkit.Default(&p.Storage.DataDisks[i].LUN, 0) // as MCM's
	}
	if z := s.Properties.Zone; z != nil {
		s.zone = strconv.Itoa(*z)
	}
	for _, z := range s.Properties.Zones {
		s.zones = append(s.zones, strconv.Itoa(z))
	}
	return s
}

// named is a reference that names something; nil for one that does not, which MCM takes as not set.
func named(r *reference) *reference {
	if r == nil || r.ID == "" {
		return nil
	}
	return r
}

// severity is that of a value of a wrong type: without the place and the tags, nothing works.
func severity(path string) cloud.Severity {
	for _, all := range []string{"location", "resourceGroup", "tags", "cloudConfiguration"} {
		if len(path) >= len(all) && strings.EqualFold(path[:len(all)], all) {
			return cloud.BlocksAll
		}
	}
	return cloud.BlocksCreate
}

// place is where VMs are made, as the manager compares places.
func (s *spec) place() place { return places[s.cloudName()] }

func (s *spec) cloudName() string {
	if s.Cloud == nil || s.Cloud.Name == "" {
		return "AzurePublic"
	}
	return s.Cloud.Name
}

// spot reports whether Azure may take the VMs away.
func (s *spec) spot() bool {
	return strings.EqualFold(s.Properties.Priority, prioritySpot) || strings.EqualFold(s.Properties.Priority, "Low")
}

// offering is what a VM of the class in a zone is made of. Spot VMs have room and a quota of their own, and so
// have VMs of a set or of a reservation: that the market is named keeps a shortage to the class.
func (s *spec) offering(zone string) cloud.Offering {
	o := cloud.Offering{
		Region: s.Location, Zone: zone, InstanceType: s.Properties.Hardware.Size, CapacityType: "on-demand",
	}
	if s.spot() {
		o.CapacityType = "spot"
	}
	return o
}

// zoneFor is the zone of the VM of r, empty for none. Zones have numbers, in the topology
// labels of nodes after the location.
func (s *spec) zoneFor(r cloud.CreateRequest) string {
	zone := cmp.Or(r.Zone, s.zone)
	if zone == "" && len(s.zones) > 0 {
		zone = s.zones[0]
	}
	return strings.TrimPrefix(zone, s.Location+"-")
}

// places are the clouds of Azure by the names of MCM's driver.
var places = map[string]place{
	"AzurePublic":     {api: "https://management.azure.com", authority: "https://login.microsoftonline.com"},
	"AzureChina":      {api: "https://management.chinacloudapi.cn", authority: "https://login.chinacloudapi.cn"},
	"AzureGovernment": {api: "https://management.usgovcloudapi.net", authority: "https://login.microsoftonline.us"},
}

// place are the addresses of a cloud.
type place struct{ api, authority string }
