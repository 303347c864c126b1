package driverkit

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// DecodeProviderID returns what follows the last slash of a providerID that begins with
// prefix, such as "aws://", if all of it matches id.
func DecodeProviderID(providerID, prefix string, id *regexp.Regexp) (string, bool) {
	rest, ours := strings.CutPrefix(providerID, prefix)
	if !ours {
		return "", false
	}
	last := rest[strings.LastIndexByte(rest, '/')+1:]
	if last == "" || id.FindString(last) != last {
		return "", false
	}
	return last, true
}

// VolumeHandle returns the handle of a volume of one of these drivers: a CSI driver or an
// in-tree plugin.
func VolumeHandle(v cloud.Volume, drivers ...string) (id string, ok bool) {
	if !slices.Contains(drivers, v.Driver) {
		return "", false
	}
	return v.Handle, v.Handle != ""
}

// MiB returns a quantity of memory as people write it: in Gi if it is a whole number of
// them, else in Mi.
func MiB(mib int64) string {
	const gib = 1024
	if mib%gib == 0 {
		return fmt.Sprintf("%dGi", mib/gib)
	}
	return fmt.Sprintf("%dMi", mib)
}

// Architecture returns what Kubernetes calls a processor's architecture; empty for one
// that it does not know.
func Architecture(name string) string {
	switch strings.ToLower(name) {
	case "x86_64", "amd64", "x86":
		return "amd64"
	case "aarch64", "arm64", "arm":
		return "arm64"
	}
	return ""
}
