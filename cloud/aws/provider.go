package aws

import (
	"regexp"
	"strings"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// ProviderName is MachineClass.provider.
const ProviderName = "AWS"

const (
	providerIDScheme = "aws://"
	settleTime       = time.Minute // EC2 shows what it made sooner or later
	userDataMax      = 16 << 10
)

var nameLimits = cloud.NameLimits{Max: 253} // a Kubernetes name; a tag's value may be 256 long

// Drivers of persistent volumes.
const (
	csiDriver    = "ebs.csi.aws.com"
	inTreePlugin = "kubernetes.io/aws-ebs"
)

// rates are the request and resource token buckets that EC2 gives an account in a
// region by default ("Request throttling for the Amazon EC2 API" in the EC2 developer
// guide): RunInstances 2 requests a second and 5 at once, actions that describe with a
// filter or pages 20 and 100, TerminateInstances 5 and 100. Terminations share
// requests, so their rate is that of the instances: 20 a second and 1000 at once.
// CreateTags and DeleteTags have 10 and 100 each.
var rates = cloud.Rates{
	Create:   cloud.Rate{PerSecond: 2, Burst: 5},
	Get:      cloud.Rate{PerSecond: 20, Burst: 100},
	Delete:   cloud.Rate{PerSecond: 20, Burst: 1000},
	List:     cloud.Rate{PerSecond: 20, Burst: 100},
	Capacity: cloud.Rate{PerSecond: 20, Burst: 100},
	Tags:     cloud.Rate{PerSecond: 10, Burst: 100},
}

// Traits are the constants of EC2.
func (judge) Traits() cloud.Traits {
	return cloud.Traits{
		Name: ProviderName, UserDataMax: userDataMax, Names: nameLimits, Settle: settleTime,
		CreateKey: true, SharedNames: true, Reboots: true, Consoles: true, Rates: rates, Tags: tagLimits, Secret: secretKeys,
	}
}

var instanceID = regexp.MustCompile(`i-[0-9a-zA-Z]+`)

// DecodeProviderID accepts aws:///<region>/<id>, which MCM writes,
// aws:///<zone>/<id>, which stands on the Node, and both without or with another
// number of elements before the id, as older cloud providers wrote them.
func (judge) DecodeProviderID(providerID string) (id string, ok bool) {
	return decodeProviderID(providerID)
}

func decodeProviderID(providerID string) (id string, ok bool) {
	return driverkit.DecodeProviderID(providerID, providerIDScheme+"/", instanceID)
}

// providerID is MCM's form for a region and the Node's for a zone.
func providerID(place, id string) string { return providerIDScheme + "/" + place + "/" + id }

// VolumeID returns the id of an EBS volume.
func (d *Driver) VolumeID(v cloud.Volume) (id string, ok bool) {
	id, ok = driverkit.VolumeHandle(v, csiDriver, inTreePlugin)
	if v.Driver == inTreePlugin { // vol-… or aws://<zone>/vol-…
		id = id[strings.LastIndex(id, "/")+1:]
	}
	return id, ok && id != ""
}
