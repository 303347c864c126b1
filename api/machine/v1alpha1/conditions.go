package v1alpha1

// Conditions in status.progress.conditions. They are output: nothing is decided
// from them.
const (
	// ConditionSpecValid is False while the object itself is wrong; the message
	// names the field and the remedy. It is absent on valid objects.
	ConditionSpecValid = "SpecValid"
	// ConditionVMReady reports whether the Machine has its VM.
	ConditionVMReady = "VMReady"
	// ConditionNodeReady reports whether the Machine's node has joined and is healthy.
	ConditionNodeReady = "NodeReady"
	// ConditionDrained says how far draining the node is. Only while it is drained.
	ConditionDrained = "Drained"
	// ConditionDeleted is False while the Machine is being deleted and says what that waits for.
	ConditionDeleted = "Deleted"
	// ConditionProviderIDForm says in which form the machines of a
	// MachineDeployment carry their providerIDs, and whether MCM could take over.
	// Only where it opted in to another form than MCM's, or did.
	ConditionProviderIDForm = "ProviderIDForm"
	// ConditionReplicasReady says what a MachineSet or MachineDeployment waits for.
	ConditionReplicasReady = "ReplicasReady"
)

// Reasons of the conditions above.
const (
	ReasonInvalidSpec        = "InvalidSpec"
	ReasonIgnoredValue       = "IgnoredValue" // an annotation or label that cannot be read does not count
	ReasonClassNotFound      = "ClassNotFound"
	ReasonClassDeleting      = "ClassDeleting"
	ReasonSecretNotFound     = "SecretNotFound"
	ReasonInvalidSecret      = "InvalidSecret"
	ReasonInvalidUserData    = "InvalidUserData"
	ReasonCredentialsRefused = "CredentialsRefused"
	ReasonCapacityExhausted  = "CapacityExhausted"
	ReasonCloudThrottled     = "CloudThrottled"
	ReasonCloudUnavailable   = "CloudUnavailable"
	ReasonCloudError         = "CloudError"
	ReasonTokenUsed          = "TokenUsed"
	ReasonVMPending          = "VMPending"
	ReasonVMRunning          = "VMRunning"
	ReasonVMStopped          = "VMStopped"
	ReasonVMFailed           = "VMFailed"
	ReasonVMNotFound         = "VMNotFound"
	ReasonCreationTimedOut   = "CreationTimedOut"
	ReasonFrozen             = "Frozen"
	ReasonOutage             = "Outage" // nodes of the zone or pool became unhealthy together: replacement paused

	ReasonWaitingForNode       = "WaitingForNode"
	ReasonNodeUnhealthy        = "NodeUnhealthy"
	ReasonNodeNotFound         = "NodeNotFound"
	ReasonNodeShared           = "NodeShared"
	ReasonWaitingForComponents = "WaitingForCriticalComponents"
	ReasonNodeHealthy          = "NodeHealthy"
	ReasonWaitingForTurn       = "WaitingForTurn" // another machine of the deployment is being replaced

	ReasonDraining       = "Draining"
	ReasonEvictionDenied = "EvictionDenied"
	ReasonDrainTimedOut  = "DrainTimedOut"
	ReasonDrained        = "Drained"

	ReasonDetachingVolumes = "DetachingVolumes"
	ReasonDeletingVM       = "DeletingVM"
	ReasonDeletingNode     = "DeletingNode"
	ReasonNameInUse        = "NameInUse" // a late request could make another Machine of the name

	ReasonNodeForm      = "NodeForm"
	ReasonRestoringForm = "RestoringMCMForm"

	ReasonHeld        = "HeldForMigration" // an object below is being moved to another door
	ReasonScalingUp   = "ScalingUp"
	ReasonScalingDown = "ScalingDown"
	ReasonReplicasOK  = "ReplicasReady"
)
