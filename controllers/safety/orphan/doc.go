// Package orphan finds resources in a cloud that have no owner, and removes them.
//
//	            no owner                still no owner, old enough,
//	resource ──────────────▶ suspect ──────────────────────────────▶ read the owners
//	   ▲                        │       confirm delay later            from the API server
//	   └────────────────────────┘                                           │ none
//	          an owner is found                                             ▼
//	                                                    log, Event, removal (or only a report)
//
// A resource with an owner ID is judged by that ID alone. A VM without one was created
// by MCM and is judged by MCM's rule, the machine's name and providerID. All other
// VMs are reported and not removed.
//
// Each API has a collector. A resource with the tag of a Cluster belongs to that of
// Cluster API, and is removed only if the Cluster exists here and is not paused. A
// resource without the tag belongs to that of the native API. Both look for owners of
// either API.
//
// A part that was to outlive its VM when that was made is no orphan. One of which nothing shows
// that is reported, and never removed. Before they judge, scans have what is attached to VMs that
// were made before this was recorded tagged with it.
//
// More orphan VMs than can be expected are not removed until a person has decided: see
// brake.go.
//
// An account is scanned once per period, however many classes share it. A scan that
// fails is retried later and delays no other.
package orphan

import machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"

// Annotations for the collector. It only reads them.
const (
	// holdAnnotation on a Machine or MCMMachine, with any value, keeps all resources that
	// may belong to it: while it is adopted, moved, restored or migrated.
	holdAnnotation = machinev1.HoldAnnotation
	// reportAnnotation on a MachineClass, with any value, makes the collector report
	// orphans and remove none, for the class and for every class with the same account
	// and ownership tags.
	reportAnnotation = machinev1.ReportOrphansAnnotation
	// scanAnnotation on a MachineClass makes the collector scan at once when its value
	// changes.
	scanAnnotation = machinev1.LookForOrphansAnnotation

	// Annotations of Cluster API and clusterctl on paused and moved objects.
	pausedAnnotation = "cluster.x-k8s.io/paused"
	moveAnnotation   = "clusterctl.cluster.x-k8s.io/delete-for-move"
)

// Reasons of Events on MachineClasses.
const (
	eventFound        = "OrphanFound"
	eventRemoved      = "OrphanRemoved"
	eventRemoveFailed = "OrphanRemovalFailed"
	eventScanFailed   = "OrphanScanFailed"
)
