package v1alpha1

// Annotations of the infrastructure kinds and of in-place updates. Those that both
// APIs have are in api/machine/v1alpha1/wire.go. docs/annotations.md explains all.
const (
	// MadeFromAnnotation on an MCMMachine is the name of the MachineClass that its VM
	// is created from. It is written before the first create call. The spec may name
	// another class later, for example after an in-place update.
	MadeFromAnnotation = "mcm.cluster.x-k8s.io/made-from-class"
	// CloudStateAnnotation on an MCMMachine is what the driver needs to resume the
	// creation of the VM. It is removed when the VM is complete.
	CloudStateAnnotation = "mcm.cluster.x-k8s.io/cloud-state"
	// IPAddressesAnnotation on an MCMMachine has the addresses from IP pools that its VM
	// was asked for with, each with the length of its prefix, separated by commas. It is
	// written before the first create call.
	IPAddressesAnnotation = "mcm.cluster.x-k8s.io/ip-addresses"
	// RetainedVMsAnnotation on an MCMCluster has the owner IDs, separated by commas,
	// of VMs that were left on purpose. They are not orphans.
	RetainedVMsAnnotation = "mcm.cluster.x-k8s.io/retained-vms"
	// RetainedForVMAnnotation on an IPAddressClaim is the providerID of the VM that stays
	// although its MCMMachine is gone, and that may use the claim's address.
	RetainedForVMAnnotation = "mcm.cluster.x-k8s.io/retained-for-vm"
	// RebootsAnnotation on an MCMRemediation is "<n>/<time>": how often a reboot of the VM was
	// asked for, and when it was last, in RFC 3339. It is written before each call to the cloud.
	RebootsAnnotation = "mcm.cluster.x-k8s.io/reboots"
	// LastRebootAnnotation on an MCMMachine is when a remediation last asked for a reboot of
	// its VM, in RFC 3339. The cooldown begins there.
	LastRebootAnnotation = "mcm.cluster.x-k8s.io/last-reboot"
	// SpecHashAnnotation on an MCMMachineTemplate or MCMConfigTemplate is
	// "<uid>/<hash>" of the spec as it was first observed. On a copy of a template the
	// UID is another object's, and the value does not count.
	SpecHashAnnotation = "mcm.cluster.x-k8s.io/spec-hash"
	// NodeAgentUpdatesAnnotation on a Machine, from the metadata of its
	// MachineDeployment's template, lists what an agent on the node can change
	// without a new VM: version, bootstrap, providerSpec.<field>.
	NodeAgentUpdatesAnnotation = "mcm.cluster.x-k8s.io/node-agent-updates"
	// UpdatedInPlaceToAnnotation on an MCMMachine is the target of the last in-place
	// update that succeeded. Without it the node is as its VM was created.
	UpdatedInPlaceToAnnotation = "mcm.cluster.x-k8s.io/updated-in-place-to"
	// UpdateTargetAnnotation on a Node is the target of the current in-place update.
	// The labels and the condition of an update count for this target only.
	UpdateTargetAnnotation = "mcm.cluster.x-k8s.io/update-target"
	// CordonedForUpdateAnnotation is on a Node that was cordoned for an in-place
	// update, and not by the user: it is uncordoned after the update.
	CordonedForUpdateAnnotation = "mcm.cluster.x-k8s.io/cordoned-for-update"
)
