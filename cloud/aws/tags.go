package aws

import (
	"maps"
	"slices"
	"strings"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// tagLimits are what EC2 takes as tags ("Tag your Amazon EC2 resources" in the EC2 user
// guide): any character.
var tagLimits = cloud.TagLimits{KeyMax: 127, ValueMax: 256, Max: 50}

// validateTags checks the tags of the class.
func (s *spec) validateTags() {
	s.CheckTags(cloud.BlocksCreate, "tags", s.Tags, tagLimits)
	for _, key := range slices.Sorted(maps.Keys(s.Tags)) {
		switch {
		case strings.HasPrefix(strings.ToLower(key), "aws:"):
			s.Block("tags["+key+"]", "begins with aws:, which is reserved; give it another key")
		case key == nameTag || key == ownerTag:
			s.Warn("tags["+key+"]", "is set by the manager on every resource and has no effect here; remove it")
		}
	}
}

// tags returns the tags of all that is made for r.
func (s *spec) tags(r cloud.CreateRequest) map[string]string {
	own := map[string]string{nameTag: r.Name, ownerTag: r.OwnerID}
	if s.persistent() {
		own[persistentTag] = persistent
	}
	return driverkit.MergeTags(r.Tags, s.Tags, own)
}
