package gcp

import (
	"regexp"
	"strings"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// ProviderName is MachineClass.provider, as MCM's driver checks it.
const ProviderName = "GCP"

const (
	csiDriver    = "pd.csi.storage.gke.io"
	inTreePlugin = "kubernetes.io/gce-pd"

	// userDataMax is the size of a value in the metadata of an instance.
	userDataMax = 256 << 10

	// settleTime is how long a listing may miss an instance. A look at one by its name is exact.
	settleTime = 30 * time.Second
)

// nameLimits are those of RFC 1035, to which the names of instances conform.
var nameLimits = cloud.NameLimits{Max: 63, Chars: "a-z0-9-", First: "a-z"}

// tagLimits are those of labels. A value of the manager's that is longer is kept in the metadata.
var tagLimits = cloud.TagLimits{Keys: "a-z0-9_-", Values: "a-z0-9_-", KeyMax: 63, ValueMax: 63, Max: 64}

// codec writes the manager's tags as labels: a dot becomes _2e, a slash _2f.
var codec = driverkit.TagCodec{Limits: tagLimits, Escape: '_'}

// The tags by which what is a machine's is found again.
const (
	machineTag = cloud.TagPrefix + "machine"
	ownerTag   = cloud.TagPrefix + "owner-id"
)

// rates divide what Compute Engine allows a project in a minute ("API rate quotas" in its
// documentation, compute/api-quota): 1500 queries that change something and 1500 that read, in
// windows that begin on the minute. The manager leaves a part of either to others in the project.
var rates = cloud.Rates{
	Create:   cloud.Rate{PerSecond: 10, Burst: 200},
	Get:      cloud.Rate{PerSecond: 12, Burst: 300},
	Delete:   cloud.Rate{PerSecond: 8, Burst: 200},
	List:     cloud.Rate{PerSecond: 5, Burst: 100},
	Capacity: cloud.Rate{PerSecond: 2, Burst: 20},
	Tags:     cloud.Rate{PerSecond: 2, Burst: 40},
	Members:  cloud.Rate{PerSecond: 2, Burst: 40},
}

// judge is the half of the driver that makes no calls.
type judge struct{}

// Traits are the constants of Compute Engine.
func (judge) Traits() cloud.Traits {
	return cloud.Traits{
		Name: ProviderName, UserDataMax: userDataMax, Names: nameLimits, Settle: settleTime, NodeNamed: true,
		CreateKey: true, Reboots: true, Consoles: true, Rates: rates, Tags: tagLimits, Secret: secretKeys,
	}
}

// providerID is MCM's form, or with two slashes at its beginning that of the Node.
var providerID = regexp.MustCompile(`^gce:///?([^/]+)/([^/]+)/([^/]+)$`)

// DecodeProviderID accepts gce:///<project>/<zone>/<name>, which MCM writes, and
// gce://<project>/<zone>/<name>, which stands on the Node. The id is <zone>/<name>.
func (judge) DecodeProviderID(id string) (string, bool) {
	_, at, ok := decodeProviderID(id)
	return at.id(), ok
}

// place is where an instance or a disk is.
type place struct{ zone, name string }

// id is how the driver names what is there.
func (p place) id() string {
	if p.name == "" {
		return ""
	}
	return p.zone + "/" + p.name
}

func decodeProviderID(id string) (project string, at place, ok bool) {
	found := providerID.FindStringSubmatch(id)
	if found == nil {
		return "", place{}, false
	}
	return found[1], place{zone: found[2], name: found[3]}, true
}

// regionOf returns the region of a zone: europe-west1 for europe-west1-b.
func regionOf(zone string) string {
	if at := strings.LastIndexByte(zone, '-'); at > 0 {
		return zone[:at]
	}
	return ""
}

// VolumeID returns the name of a persistent disk that an in-tree volume names, or the handle of a
// volume of the CSI driver.
func (judge) VolumeID(v cloud.Volume) (id string, ok bool) {
	return driverkit.VolumeHandle(v, csiDriver, inTreePlugin)
}
