package example

import (
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// validate adds what is wrong with the values of a spec that decoded, and then writes out
// its defaults.
func (s *spec) validate() {
	s.Require(cloud.BlocksAll, "url", s.URL, "name the cloud's address, e.g. https://cloud.example.com")
	s.Require(cloud.BlocksCreate, "type", s.Type, "name the type of VMs, e.g. small")
	s.Require(cloud.BlocksCreate, "image", s.Image, "name the image, e.g. linux-1")
	s.Between("diskGiB", s.DiskGiB, 1, 1024)
	s.CheckTags(cloud.BlocksCreate, "labels", s.Labels, tagLimits)
	s.ownership = driverkit.Ownership(s.Labels, driverkit.Begins(clusterLabel), driverkit.Begins(roleLabel))
	if s.ownership == nil && !s.Wrong("labels") {
		s.Problems.Add(cloud.BlocksAll, "labels",
			"lacks the labels that name the owner of the VMs; add a key cluster-<name> and a key role-<name>")
	}
	driverkit.Default(&s.DiskGiB, 20)
}
