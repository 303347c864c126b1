package migration

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	bootstrapv1 "github.com/capmcm/cluster-api-provider-mcm/api/bootstrap/v1alpha1"
	controlplanev1 "github.com/capmcm/cluster-api-provider-mcm/api/controlplane/v1alpha1"
	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// Door is one of the two APIs.
type Door string

// The doors.
const (
	DoorNative     Door = "native"
	DoorClusterAPI Door = "clusterapi"
)

// Other returns the other door.
func (d Door) Other() Door {
	if d == DoorNative {
		return DoorClusterAPI
	}
	return DoorNative
}

// Kind is what a pool is headed by; it has the same name on both doors.
type Kind string

// The kinds of pools.
const (
	KindDeployment Kind = "machinedeployment"
	KindSet        Kind = "machineset" // one that belongs to no MachineDeployment
	KindMachine    Kind = "machine"    // one that belongs to no MachineSet
)

// Pool names what is moved as one.
type Pool struct {
	Kind      Kind   `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// String is "machinedeployment/name", as a command takes it.
func (p Pool) String() string { return string(p.Kind) + "/" + p.Name }

// ParsePool reads what String writes; a name alone is that of a MachineDeployment.
// The kind may be any word that kubectl takes for it, also with its group, as
// kubectl get -o name prints it.
func ParsePool(namespace, text string) (Pool, error) {
	word, name, ok := strings.Cut(text, "/")
	if !ok {
		word, name = string(KindDeployment), text
	}
	word, group, _ := strings.Cut(strings.ToLower(word), ".")
	kind, known := kindWords()[word]
	if !known || !ofADoor(group) || name == "" || strings.Contains(name, "/") {
		return Pool{}, fmt.Errorf("%q names no pool: say NAME, machinedeployment/NAME, machineset/NAME or machine/NAME", text)
	}
	return Pool{kind, namespace, name}, nil
}

// kindWords are the words for the kinds of pools, on both doors.
func kindWords() map[string]Kind {
	return map[string]Kind{
		"machinedeployment": KindDeployment, "machinedeployments": KindDeployment, "mcd": KindDeployment,
		"md":         KindDeployment,
		"machineset": KindSet, "machinesets": KindSet, "mcs": KindSet, "ms": KindSet,
		"machine": KindMachine, "machines": KindMachine, "mc": KindMachine, "ma": KindMachine,
	}
}

// ofADoor reports whether a group, maybe with a version before it, is one of the doors'.
// None is both.
func ofADoor(group string) bool {
	return group == "" || strings.HasSuffix("."+group, "."+machinev1.GroupVersion.Group) ||
		strings.HasSuffix("."+group, "."+clusterv1.GroupVersion.Group)
}

// Native is what there is of a pool on the native door. Lists are sorted by name.
type Native struct {
	Deployment *machinev1.MachineDeployment // nil: none, or the pool has another kind
	Sets       []machinev1.MachineSet
	Machines   []machinev1.Machine
	Classes    map[string]*machinev1.MachineClass // by name: those that the templates and machines use and that exist
}

// Empty reports whether there is nothing.
func (n *Native) Empty() bool { return n.Deployment == nil && len(n.Sets) == 0 && len(n.Machines) == 0 }

// ClusterAPI is what there is of a pool on the Cluster API door. Lists are sorted by name.
type ClusterAPI struct {
	Deployment       *clusterv1.MachineDeployment // nil: none, or the pool has another kind
	Sets             []clusterv1.MachineSet
	Machines         []clusterv1.Machine
	MCMMachines      []infrav1.MCMMachine
	BootstrapSecrets []corev1.Secret // stand for the boot data of machines that have booted
	MachineTemplates []infrav1.MCMMachineTemplate
	ConfigTemplates  []bootstrapv1.MCMConfigTemplate
	HealthCheck      *clusterv1.MachineHealthCheck // nil: none
}

// Empty reports whether there is nothing but templates.
func (c *ClusterAPI) Empty() bool {
	return c.Deployment == nil && len(c.Sets) == 0 && len(c.Machines) == 0 && len(c.MCMMachines) == 0
}

// Cluster is the Cluster that pools are moved to.
type Cluster struct {
	Name         string
	Cluster      *clusterv1.Cluster                      // nil: there is none yet
	Infra        *infrav1.MCMCluster                     // nil: none, or another infrastructure
	ControlPlane *controlplanev1.MCMExternalControlPlane // nil: none, or another one
}

// Scene is what is known of a pool at one time.
type Scene struct {
	Pool       Pool
	Native     Native
	ClusterAPI ClusterAPI
	Cluster    Cluster
	Nodes      map[string]*corev1.Node // by name: those of the pool's machines that exist
	Record     *Record                 // nil: the pool has never been moved

	around *Surroundings // nil: nothing is known of them
}
