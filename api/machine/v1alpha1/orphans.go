package v1alpha1

import (
	"slices"
	"strings"
)

// Annotations of MachineClasses about orphan VMs that are too many to be expected.
const (
	// HeldOrphansAnnotation on a MachineClass has the orphan VMs that the collector does
	// not remove because they are too many to be expected: a [HeldOrphans] as JSON.
	HeldOrphansAnnotation = "mcm.cluster.x-k8s.io/held-orphans"
	// HeldClusterAPIOrphansAnnotation is the same, of the collector of Cluster API.
	HeldClusterAPIOrphansAnnotation = "mcm.cluster.x-k8s.io/held-orphans-cluster-api"
	// ApprovedOrphansAnnotation on a MachineClass has the IDs of the VMs, separated by
	// commas, that a person wants removed as orphans, however many they are.
	ApprovedOrphansAnnotation = "mcm.cluster.x-k8s.io/approved-orphans"
	// KeptOrphansAnnotation on a MachineClass has the IDs of the VMs, separated by commas,
	// that the orphan collector leaves alone.
	KeptOrphansAnnotation = "mcm.cluster.x-k8s.io/kept-orphans"
)

// HeldOrphans is the value of [HeldOrphansAnnotation].
// +kubebuilder:object:generate=false
type HeldOrphans struct {
	VMs   int `json:"vms"`   // of the account that carry the ownership tags of the class
	Limit int `json:"limit"` // how many orphans are removed without being asked about
	Count int `json:"count"` // orphan VMs
	// ReportOnly is true if the collector removes no orphan, however few they are.
	ReportOnly bool     `json:"reportOnly,omitempty"`
	Classes    []string `json:"classes,omitempty"` // MachineClasses of the account, as namespace/name
	Orphans    []Orphan `json:"orphans"`           // the first of them, sorted by ID
}

// Orphan is a VM that belongs to no object, with what is known of it to make the object
// again. Fields are empty where the cloud does not say.
// +kubebuilder:object:generate=false
type Orphan struct {
	ID      string `json:"id"` // the cloud's own
	Machine string `json:"machine,omitempty"`
	OwnerID string `json:"ownerID,omitempty"`
	Why     string `json:"why,omitempty"`
	// Second is true if a machine exists that has the owner ID or name, and another VM.
	Second bool `json:"second,omitempty"`

	ProviderID     string `json:"providerID,omitempty"`     // in MCM's form
	NodeProviderID string `json:"nodeProviderID,omitempty"` // in the form that the Node has
	Node           string `json:"node,omitempty"`           // name of its Node
	Zone           string `json:"zone,omitempty"`
	ClusterID      string `json:"clusterID,omitempty"` // owner ID of the MCMCluster
}

// OrphanIDs returns the IDs in the value of [ApprovedOrphansAnnotation] or
// [KeptOrphansAnnotation].
func OrphanIDs(value string) []string {
	return slices.DeleteFunc(strings.FieldsFunc(value, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' }),
		func(id string) bool { return id == "" })
}
