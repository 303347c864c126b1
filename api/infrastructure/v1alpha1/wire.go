package v1alpha1

// Annotations that only the infrastructure controllers read and write. Those
// that both doors know stand in api/machine/v1alpha1/wire.go.
const (
	// MadeFromAnnotation on a MCMMachine names the MachineClass that its VM was
	// asked for with. It is written before the first create call. What the spec
	// names later, e.g. after an update in place, is of no account to that VM.
	MadeFromAnnotation = "mcm.cluster.x-k8s.io/made-from-class"
	// CloudStateAnnotation on a MCMMachine is the driver's note to itself about a VM
	// that is being made. It goes when that is complete.
	CloudStateAnnotation = "mcm.cluster.x-k8s.io/cloud-state"
	// RetainedVMsAnnotation on a MCMCluster lists the owner ids, separated by
	// commas, of VMs that were left on purpose. Nobody takes them for orphans.
	RetainedVMsAnnotation = "mcm.cluster.x-k8s.io/retained-vms"
	// SpecHashAnnotation on a MCMMachineTemplate is "<uid>/<hash>" of the spec as it
	// was seen first. Copies of a template carry another object's UID, which does not count.
	SpecHashAnnotation = "mcm.cluster.x-k8s.io/spec-hash"
)
