package v1alpha1

// Annotations about the tags of VMs that exist.
const (
	// UpdateTagsAnnotation on a MachineClass, value "true": when the tags of the class
	// change, those of its VMs follow.
	UpdateTagsAnnotation = "mcm.cluster.x-k8s.io/update-tags"
	// AppliedTagsAnnotation on a Machine or MCMMachine is which tags of its class the VM has
	// got, as JSON: {"keys": [...], "hash": "..."}. Without a hash, a change is not known to be
	// complete, and keys are those that may have been set.
	AppliedTagsAnnotation = "mcm.cluster.x-k8s.io/applied-tags"
)
