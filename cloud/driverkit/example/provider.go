package example

import (
	"regexp"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// ProviderName is MachineClass.provider.
const ProviderName = "Example"

const (
	providerIDPrefix = "example://"
	csiDriver        = "csi.example.com"
	userDataMax      = 32 << 10
)

// nameLimits are what the cloud takes as names of VMs.
var nameLimits = cloud.NameLimits{Max: 63, Chars: "a-z0-9-"}

// tagLimits are what the cloud takes as labels.
var tagLimits = cloud.TagLimits{Keys: "a-z0-9_-", Values: "a-z0-9_-", KeyMax: 63, ValueMax: 63, Max: 64}

// codec writes the manager's tags as labels: a dot becomes _2e, a slash _2f.
var codec = driverkit.TagCodec{Limits: tagLimits, Escape: '_'}

// The tags by which what is a machine's is found again.
const (
	machineTag = cloud.TagPrefix + "machine"
	ownerTag   = cloud.TagPrefix + "owner-id"
)

// Traits are the cloud's constants, with the rates of its documentation.
func (d *Driver) Traits() cloud.Traits {
	read := cloud.Rate{PerSecond: 20, Burst: 100}
	return cloud.Traits{
		Name: ProviderName, UserDataMax: userDataMax, Names: nameLimits, Settle: time.Second, NodeNamed: true,
		CreateKey: true, Tags: tagLimits, Secret: cloud.SecretKeys{Credential: []string{keyEntry}},
		Rates: cloud.Rates{Create: cloud.Rate{PerSecond: 5, Burst: 10}, Get: read, Delete: read, List: read, Capacity: read},
	}
}

var vmID = regexp.MustCompile(`vm-[0-9]+`)

// DecodeProviderID accepts example:///<zone>/<id>, which is also the Node's form.
func (d *Driver) DecodeProviderID(providerID string) (id string, ok bool) {
	return driverkit.DecodeProviderID(providerID, providerIDPrefix, vmID)
}

// VolumeID returns the handle of a volume of the cloud's CSI driver.
func (d *Driver) VolumeID(v cloud.Volume) (id string, ok bool) {
	return driverkit.VolumeHandle(v, csiDriver)
}
