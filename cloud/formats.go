package cloud

import (
	"bytes"
	"encoding/json"
)

// OnlyCloudInit reports whether user data begins as a format that cloud-init alone reads: no
// other agent of an image makes sense of it. A script ("#!") and Ignition's are not among them.
// Source: cloud-init docs, "User-data formats".
func OnlyCloudInit(userData []byte) bool {
	for _, start := range []string{
		"#cloud-config", // also -archive
		"## template: jinja", "Content-Type: multipart/", "MIME-Version:", "#include", "#cloud-boothook", "#part-handler",
	} {
		if bytes.HasPrefix(userData, []byte(start)) {
			return true
		}
	}
	return false
}

// IgnitionVersion returns the version of the specification that an Ignition configuration
// follows; empty if the user data is none.
func IgnitionVersion(userData []byte) string {
	var c struct {
		Ignition struct {
			Version string `json:"version"`
		} `json:"ignition"`
	}
	if json.Unmarshal(userData, &c) != nil {
		return ""
	}
	return c.Ignition.Version
}
