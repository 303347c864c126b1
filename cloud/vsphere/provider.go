package vsphere

import (
	"strings"

	"github.com/google/uuid"
)

// Names that belong to vSphere.
const (
	ProviderName     = "vsphere"
	CSIDriver        = "csi.vsphere.vmware.com"
	inTreePlugin     = "kubernetes.io/vsphere-volume"
	providerIDScheme = "vsphere://"
)

// decodeProviderID returns the BIOS UUID in a providerID of any known form.
func decodeProviderID(providerID string) (id string, ok bool) {
	rest, ok := strings.CutPrefix(providerID, providerIDScheme)
	if !ok {
		return "", false
	}
	if i := strings.LastIndex(rest, "/"); i >= 0 {
		rest = rest[i+1:]
	}
	return normalUUID(rest)
}

// normalUUID returns a UUID in lower case; ok is false if it is none.
func normalUUID(text string) (string, bool) {
	const length = 36
	parsed, err := uuid.Parse(text)
	if err != nil || len(text) != length {
		return "", false
	}
	return parsed.String(), true
}

// providerID is the form that MCM writes.
func providerID(region, id string) string { return providerIDScheme + region + "/" + id }

// nodeProviderID is the form that the cloud's controller manager writes.
func nodeProviderID(id string) string { return providerIDScheme + id }
