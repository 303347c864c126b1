package azure

import (
	"regexp"
	"strings"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// ProviderName is MachineClass.provider.
const ProviderName = "Azure"

const (
	providerIDScheme = "azure://"
	settleTime       = 30 * time.Second // Resource Manager may show what it made a moment later
	userDataMax      = 1<<16 - 1        // osProfile.customData before base64
)

// nameLimits are what Azure takes as the name of a Linux VM and of its computer. It takes
// capitals too, and sees no difference between them and small letters, but no machine has any.
var nameLimits = cloud.NameLimits{Max: 64, Chars: "a-z0-9.-", First: "a-z0-9"}

// tagLimits are what Azure takes as tags ("Use tags to organize your Azure resources").
var tagLimits = cloud.TagLimits{
	Keys: " -$'-.0-;=@-[]-~\u00a0-\U0010fffd", KeyMax: 512, ValueMax: 256, Max: 50,
}

// codec writes the manager's tags: a slash, which keys may not have, becomes ~2f.
var codec = driverkit.TagCodec{Limits: tagLimits, Escape: '~'}

// The manager's tags by which what is a machine's is found again.
const (
	machineTag = cloud.TagPrefix + "machine"
	ownerTag   = cloud.TagPrefix + "owner-id"
	attemptTag = cloud.TagPrefix + "attempt" // CreateRequest.Token
	createdTag = cloud.TagPrefix + "created" // of network interfaces, which have no time of their own
)

// Drivers of persistent volumes.
const (
	csiDriver    = "disk.csi.azure.com"
	inTreePlugin = "kubernetes.io/azure-disk"
)

// rates are the buckets of "Throttling limits for Compute" and "Understand how Azure Resource
// Manager throttles requests": 500 creations of VMs a minute and region; per subscription,
// region and principal 200 writes at once and 10 a second, the same for deletions, and 250
// reads and 25 a second, of which a Get takes two. Lists of VMs are 300 a minute.
var rates = cloud.Rates{
	Create:   cloud.Rate{PerSecond: 8, Burst: 200},
	Get:      cloud.Rate{PerSecond: 12, Burst: 120},
	Delete:   cloud.Rate{PerSecond: 10, Burst: 200},
	List:     cloud.Rate{PerSecond: 5, Burst: 50},
	Capacity: cloud.Rate{PerSecond: 5, Burst: 50},
	Tags:     cloud.Rate{PerSecond: 10, Burst: 100},
}

// Traits are the constants of Azure.
func (judge) Traits() cloud.Traits {
	return cloud.Traits{
		Name: ProviderName, UserDataMax: userDataMax, Names: nameLimits, Settle: settleTime, NodeNamed: true,
		CreateKey: true, Reboots: true, Consoles: true, Rates: rates, Tags: tagLimits, Secret: secretKeys,
	}
}

var vmName = regexp.MustCompile(`[A-Za-z0-9]([A-Za-z0-9._-]{0,78}[A-Za-z0-9_])?`)

// DecodeProviderID accepts azure:///<location>/<name>, which MCM writes, and
// azure:///subscriptions/…/virtualMachines/<name>, which stands on the Node. Instances of
// uniform scale sets are none of a machine's.
func (judge) DecodeProviderID(providerID string) (id string, ok bool) {
	if strings.Contains(strings.ToLower(providerID), "/virtualmachinescalesets/") {
		return "", false
	}
	return driverkit.DecodeProviderID(providerID, providerIDScheme+"/", vmName)
}

// providerIDs are MCM's form and the Node's. Azure's cloud provider writes the name of the
// resource group in small letters, and the rest as the cloud shows it.
func providerIDs(location, name, id string) (mcm, node string) {
	const group = 4 // of /subscriptions/<id>/resourceGroups/<group>/…
	mcm = providerIDScheme + "/" + location + "/" + name
	parts := strings.Split(id, "/")
	if len(parts) <= group {
		return mcm, ""
	}
	parts[group] = strings.ToLower(parts[group])
	return mcm, providerIDScheme + strings.Join(parts, "/")
}

// VolumeID returns the id of a managed disk.
func (*Driver) VolumeID(v cloud.Volume) (id string, ok bool) {
	return driverkit.VolumeHandle(v, csiDriver, inTreePlugin)
}
