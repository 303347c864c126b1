package v1alpha1

// Conditions of the kinds of this group, besides Ready, Paused and Deleting,
// which are Cluster API's. They are output: no controller decides anything from
// them.
const (
	// VMProvisionedCondition of an MCMMachine reports whether its VM is running. Ready
	// follows it.
	VMProvisionedCondition = "VMProvisioned"
	// CloudReachableCondition of an MCMMachine reports whether the cloud can be
	// reached. Ready does not depend on it once the VM has been created.
	CloudReachableCondition = "CloudReachable"
	// CredentialsAvailableCondition of an MCMMachine reports whether the cloud accepts
	// the credentials of the class. Ready does not depend on it once the VM has been
	// created.
	CredentialsAvailableCondition = "CredentialsAvailable"
	// NodeSyncedCondition of an MCMMachine reports whether spec.nodeTemplate is applied
	// to the Node. It is absent where the template is empty.
	NodeSyncedCondition = "NodeSynced"
	// UpdatedInPlaceCondition of an MCMMachine is False after an in-place update has
	// failed. It is absent where none ever has.
	UpdatedInPlaceCondition = "UpdatedInPlace"
	// CapacityKnownCondition of an MCMMachineTemplate reports whether its status has
	// the capacity of a node.
	CapacityKnownCondition = "CapacityKnown"
	// SpecUnchangedCondition of an MCMMachineTemplate is False after its spec was
	// edited in place, which existing machines do not follow.
	SpecUnchangedCondition = "SpecUnchanged"

	// FailureDomainsOfferedCondition of an MCMCluster reports whether a MachineClass of the
	// Cluster can honour each of the spec's failure domains.
	FailureDomainsOfferedCondition = "FailureDomainsOffered"
)

// Reasons of the conditions above, of Ready and of Deleting. Those that the native
// API has too are in api/machine/v1alpha1/conditions.go.
const (
	ReasonProvisioned          = "Provisioned"
	ReasonWaitingForMachine    = "WaitingForMachine"
	ReasonWaitingForCluster    = "WaitingForCluster"
	ReasonWaitingForInfra      = "WaitingForClusterInfrastructure"
	ReasonWaitingForBootstrap  = "WaitingForBootstrapData"
	ReasonWaitingForAddresses  = "WaitingForAddresses"
	ReasonWaitingForClass      = "WaitingForClassProtection"
	ReasonBootstrapNotFound    = "BootstrapDataNotFound"
	ReasonInvalidBootstrapData = "InvalidBootstrapData"
	ReasonSecretNotAllowed     = "SecretNotAllowed"
	ReasonInstanceNotFound     = "InstanceNotFound"
	ReasonInstanceDeleting     = "InstanceDeleting"
	ReasonOwnerIDTaken         = "OwnerIDTaken"
	ReasonClassChanged         = "ClassChanged"
	ReasonReachable            = "Reachable"
	ReasonAccepted             = "Accepted"
	ReasonNodeSynced           = "NodeSynced"
	ReasonNodeTemplateInvalid  = "NodeTemplateInvalid"
	ReasonNodeRefused          = "NodeRefused"
	ReasonUpdatedInPlace       = "UpdatedInPlace"
	ReasonNodeAgentFailed      = "NodeAgentFailed"
	ReasonNodeAgentTimedOut    = "NodeAgentTimedOut"
	ReasonUpdateImpossible     = "UpdateImpossible"
	ReasonDeleting             = "Deleting"
	ReasonWaitingForMachines   = "WaitingForMachines"
	ReasonCapacityOfClass      = "CapacityOfClass"
	ReasonCapacityOfCloud      = "CapacityOfCloud"
	ReasonUnchanged            = "Unchanged"
	ReasonEditedInPlace        = "EditedInPlace"
	ReasonReady                = "Ready"
	ReasonOffered              = "Offered"
	ReasonZoneNotInClass       = "ZoneNotInClass"
)
