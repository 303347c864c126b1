package vsphere

import (
	"regexp"
	"strings"

	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// Names that belong to vSphere.
const (
	ProviderName     = "vsphere"
	csiDriver        = "csi.vsphere.vmware.com"
	inTreePlugin     = "kubernetes.io/vsphere-volume"
	providerIDScheme = "vsphere://"
)

// biosID is the form of a BIOS UUID.
var biosID = regexp.MustCompile(`(?i)[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// decodeProviderID returns the BIOS UUID in a providerID of any known form.
func decodeProviderID(providerID string) (id string, ok bool) {
	id, ok = driverkit.DecodeProviderID(providerID, providerIDScheme, biosID)
	return strings.ToLower(id), ok
}

// providerID is the form that MCM writes.
func providerID(region, id string) string { return providerIDScheme + region + "/" + id }

// nodeProviderID is the form that the cloud's controller manager writes.
func nodeProviderID(id string) string { return providerIDScheme + id }
