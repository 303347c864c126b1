package openstack

import (
	"encoding/json"
	"slices"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/lenient"
)

// decode decodes a provider spec as MCM's driver does: keys have their case.
func decode(raw json.RawMessage) *config {
	c := &config{}
	found := lenient.Decode(raw, c, lenient.Options{
		Severity: neededAlways, CaseSensitive: true, Hint: "apiVersion " + specVersion + ", kind " + specKind + " and spec",
	})
	c.problems, c.unread = found.Problems, found.Unread
	return c
}

// neededAlways are the fields without which nothing can be called.
func neededAlways(path string) cloud.Severity {
	if slices.Contains([]string{"spec", "spec.region", "spec.tags"}, path) {
		return cloud.BlocksAll
	}
	return cloud.BlocksCreate
}
