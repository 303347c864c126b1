package openstack

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// metadataKey is what Nova takes as a key of metadata.
var metadataKey = regexp.MustCompile(`^[a-zA-Z0-9_:. -]{1,255}$`)

// metadataMax is how long a value of metadata may be.
const metadataMax = 255

// validate adds what is wrong with the values of a spec that decoded. Region
// and tags are needed by every call, everything else only to create.
func (c *config) validate() {
	s := &c.Spec
	if c.APIVersion != specVersion && !c.Wrong("apiVersion") {
		c.Problems.Add(cloud.BlocksCreate, "apiVersion", fmt.Sprintf("is %q and has to be %s", c.APIVersion, specVersion))
	}
	if c.Kind != specKind && !c.Wrong("kind") {
		c.Problems.Add(cloud.BlocksCreate, "kind", fmt.Sprintf("is %q and has to be %s", c.Kind, specKind))
	}
	c.Require(cloud.BlocksAll, "spec.region", s.Region, "name the region, e.g. RegionOne")
	if s.ImageID == "" && !c.Wrong("spec.imageID") {
		c.Require(cloud.BlocksCreate, "spec.imageName", s.ImageName, "name the image, or set imageID")
	}
	c.Require(cloud.BlocksCreate, "spec.flavorName", s.FlavorName, "name the flavor, e.g. m1.medium")
	if !c.without("spec.availabilityZone", s.AvailabilityZone != "", "spec.withoutAvailabilityZone", s.WithoutAvailabilityZone) {
		c.Require(cloud.BlocksCreate, "spec.availabilityZone", s.AvailabilityZone,
			"name the availability zone, e.g. nova, or set withoutAvailabilityZone")
	}
	if !c.without("spec.keyName", s.KeyName != "", "spec.withoutKeyPair", s.WithoutKeyPair) {
		c.Require(cloud.BlocksCreate, "spec.keyName", s.KeyName, "name the key pair, or set withoutKeyPair")
	}
	c.validateTags()
	c.validateNetworks()
	c.validatePods()
	c.validatePortSecurity()
	c.validateDisk()
	if s.ServerGroupID != nil && *s.ServerGroupID != "" && s.ServerGroup != "" {
		c.noEffect("spec.serverGroup", "beside serverGroupID")
	}
	for i, name := range s.SecurityGroups {
		if strings.TrimSpace(name) == "" && !c.Wrong(fmt.Sprintf("spec.securityGroups[%d]", i)) {
			c.Problems.Add(cloud.Warning, fmt.Sprintf("spec.securityGroups[%d]", i), "is empty and is left out; remove it")
		}
	}
}

// without reports whether the class leaves out a required field on purpose. It warns if
// the field is there all the same.
func (c *config) without(field string, set bool, switchField string, on bool) bool {
	if on && set {
		c.noEffect(switchField, "because "+strings.TrimPrefix(field, "spec.")+" is set")
	}
	return on && !set
}

// noEffect warns about a field that another one overrules.
func (c *config) noEffect(path, why string) {
	c.Problems.Add(cloud.Warning, path, "has no effect "+why+"; remove it")
}

func (c *config) validateTags() {
	s := &c.Spec
	c.ownership = driverkit.Ownership(s.Tags, driverkit.Contains(clusterMark), driverkit.Contains(roleMark))
	if c.ownership == nil && !c.Wrong("spec.tags") {
		c.Problems.Add(cloud.BlocksAll, "spec.tags",
			fmt.Sprintf("lacks the ownership tags; add a key %s<cluster> and a key %s<role>", clusterMark, roleMark))
	}
	for key, value := range s.Tags {
		at := "spec.tags[" + key + "]"
		switch {
		case key == ownerKey || key == attemptKey:
			c.Problems.Add(cloud.Warning, at, "is set by the manager and has no effect here; remove it")
		case !metadataKey.MatchString(key):
			c.Problems.Add(cloud.Warning, at, "is no key that Nova takes as metadata: letters, digits, space, and _ : . - "+
				"only, at most 255")
		case len(value) > metadataMax:
			c.Problems.Add(cloud.Warning, at, fmt.Sprintf("has %d characters and Nova takes at most %d", len(value),
				metadataMax))
		}
	}
}

func (c *config) validateNetworks() {
	s := &c.Spec
	switch {
	case s.NetworkID != "" && len(s.Networks) > 0:
		c.Problems.Add(cloud.BlocksCreate, "spec.networks", "cannot be set together with networkID; remove one of them")
	case s.NetworkID == "" && len(s.Networks) == 0 && !c.Wrong("spec.networkID") && !c.Wrong("spec.networks"):
		c.Problems.Add(cloud.BlocksCreate, "spec.networks", "is missing; name at least one network, or set networkID")
	}
	for i, n := range s.Networks {
		c.validateNetwork(fmt.Sprintf("spec.networks[%d]", i), n)
	}
	c.validateSubnets()
}

func (c *config) validateNetwork(at string, n network) {
	if c.Wrong(at) {
		return
	}
	if n.ID == "" && n.Name == "" {
		c.Problems.Add(cloud.BlocksCreate, at, "has neither id nor name; set one of them")
	}
	if n.ID != "" && n.Name != "" {
		c.Problems.Add(cloud.BlocksCreate, at, "has both id and name; remove one of them")
	}
}

func (c *config) validateSubnets() {
	s := &c.Spec
	old := s.SubnetID != nil && *s.SubnetID != ""
	switch {
	case old && len(s.SubnetIDs) > 0:
		c.Problems.Add(cloud.Warning, "spec.subnetID", "has no effect because subnetIDs is there too; remove it")
	case old:
		c.Problems.Add(cloud.Warning, "spec.subnetID", "is deprecated; use subnetIDs")
	}
	if (old || len(s.SubnetIDs) > 0) && s.NetworkID == "" {
		c.Problems.Add(cloud.Warning, "spec.subnetIDs", "has no effect without networkID; add that, or remove it")
	}
	if (old || len(s.SubnetIDs) > 0) && s.NetworkID != "" && len(s.Subnets) > 0 {
		c.noEffect("spec.subnets", "beside subnetIDs")
	}
	for i, name := range s.Subnets {
		c.Require(cloud.BlocksCreate, fmt.Sprintf("spec.subnets[%d]", i), name, "give the id or the name of a subnet")
	}
}

// validatePortSecurity warns about what a port without port security has no use for.
func (c *config) validatePortSecurity() {
	s := &c.Spec
	const why = "together with disablePortSecurity"
	switch {
	case s.DisablePortSecurity && s.DefaultSecurityGroup != "":
		c.noEffect("spec.defaultSecurityGroup", why)
	case len(s.groups()) > 0 && s.DefaultSecurityGroup != "":
		c.noEffect("spec.defaultSecurityGroup", "beside securityGroups")
	}
	if s.DisablePortSecurity && len(s.groups()) > 0 {
		c.noEffect("spec.securityGroups", why)
	}
	if s.DisablePortSecurity && len(s.PodNetworkCIDRs) > 0 {
		c.noEffect("spec.podNetworkCIDRs", why)
	}
}

func (c *config) validatePods() {
	s := &c.Spec
	if s.PodNetworkCIDR != "" {
		if len(s.PodNetworkCIDRs) > 0 {
			c.Problems.Add(cloud.Warning, "spec.podNetworkCidr", "has no effect because podNetworkCIDRs is there too; remove it")
		} else {
			c.Problems.Add(cloud.Warning, "spec.podNetworkCidr", "is deprecated; use podNetworkCIDRs")
			c.cidr("spec.podNetworkCidr", s.PodNetworkCIDR)
		}
	}
	set := s.PodNetworkCIDR != "" || len(s.PodNetworkCIDRs) > 0
	without := c.without("spec.podNetworkCIDRs", set, "spec.withoutPodNetworkCIDRs", s.WithoutPodNetworkCIDRs)
	if !set && !without && !s.DisablePortSecurity && !c.Wrong("spec.podNetworkCidr") && !c.Wrong("spec.podNetworkCIDRs") {
		c.Problems.Add(cloud.BlocksCreate, "spec.podNetworkCIDRs",
			"is missing; list the addresses of pods, e.g. 100.64.0.0/11, or set withoutPodNetworkCIDRs")
	}
	for i, cidr := range s.PodNetworkCIDRs {
		c.cidr(fmt.Sprintf("spec.podNetworkCIDRs[%d]", i), cidr)
	}
}

// cidr warns about what Neutron will refuse.
func (c *config) cidr(path, text string) {
	if _, err := netip.ParsePrefix(text); err == nil || c.Wrong(path) {
		return
	}
	if _, err := netip.ParseAddr(text); err != nil {
		c.Problems.Add(cloud.Warning, path, fmt.Sprintf("is %q, which is no address range, and Neutron will refuse it; "+
			"write one such as 100.64.0.0/11", text))
	}
}

func (c *config) validateDisk() {
	s := &c.Spec
	if s.RootDiskSize < 0 {
		c.Problems.Add(cloud.BlocksCreate, "spec.rootDiskSize", fmt.Sprintf("is %d and has to be at least 0", s.RootDiskSize))
	}
	if s.RootDiskType != nil && *s.RootDiskType != "" && s.RootDiskSize == 0 && !c.Wrong("spec.rootDiskSize") {
		c.Problems.Add(cloud.Warning, "spec.rootDiskType", "has no effect without rootDiskSize; add that, or remove it")
	}
}

// groups are the names of the security groups that say something.
func (s *spec) groups() []string {
	return slices.DeleteFunc(slices.Clone(s.SecurityGroups), func(name string) bool {
		return strings.TrimSpace(name) == ""
	})
}
