package migration

import (
	"fmt"
	"slices"
	"strings"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// API is one of the two APIs that machines are managed through.
type API string

// The APIs.
const (
	Native     API = "native"
	ClusterAPI API = "clusterapi"
)

// Other returns the other API.
func (a API) Other() API {
	if a == Native {
		return ClusterAPI
	}
	return Native
}

// Title names the API in a sentence.
func (a API) Title() string {
	if a == Native {
		return "the native API"
	}
	return "Cluster API"
}

// Kind is what a pool is headed by; it has the same name on both APIs.
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
	if !known || !isMachineGroup(group) || name == "" || strings.Contains(name, "/") {
		return Pool{}, fmt.Errorf("%q names no pool: say NAME, machinedeployment/NAME, machineset/NAME or machine/NAME", text)
	}
	return Pool{kind, namespace, name}, nil
}

// kindWords are the words for the kinds of pools, on both APIs.
func kindWords() map[string]Kind {
	return map[string]Kind{
		"machinedeployment": KindDeployment, "machinedeployments": KindDeployment, "mcd": KindDeployment,
		"md":         KindDeployment,
		"machineset": KindSet, "machinesets": KindSet, "mcs": KindSet, "ms": KindSet,
		"machine": KindMachine, "machines": KindMachine, "mc": KindMachine, "ma": KindMachine,
	}
}

// isMachineGroup reports whether a group, maybe with a version before it, is one of the APIs'.
// None is both.
func isMachineGroup(group string) bool {
	return group == "" || strings.HasSuffix("."+group, "."+machinev1.GroupVersion.Group) ||
		strings.HasSuffix("."+group, "."+clusterv1.GroupVersion.Group)
}

func (k Kind) rank() int { return slices.Index([]Kind{KindDeployment, KindSet, KindMachine}, k) }
