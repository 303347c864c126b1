package aws

import (
	"encoding/json"
	"strings"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/lenient"
)

// decode decodes a provider spec as MCM's driver does.
func decode(raw json.RawMessage) *spec {
	s := &spec{}
	found := lenient.Decode(raw, s, lenient.Options{
		Severity: neededAlways, Hint: "ami, region, machineType, iam, networkInterfaces and tags",
	})
	s.problems, s.unread = found.Problems, found.Unread
	return s
}

// neededAlways are the fields without which nothing can be called.
func neededAlways(path string) cloud.Severity {
	top, _, _ := strings.Cut(path, ".")
	if strings.EqualFold(top, "region") || strings.EqualFold(top, "tags") {
		return cloud.BlocksAll
	}
	return cloud.BlocksCreate
}
