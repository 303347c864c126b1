package kubevirt

import (
	"regexp"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// Names that belong to KubeVirt.
const (
	ProviderName     = "kubevirt"
	csiDriver        = "csi.kubevirt.io"
	providerIDScheme = "kubevirt://"
)

// Labels of what is made for a machine.
const (
	machineLabel = "kubevirt.io/vm" // MCM's label for the name of the machine
	ownerLabel   = cloud.TagPrefix + "owner-id"
	clusterLabel = "mcm.gardener.cloud/cluster"
	roleLabel    = "mcm.gardener.cloud/role"
)

// The parts of tags' keys that end with the name of the cluster and of the role, in Gardener's older form.
const (
	clusterMark = "kubernetes.io-cluster-"
	roleMark    = "kubernetes.io-role-"
)

// Labels and annotations of instances that others act on.
const (
	clusterNameLabel = "cluster.x-k8s.io/cluster-name"
	nodeRoleLabel    = "cluster.x-k8s.io/role"
	controlPlane     = "control-plane" // as a role

	bridgeMigrates = "kubevirt.io/allow-pod-bridge-network-live-migration"
)

// Labels of the nodes that VMs run on.
const (
	regionLabel = "topology.kubernetes.io/region"
	zoneLabel   = "topology.kubernetes.io/zone"
)

// userDataMax keeps a Secret with user data below the megabyte that the API server takes.
const userDataMax = 1 << 20

// nameLimits are those of a DNS label: the name is that of the guest's host, and the value of a label.
var nameLimits = cloud.NameLimits{Max: 63, Chars: "a-z0-9-", First: "a-z0-9"}

// tagLimits are those of labels of Kubernetes: a prefix of at most 253 characters, a slash, and a name.
var tagLimits = cloud.TagLimits{
	Keys: "A-Za-z0-9._/-", Values: "A-Za-z0-9._-", KeyMax: 317, ValueMax: 63,
}

// codec leaves tags as they are: labels take all their characters.
var codec = driverkit.TagCodec{Limits: tagLimits}

// vmName is the form of a VM's name.
var vmName = regexp.MustCompile(`[a-z0-9]([-a-z0-9.]*[a-z0-9])?`)

// labelValue is the form of a label's value.
var labelValue = regexp.MustCompile(`([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?`)

// labelKey is the form of a label's key.
var labelKey = regexp.MustCompile(
	`([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?`)

// matches reports whether all of a text is of a form.
func matches(form *regexp.Regexp, text string) bool {
	at := form.FindStringIndex(text)
	return at != nil && at[0] == 0 && at[1] == len(text)
}

// providerID is the form that MCM and the cloud's controller manager write.
func providerID(name string) string { return providerIDScheme + name }
