package v1alpha1

// Conditions of the kinds of this group, besides Ready, Paused and Deleting,
// which are Cluster API's. They are output: nothing is decided from them.
const (
	// VMProvisionedCondition of a MCMMachine reports whether it has its VM. Ready follows it.
	VMProvisionedCondition = "VMProvisioned"
	// CloudReachableCondition of a MCMMachine reports whether the cloud answers about
	// the VM. Ready does not depend on it once the VM has been made.
	CloudReachableCondition = "CloudReachable"
	// CredentialsAvailableCondition of a MCMMachine reports whether the cloud accepts
	// the credentials of the class. Ready does not depend on it once the VM has been made.
	CredentialsAvailableCondition = "CredentialsAvailable"
	// NodeSyncedCondition of a MCMMachine reports whether the Node is as spec.nodeTemplate
	// asks. It is absent where that asks for nothing.
	NodeSyncedCondition = "NodeSynced"
	// UpdatedInPlaceCondition of a MCMMachine is False once an update in place has
	// failed, and says why. It is absent where none ever has.
	UpdatedInPlaceCondition = "UpdatedInPlace"
	// CapacityKnownCondition of a MCMMachineTemplate reports whether its status tells what a node will offer.
	CapacityKnownCondition = "CapacityKnown"
	// SpecUnchangedCondition of a MCMMachineTemplate is False once its spec was edited
	// in place, which no machine follows.
	SpecUnchangedCondition = "SpecUnchanged"
)

// Reasons of the conditions above, of Ready and of Deleting. Those that the
// native door has too stand in api/machine/v1alpha1/conditions.go.
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
)
