package cloud

import "bytes"

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
