package openstack

import (
	"regexp"
	"strings"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// ProviderName is MachineClass.provider.
const ProviderName = "OpenStack"

const (
	providerIDScheme = "openstack://"

	// settleTime is for a request whose answer was lost while Nova was still at
	// work with it. What Nova has accepted it shows at once.
	settleTime = 15 * time.Second

	// userDataMax are as many bytes as are 65535 in base64.
	userDataMax = 65535 / 4 * 3

	// markedNameMax is the room for a machine's name in a description in Neutron, of 255
	// characters, beside the digest of a class and an owner id of 36.
	markedNameMax = 140
)

// Drivers of persistent volumes.
const (
	csiDriver    = "cinder.csi.openstack.org"
	inTreePlugin = "kubernetes.io/cinder"
)

// Traits are the constants of OpenStack.
func (judge) Traits() cloud.Traits {
	return cloud.Traits{
		Name: ProviderName, UserDataMax: userDataMax, Names: nameLimits, Settle: settleTime,
		NodeNamed: true, Reboots: true, Consoles: true, Tags: tagLimits, Secret: secretKeys,
	}
}

// nameLimits are those of a server's name.
var nameLimits = cloud.NameLimits{Max: 255}

// tagLimits are those of metadata.
var tagLimits = cloud.TagLimits{Keys: "a-zA-Z0-9_:. -", KeyMax: 255, ValueMax: 255}

// metadataKey is what Nova takes as a key of metadata.
var metadataKey = regexp.MustCompile(`^[a-zA-Z0-9_:. -]{1,255}$`)

// tagCodec writes the tags of requests: Nova takes no slash in a key.
var tagCodec = driverkit.TagCodec{Limits: tagLimits, Prefix: "mcm.cluster.x-k8s.io-"}

var serverID = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)

// DecodeProviderID accepts openstack:///<region>/<id>, which MCM writes, and
// openstack:///<id> and openstack://<region>/<id>, which stand on Nodes.
func (judge) DecodeProviderID(providerID string) (id string, ok bool) {
	return decodeProviderID(providerID)
}

func decodeProviderID(providerID string) (id string, ok bool) {
	rest, ok := strings.CutPrefix(providerID, providerIDScheme)
	at := strings.LastIndex(rest, "/")
	if !ok || at < 0 {
		return "", false
	}
	id = strings.ToLower(rest[at+1:])
	if !serverID.MatchString(id) {
		return "", false
	}
	return id, true
}

// providerID is MCM's form.
func providerID(region, id string) string { return providerIDScheme + "/" + region + "/" + id }

// nodeProviderID is the form of the cloud controller manager, which names the region where it is told to.
func (c *config) nodeProviderID(region, id string) string {
	if c.Spec.RegionalProviderIDs {
		return providerIDScheme + region + "/" + id
	}
	return providerIDScheme + "/" + id
}

// VolumeID returns the id of a Cinder volume.
func (d *Driver) VolumeID(v cloud.Volume) (id string, ok bool) {
	return driverkit.VolumeHandle(v, csiDriver, inTreePlugin)
}
