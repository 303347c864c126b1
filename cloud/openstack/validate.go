package openstack

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// validate adds what is wrong with the values of a spec that decoded. Region
// and tags are needed by every call, everything else only to create.
func (c *config) validate() {
	c.validateRequired()
	c.validateTags()
	c.validateNetworks()
	c.validatePods()
	c.validatePortSecurity()
	c.validateDisk()
	c.validatePools()
	c.warnBlank("spec.securityGroups", c.Spec.SecurityGroups)
	if id := text(c.Spec.ServerGroupID); id != "" {
		c.BlockIf(!serverID.MatchString(strings.ToLower(id)), "spec.serverGroupID",
			"is %q and has to be a UUID; give the id, or the name in serverGroup", id)
		c.WarnIf(c.Spec.ServerGroup != "", "spec.serverGroup", "has no effect beside serverGroupID; remove it")
	}
}

func (c *config) validateRequired() {
	s := &c.Spec
	for _, own := range []struct{ path, value, want string }{
		{"apiVersion", c.APIVersion, specVersion}, {"kind", cmp.Or(c.Kind, specKind), specKind},
	} {
		if own.value != own.want && !c.Wrong(own.path) {
			c.Block(own.path, "is %q and has to be %s", own.value, own.want)
		}
	}
	c.Require(cloud.BlocksAll, "spec.region", s.Region, "name the region, e.g. RegionOne")
	if s.ImageID == "" && !c.Wrong("spec.imageID") {
		c.Require(cloud.BlocksCreate, "spec.imageName", s.ImageName, "name the image, or set imageID")
	}
	c.Require(cloud.BlocksCreate, "spec.flavorName", s.FlavorName, "name the flavor, e.g. m1.medium")
	if !c.without("availabilityZone", s.AvailabilityZone != "", "withoutAvailabilityZone", s.WithoutAvailabilityZone) {
		c.Require(cloud.BlocksCreate, "spec.availabilityZone", s.AvailabilityZone,
			"name the availability zone, e.g. nova, or set withoutAvailabilityZone")
	}
	if !c.without("keyName", s.KeyName != "", "withoutKeyPair", s.WithoutKeyPair) {
		c.Require(cloud.BlocksCreate, "spec.keyName", s.KeyName, "name the key pair, or set withoutKeyPair")
	}
}

// without reports whether the class leaves out a required field on purpose. It warns if
// the field is there all the same.
func (c *config) without(field string, set bool, switchField string, on bool) bool {
	if on && set {
		c.noEffect("spec."+switchField, "because "+field+" is set")
	}
	return on && !set
}

// noEffect warns about a field that another one overrules.
func (c *config) noEffect(path, why string) { c.Warn(path, "has no effect %s; remove it", why) }

func (c *config) validateTags() {
	s := &c.Spec
	c.ownership = driverkit.Ownership(s.Tags, driverkit.Contains(clusterMark), driverkit.Contains(roleMark))
	if c.ownership == nil && !c.Wrong("spec.tags") {
		c.Problems.Add(cloud.BlocksAll, "spec.tags",
			fmt.Sprintf("lacks the ownership tags; add a key %s<cluster> and a key %s<role>", clusterMark, roleMark))
	}
	for _, key := range []string{ownerKey, attemptKey} {
		if _, set := s.Tags[key]; set {
			c.Warn("spec.tags["+key+"]", "is set by the manager and has no effect here; remove it")
		}
	}
	for _, key := range []string{"", ".", ".."} {
		if _, set := s.Tags[key]; set {
			c.Block("spec.tags["+key+"]", "has a key that cannot be part of a URL, so it could never be removed; rename it")
		}
	}
	c.CheckTags(cloud.Warning, "spec.tags", s.Tags, tagLimits)
}

func (c *config) validateNetworks() {
	s := &c.Spec
	switch {
	case s.NetworkID != "" && blank(s.NetworkID):
		c.Block("spec.networkID", "is blank; give the id of a network")
	case s.NetworkID != "" && len(s.Networks) > 0:
		c.Block("spec.networks", "cannot be set together with networkID; remove one of them")
	case s.NetworkID == "" && len(s.Networks) == 0 && !c.Wrong("spec.networkID") && !c.Wrong("spec.networks"):
		c.Block("spec.networks", "is missing; name at least one network, or set networkID")
	}
	for i, n := range s.Networks {
		c.validateNetwork(fmt.Sprintf("spec.networks[%d]", i), n)
	}
	for i, name := range s.Subnets {
		c.Require(cloud.BlocksCreate, fmt.Sprintf("spec.subnets[%d]", i), name, "give the id or the name of a subnet")
	}
	c.validateSubnets()
}

func (c *config) validateNetwork(at string, n network) {
	if c.Wrong(at) {
		return
	}
	if n.ID == "" && n.Name == "" {
		c.Block(at, "has neither id nor name; set one of them")
	}
	if n.ID != "" && n.Name != "" {
		c.Block(at, "has both id and name; remove one of them")
	}
}

func (c *config) validateSubnets() {
	s := &c.Spec
	old := s.SubnetID != nil && !blank(*s.SubnetID)
	c.WarnIf(old, "spec.subnetID", "is deprecated and counts as one more of subnetIDs; write it there")
	c.warnBlank("spec.subnetIDs", s.SubnetIDs)
	switch byID := old || len(sorted(s.SubnetIDs)) > 0; {
	case byID && s.NetworkID == "":
		c.Warn("spec.subnetIDs", "has no effect without networkID; add that, or remove it")
	case byID && len(s.Subnets) > 0:
		c.noEffect("spec.subnets", "beside subnetIDs")
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
		c.Warn("spec.podNetworkCidr", "is deprecated and counts as one more of podNetworkCIDRs; write it there")
		c.cidr("spec.podNetworkCidr", s.PodNetworkCIDR)
	}
	c.warnBlank("spec.podNetworkCIDRs", s.PodNetworkCIDRs)
	set := s.PodNetworkCIDR != "" || len(s.PodNetworkCIDRs) > 0
	without := c.without("podNetworkCIDRs", set, "withoutPodNetworkCIDRs", s.WithoutPodNetworkCIDRs)
	if !set && !without && !s.DisablePortSecurity && !c.Wrong("spec.podNetworkCidr") && !c.Wrong("spec.podNetworkCIDRs") {
		c.Block("spec.podNetworkCIDRs",
			"is missing; list the addresses of pods, e.g. 100.64.0.0/11, or set withoutPodNetworkCIDRs")
	}
	for i, cidr := range s.PodNetworkCIDRs {
		c.cidr(fmt.Sprintf("spec.podNetworkCIDRs[%d]", i), cidr)
	}
}

// warnBlank warns about the entries of a list that say nothing.
func (c *config) warnBlank(path string, values []string) {
	for i, value := range values {
		at := fmt.Sprintf("%s[%d]", path, i)
		c.WarnIf(blank(value) && !c.Wrong(at), at, "is empty and is left out; remove it")
	}
}

// cidr warns about what Neutron will refuse.
func (c *config) cidr(path, text string) {
	if _, err := netip.ParsePrefix(text); err == nil || c.Wrong(path) || blank(text) {
		return
	}
	if _, err := netip.ParseAddr(text); err != nil {
		c.Warn(path, "is %q, which is no address range, and Neutron will refuse it; write one such as 100.64.0.0/11", text)
	}
}

func (c *config) validateDisk() {
	s := &c.Spec
	if s.RootDiskSize < 0 {
		c.Block("spec.rootDiskSize", "is %d and has to be at least 0", s.RootDiskSize)
	}
	if s.RootDiskType != nil && *s.RootDiskType != "" && s.RootDiskSize == 0 && !c.Wrong("spec.rootDiskSize") {
		c.Warn("spec.rootDiskType", "has no effect without rootDiskSize; add that, or remove it")
	}
}

// groups are the names of the security groups that say something.
func (s *spec) groups() []string {
	return slices.DeleteFunc(slices.Clone(s.SecurityGroups), blank)
}
