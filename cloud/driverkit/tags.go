package driverkit

import (
	"strings"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// EncodeTags returns tags with keys for a cloud that takes no slash in a key: each
// cloud.TagPrefix ends with a dash instead. Other keys stay as they are.
func EncodeTags(tags map[string]string) map[string]string {
	return rename(tags, cloud.TagPrefix, encodedPrefix)
}

// DecodeTags returns tags as they were before EncodeTags.
func DecodeTags(tags map[string]string) map[string]string {
	return rename(tags, encodedPrefix, cloud.TagPrefix)
}

var encodedPrefix = strings.TrimSuffix(cloud.TagPrefix, "/") + "-"

func rename(tags map[string]string, from, to string) map[string]string {
	renamed := make(map[string]string, len(tags))
	for key, value := range tags {
		if rest, found := strings.CutPrefix(key, from); found {
			key = to + rest
		}
		renamed[key] = value
	}
	return renamed
}
