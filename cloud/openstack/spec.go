package openstack

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/lenient"
)

// What a provider spec has to call itself.
const (
	specVersion = "openstack.machine.gardener.cloud/v1alpha1"
	specKind    = "MachineProviderConfig"
)

// The keys of metadata that say what belongs to whom. A key counts as the
// cluster's or the role's when it contains the mark, as in MCM's driver. Nova
// takes no slash in a key.
const (
	clusterMark = "kubernetes.io-cluster-"
	roleMark    = "kubernetes.io-role-"
	ownerKey    = "mcm.cluster.x-k8s.io-owner-id"
	attemptKey  = "mcm.cluster.x-k8s.io-attempt"
)

// config is a decoded provider spec of MCM's OpenStack driver. Nothing modifies
// it once Parse has returned.
type config struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Spec       spec   `json:"spec"`

	ownership []string // keys of Tags that name the cluster and the role, sorted

	driverkit.Checks
}

type spec struct {
	ImageID          string            `json:"imageID"`
	ImageName        string            `json:"imageName"`
	Region           string            `json:"region"`
	AvailabilityZone string            `json:"availabilityZone"`
	FlavorName       string            `json:"flavorName"`
	KeyName          string            `json:"keyName"`
	SecurityGroups   []string          `json:"securityGroups"`
	Tags             map[string]string `json:"tags"`
	NetworkID        string            `json:"networkID"`
	Networks         []network         `json:"networks"`
	SubnetID         *string           `json:"subnetID"`
	SubnetIDs        []string          `json:"subnetIDs"`
	PodNetworkCIDR   string            `json:"podNetworkCidr"`
	PodNetworkCIDRs  []string          `json:"podNetworkCIDRs"`
	RootDiskSize     int               `json:"rootDiskSize"` // GiB
	RootDiskType     *string           `json:"rootDiskType"` // nil: Nova makes the volume
	UseConfigDrive   *bool             `json:"useConfigDrive"`
	ServerGroupID    *string           `json:"serverGroupID"`

	// The rest is not MCM's. Where a field above says the same, that one counts.

	Subnets              []string `json:"subnets"`              // ids or names
	ServerGroup          string   `json:"serverGroup"`          // id or name
	FloatingIPPool       string   `json:"floatingIPPool"`       // id or name of an external network
	DefaultSecurityGroup string   `json:"defaultSecurityGroup"` // name; is made where there is none
	DisablePortSecurity  bool     `json:"disablePortSecurity"`
	RegionalProviderIDs  bool     `json:"regionalProviderIDs"` // of Nodes, as with OS_CCM_REGIONAL

	LoadBalancerPools []poolSpec `json:"loadBalancerPools"` // of Octavia

	// Each of these leaves out a field that is required otherwise.
	WithoutKeyPair          bool `json:"withoutKeyPair"`
	WithoutAvailabilityZone bool `json:"withoutAvailabilityZone"`
	WithoutPodNetworkCIDRs  bool `json:"withoutPodNetworkCIDRs"`
}

// poolSpec is a pool of Octavia that the servers are members of.
type poolSpec struct {
	PoolID   string `json:"poolID"`
	Port     int32  `json:"port"`     // of the servers
	SubnetID string `json:"subnetID"` // of the members' addresses; empty: the server's first address
}

type network struct {
	ID         string `json:"id"`
	Name       string `json:"name"`
	PodNetwork bool   `json:"podNetwork"`
}

// setDefaults adds what the deprecated fields say to those that replaced them. Lists of both are sets, in order of
// their values, as with MCM's driver: the first subnet gives the server its first address.
func (c *config) setDefaults() {
	c.Kind = specKind // MCM's decoder knows no other
	s := &c.Spec
	if s.SubnetID != nil {
		s.SubnetIDs = append(s.SubnetIDs, *s.SubnetID)
	}
	s.SubnetIDs, s.PodNetworkCIDRs = sorted(s.SubnetIDs), sorted(append(s.PodNetworkCIDRs, s.PodNetworkCIDR))
	s.SubnetID, s.PodNetworkCIDR = nil, ""
	if s.ServerGroupID != nil && *s.ServerGroupID == "" {
		s.ServerGroupID = nil
	}
	s.dropOverruled()
}

// sorted returns the values that are not blank, each once; nil if there are none.
func sorted(values []string) []string {
	some := slices.DeleteFunc(slices.Clone(values), blank)
	slices.Sort(some)
	if some = slices.Compact(some); len(some) > 0 {
		return some
	}
	return nil
}

func blank(text string) bool { return strings.TrimSpace(text) == "" }

// dropOverruled empties the fields that have no effect beside others.
func (s *spec) dropOverruled() {
	if s.NetworkID != "" && len(s.SubnetIDs) > 0 {
		s.Subnets = nil
	}
	if s.ServerGroupID != nil {
		s.ServerGroup = ""
	}
	if len(s.groups()) > 0 {
		s.DefaultSecurityGroup = ""
	}
	if s.DisablePortSecurity {
		s.SecurityGroups, s.DefaultSecurityGroup, s.PodNetworkCIDRs = nil, "", nil
	}
}

// ownPort reports whether the driver makes a port before the server.
func (s *spec) ownPort() bool { return s.NetworkID != "" && len(s.SubnetIDs) > 0 || len(s.Subnets) > 0 }

// podPort reports whether the port in the first network passes the addresses of pods.
func (s *spec) podPort() bool {
	return s.NetworkID != "" || len(s.Networks) > 0 && s.Networks[0].PodNetwork
}

// zone is where the VM of r is made; empty leaves it to the cloud.
func (c *config) zone(r cloud.CreateRequest) string { return cmp.Or(r.Zone, c.Spec.AvailabilityZone) }

// ownVolume reports whether the driver makes a root volume before the server. An empty type is Cinder's default.
func (s *spec) ownVolume() bool { return s.RootDiskSize > 0 && s.RootDiskType != nil }

// decode decodes a provider spec as MCM's driver does: keys have their case.
func decode(raw json.RawMessage) *config {
	c := &config{}
	c.Checks = driverkit.Decode(raw, c, lenient.Options{
		Severity: neededAlways, CaseSensitive: true, Hint: "apiVersion " + specVersion + ", kind " + specKind + " and spec",
	})
	return c
}

// neededAlways are the fields without which nothing can be called.
func neededAlways(path string) cloud.Severity {
	if slices.Contains([]string{"spec", "spec.region", "spec.tags"}, path) {
		return cloud.BlocksAll
	}
	return cloud.BlocksCreate
}
