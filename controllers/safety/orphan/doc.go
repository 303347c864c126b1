// Package orphan finds what machines left behind in a cloud, and removes it.
//
//	            no owner                no owner still, old enough,
//	resource ──────────────▶ suspect ──────────────────────────────▶ read the owners
//	   ▲                        │       confirm delay later            from the API server
//	   └────────────────────────┘                                           │ none
//	          an owner shows                                                ▼
//	                                                    log, Event, removal (or only a report)
//
// A resource with an owner id is judged by it alone; a VM without one is older
// than this project and judged by MCM's rule, the machine's name and providerID.
// What is judged by neither is reported and left.
//
// Each door judges its own: a resource with the tag of a Cluster of Cluster API is
// that door's alone, and is taken only if that Cluster lives here, unpaused; a
// resource without it is the native door's. Owners are looked for behind both.
//
// An account is looked at once per period, however many classes share it; a
// look that fails is repeated later and delays no other.
package orphan

import machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"

// Annotations that keep the collector's hands off. They are read, never written.
const (
	// HoldAnnotation on a Machine, with any value, keeps everything that may be its
	// VM: while it is adopted, moved, restored or migrated.
	HoldAnnotation = machinev1.HoldAnnotation
	// ReportAnnotation on a MachineClass, with any value, makes the collector only
	// report what it finds with the class, and with every class that shares the
	// class's account and ownership tags.
	ReportAnnotation = machinev1.ReportOrphansAnnotation
	// LookAnnotation on a MachineClass makes the collector look at once whenever
	// its value changes.
	LookAnnotation = machinev1.LookForOrphansAnnotation

	// What Cluster API and clusterctl put onto objects that others look after.
	pausedAnnotation = "cluster.x-k8s.io/paused"
	moveAnnotation   = "clusterctl.cluster.x-k8s.io/delete-for-move"
)

// Reasons of Events on MachineClasses.
const (
	EventFound        = "OrphanFound"
	EventRemoved      = "OrphanRemoved"
	EventRemoveFailed = "OrphanRemovalFailed"
	EventLookFailed   = "OrphanLookFailed"
)
