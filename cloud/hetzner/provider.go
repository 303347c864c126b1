package hetzner

import (
	"maps"
	"regexp"
	"strconv"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// ProviderName is the driver's name in MachineClass.provider.
const ProviderName = "Hetzner"

const (
	providerIDPrefix = "hcloud://"

	// userDataMax are the bytes that fit whichever way they are sent: Hetzner takes 32 KiB
	// of text, and what is no text is sent as base64.
	userDataMax = 24 << 10

	// settleTime is more than it takes until a listing shows what was made. Hetzner promises
	// nothing; its own tools believe a listing at once.
	settleTime = 10 * time.Second
)

// The labels of servers and floating IPs that MCM's driver sets.
const (
	clusterLabel = "mcm.gardener.cloud/cluster"
	roleLabel    = "mcm.gardener.cloud/role"
	roleNode     = "node"
	regionLabel  = "topology.kubernetes.io/region"
	zoneLabel    = "topology.kubernetes.io/zone"
	poolLabel    = "networking.hcloud.mcm.gardener.cloud/floating-pool"
)

// The labels by which what is a machine's is found again.
const (
	machineLabel = cloud.TagPrefix + "machine"
	ownerLabel   = cloud.TagPrefix + "owner-id"
)

// nameLimits are what Hetzner takes as the name of a server, which is a host name, and as the
// value of a label.
var nameLimits = cloud.NameLimits{Max: 63, Chars: "a-z0-9.-", First: "a-z0-9"}

// tagLimits are those of labels: Hetzner takes what Kubernetes does.
var tagLimits = cloud.TagLimits{
	Keys: "A-Za-z0-9._/-", Values: "A-Za-z0-9._-", KeyMax: 253 + 1 + 63, ValueMax: 63,
}

// codec writes the manager's tags as they are.
var codec = driverkit.TagCodec{Limits: tagLimits}

// The forms of labels, of which tagLimits says only the characters.
var (
	labelKey = regexp.MustCompile(
		`([A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?`)
	labelValue = regexp.MustCompile(`[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?`)
)

// serverID is the form of ids. MCM's driver writes 0 where it lost the id.
var serverID = regexp.MustCompile(`[1-9][0-9]*`)

// Traits are the cloud's constants.
//
// Hetzner's documentation (docs.hetzner.cloud, "Rate Limiting") allows a project 3600 calls an
// hour: a bucket of that size which gets one more each second. Everybody shares it, also the
// cloud controller manager and the CSI driver. A creation and a deletion take two calls or
// three, a listing one for 50 servers, each of which its rate counts: together the rates leave a sixth of the
// bucket to others. What others use is in Hetzner's own count, see meter.
func (judge) Traits() cloud.Traits {
	return cloud.Traits{
		Name: ProviderName, Aliases: []string{"hcloud"}, UserDataMax: userDataMax, Names: nameLimits,
		Settle: settleTime, NodeNamed: true, CreateKey: true, Reboots: true, Tags: tagLimits,
		Secret: cloud.SecretKeys{Credential: []string{tokenEntry}},
		Rates: cloud.Rates{
			Create: cloud.Rate{PerSecond: 0.08, Burst: 250}, Delete: cloud.Rate{PerSecond: 0.08, Burst: 250},
			Get: cloud.Rate{PerSecond: 0.2, Burst: 1000}, List: cloud.Rate{PerSecond: 0.03, Burst: 60},
			Capacity: cloud.Rate{PerSecond: 0.01, Burst: 30}, Tags: cloud.Rate{PerSecond: 0.02, Burst: 100},
		},
	}
}

// DecodeProviderID returns the server id in hcloud:///<zone>/<id>, which MCM writes, or
// hcloud://<id>, which Hetzner's cloud controller manager writes.
func (judge) DecodeProviderID(providerID string) (string, bool) {
	return driverkit.DecodeProviderID(providerID, providerIDPrefix, serverID)
}

// VolumeID returns the id of a volume of Hetzner's CSI driver, which is a number.
func (*Driver) VolumeID(v cloud.Volume) (string, bool) {
	id, ok := driverkit.VolumeHandle(v, "csi.hetzner.cloud")
	if !ok || !wholly(serverID, id) {
		return "", false
	}
	return id, true
}

// fixedLabels are the keys of a class's labels that tell whose a server is, or where.
func fixedLabels() []string {
	return []string{clusterLabel, roleLabel, regionLabel, zoneLabel, poolLabel}
}

// UserTags returns the labels of class that SetTags sets.
func (*Driver) UserTags(class cloud.Class) map[string]string {
	s, ok := class.Spec.(*spec)
	if !ok {
		return map[string]string{}
	}
	return codec.UserTags(s.Labels, fixedLabels()...)
}

// labels returns the labels of the server that r asks for, and what about them does not fit.
func (s *spec) labels(r cloud.CreateRequest) (map[string]string, []cloud.Problem) {
	request, wrong := codec.Encode(r.Tags)
	zone := s.zoneFor(r)
	all := driverkit.MergeTags(request, s.Labels, map[string]string{
		clusterLabel: s.Cluster, roleLabel: roleNode, regionLabel: locationOf(zone), zoneLabel: zone,
		machineLabel: r.Name, ownerLabel: r.OwnerID,
	})
	for key, value := range all {
		if value != "" && !wholly(labelValue, value) {
			wrong = append(wrong, cloud.Problem{
				Severity: cloud.BlocksCreate, Field: "labels[" + key + "]",
				Message: strconv.Quote(value) + " has to begin and end with a letter or digit; change it",
			})
		}
	}
	return all, wrong
}

// addressLabels returns the labels of a floating IP that belongs to a server with these.
func (s *spec) addressLabels(server map[string]string) map[string]string {
	all := maps.Clone(server)
	for key := range s.Labels {
		delete(all, key)
	}
	for _, key := range []string{regionLabel, zoneLabel} {
		delete(all, key)
	}
	all[clusterLabel], all[roleLabel], all[poolLabel] = s.Cluster, roleNode, s.FloatingPoolName
	return all
}
