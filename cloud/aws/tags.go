package aws

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// What EC2 allows for tags ("Tag your Amazon EC2 resources" in the EC2 user guide).
// Any character is allowed.
const (
	tagsMax     = 50  // of a resource
	tagKeyMax   = 127 // characters
	tagValueMax = 256 // characters
	tagReserved = "aws:"
)

// validateTags checks the tags of the class, in the order of their keys.
func (s *spec) validateTags() {
	for _, key := range slices.Sorted(maps.Keys(s.Tags)) {
		at := "tags[" + key + "]"
		if strings.HasPrefix(strings.ToLower(key), tagReserved) {
			s.Problems.Add(cloud.BlocksCreate, at, "begins with aws:, which is reserved; give it another key")
		}
		if n := utf8.RuneCountInString(key); n == 0 || n > tagKeyMax {
			s.Problems.Add(cloud.BlocksCreate, at,
				fmt.Sprintf("has a key of %d characters and has to have 1 to %d", n, tagKeyMax))
		}
		if n := utf8.RuneCountInString(s.Tags[key]); n > tagValueMax {
			s.Problems.Add(cloud.BlocksCreate, at,
				fmt.Sprintf("has a value of %d characters and may have %d", n, tagValueMax))
		}
	}
}

// tags returns the tags of all that is made for r.
func (s *spec) tags(r cloud.CreateRequest) map[string]string {
	all := maps.Clone(r.Tags)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, s.Tags)
	all[nameTag] = r.Name
	delete(all, ownerTag)
	if r.OwnerID != "" {
		all[ownerTag] = r.OwnerID
	}
	if s.persistent() {
		all[persistentTag] = persistent
	}
	return all
}

// tagProblems refuses a request whose resources would have more tags than EC2 allows.
func (s *spec) tagProblems(r cloud.CreateRequest) []cloud.Problem {
	n := len(s.tags(r))
	if n <= tagsMax {
		return nil
	}
	return []cloud.Problem{{
		Severity: cloud.BlocksCreate, Field: "providerSpec.tags",
		Message: fmt.Sprintf("are %d together with those of the manager, and may be %d; remove %d", n, tagsMax, n-tagsMax),
	}}
}
