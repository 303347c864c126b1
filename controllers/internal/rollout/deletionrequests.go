package rollout

import (
	"strings"
	"time"
)

// A DeletionRequest names a machine that a scaler wants to be deleted first.
type DeletionRequest struct {
	Name string
	// RequestedAt is a time in RFC 3339, as the scaler wrote it.
	RequestedAt string
}

// String returns the request as an entry of the annotation.
func (r DeletionRequest) String() string { return r.Name + "~" + r.RequestedAt }

// ParseDeletionRequests parses the annotation trigger-deletion-by-mcm: entries
// "name~time" separated by commas, or only names from old scalers, which get the
// time untimed. malformed has the other entries.
func ParseDeletionRequests(value string, untimed time.Time) (requests []DeletionRequest, malformed []string) {
	for entry := range strings.SplitSeq(value, ",") {
		entry = strings.TrimSpace(entry)
		name, since, timed := strings.Cut(entry, "~")
		switch {
		case entry == "":
		case !timed:
			requests = append(requests, DeletionRequest{name, untimed.UTC().Format(time.RFC3339)})
		case name == "" || !isTime(since):
			malformed = append(malformed, entry)
		default:
			requests = append(requests, DeletionRequest{name, since})
		}
	}
	return requests, malformed
}

func isTime(value string) bool {
	_, err := time.Parse(time.RFC3339, value)
	return err == nil
}
