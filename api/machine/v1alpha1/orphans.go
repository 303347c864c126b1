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
	VMs     int      `json:"vms"`     // of the account that carry the ownership tags of the class
	Limit   int      `json:"limit"`   // how many orphans are removed without being asked about
	Count   int      `json:"count"`   // orphan VMs
	Orphans []Orphan `json:"orphans"` // the first of them, sorted by ID
}

// Orphan is a VM that belongs to no object.
// +kubebuilder:object:generate=false
type Orphan struct {
	ID      string `json:"id"` // the cloud's own
	Machine string `json:"machine,omitempty"`
	OwnerID string `json:"ownerID,omitempty"`
	Why     string `json:"why,omitempty"`
}

// OrphanIDs returns the IDs in the value of [ApprovedOrphansAnnotation] or
// [KeptOrphansAnnotation].
func OrphanIDs(value string) []string {
	return slices.DeleteFunc(strings.FieldsFunc(value, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' }),
		func(id string) bool { return id == "" })
}
