package hetzner

import (
	"maps"
	"regexp"
	"slices"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// zoneForm is the form of zones: a location or a data center.
var zoneForm = regexp.MustCompile(`[a-z][a-z0-9]*(-[a-z0-9]+)*`)

// wholly reports whether all of text has a form.
func wholly(form *regexp.Regexp, text string) bool { return form.FindString(text) == text }

// validate adds what is wrong with the values of a spec that decoded, and then writes out its
// defaults.
func (s *spec) validate() {
	s.Require(cloud.BlocksAll, "cluster", s.Cluster, "name the cluster that the servers belong to")
	s.Matches(cloud.BlocksAll, "cluster", s.Cluster, labelValue, "the value of a label, e.g. shoot--a--b")
	s.Require(cloud.BlocksCreate, "zone", s.Zone, "name a location, e.g. fsn1")
	s.Matches(cloud.BlocksCreate, "zone", s.Zone, zoneForm, "a location or a data center, e.g. fsn1 or fsn1-dc14")
	s.Require(cloud.BlocksCreate, "serverType", s.ServerType, "name a server type, e.g. cx23")
	s.Require(cloud.BlocksCreate, "imageName", s.ImageName,
		"name an image, e.g. ubuntu-24.04, or give the id of a snapshot")
	if !s.WithoutSSHKey {
		s.Require(cloud.BlocksCreate, "sshFingerprint", s.SSHFingerprint,
			"give the fingerprint of an SSH key of the project, or set withoutSSHKey")
	}
	s.WarnIf(s.WithoutSSHKey && s.SSHFingerprint != "", "withoutSSHKey",
		"does not count, because sshFingerprint is set; remove one")
	s.Matches(cloud.BlocksCreate, "placementGroupID", s.PlacementGroupID, serverID, "the number of a placement group")
	s.WarnIf(s.PlacementGroupID != "" && s.groupID() == "", "placementGroupID",
		"does not count without floatingPoolName, as with MCM; remove it, or set placementGroupPrefix to the group's name")
	s.WarnIf(s.groupID() != "" && s.PlacementGroupPrefix != "", "placementGroupPrefix",
		"does not count, because placementGroupID is set; remove one")
	s.Matches(cloud.BlocksCreate, "floatingPoolName", s.FloatingPoolName, labelValue, "the value of a label")
	s.validateLists()
	driverkit.Default(&s.AssignPublicIPv4, true)
	driverkit.Default(&s.AssignPublicIPv6, true)
	s.BlockIf(!*s.AssignPublicIPv4 && !*s.AssignPublicIPv6 && len(s.networks()) == 0, "networks",
		"is empty, and the servers have no public address either; name a network, or set assignPublicIPv4")
}

// validateLists checks the labels, and what is named more than once.
func (s *spec) validateLists() {
	for _, key := range slices.Sorted(maps.Keys(s.Labels)) {
		value, path := s.Labels[key], "labels["+key+"]"
		s.BlockIf(!wholly(labelKey, key), path, "has a key that is none of a label; write it as those of Kubernetes")
		s.BlockIf(value != "" && !wholly(labelValue, value), path,
			"is %q, which is no value of a label; write it as those of Kubernetes, with at most 63 characters", value)
		s.WarnIf(slices.Contains(fixedLabels(), key), path, "does not count: the driver sets it; remove it")
	}
	s.duplicates("networks", s.networks())
	s.duplicates("firewalls", s.Firewalls)
}

func (s *spec) duplicates(path string, names []string) {
	for i, name := range names {
		s.BlockIf(name == "", path, "has an empty entry; name it or remove it")
		s.BlockIf(name != "" && slices.Contains(names[:i], name), path, "has %q twice; remove one", name)
	}
}
