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
	// SpecHashAnnotation on a MCMMachineTemplate or MCMConfigTemplate is "<uid>/<hash>" of the spec as it
	// was seen first. Copies of a template carry another object's UID, which does not count.
	SpecHashAnnotation = "mcm.cluster.x-k8s.io/spec-hash"
	// NodeAgentUpdatesAnnotation on a Machine, from the metadata of its
	// MachineDeployment's template, lists what an agent on the node can change
	// without another VM: version, bootstrap, providerSpec.<field>.
	NodeAgentUpdatesAnnotation = "mcm.cluster.x-k8s.io/node-agent-updates"
	// UpdatedInPlaceToAnnotation on a MCMMachine is what an agent has last made of
	// its node. Without it the node is as its VM was made.
	UpdatedInPlaceToAnnotation = "mcm.cluster.x-k8s.io/updated-in-place-to"
	// UpdateTargetAnnotation on a Node is what the update that runs there leads to.
	// Labels and condition of an update count for no other.
	UpdateTargetAnnotation = "mcm.cluster.x-k8s.io/update-target"
	// CordonedForUpdateAnnotation on a Node says that it was cordoned for an
	// update, and not by a person: then it is uncordoned after it.
	CordonedForUpdateAnnotation = "mcm.cluster.x-k8s.io/cordoned-for-update"
)
