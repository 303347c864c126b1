package v1alpha1

// Conditions in status.progress.conditions. They are output: no controller decides
// anything from them.
const (
	// ConditionSpecValid is False while the object is invalid. The message has the
	// field and how to correct it. It is absent on valid objects.
	ConditionSpecValid = "SpecValid"
	// ConditionVMReady reports whether the VM of the Machine is running.
	ConditionVMReady = "VMReady"
	// ConditionNodeReady reports whether the Machine's node has joined and is healthy.
	ConditionNodeReady = "NodeReady"
	// ConditionDrained reports the progress of the drain. It is present during a drain.
	ConditionDrained = "Drained"
	// ConditionDeleted is False while the Machine is being deleted. The message has what
	// the deletion waits for.
	ConditionDeleted = "Deleted"
	// ConditionTagsUpdated is False while the tags of the VM cannot be changed to those of
	// the class. It is absent otherwise.
	ConditionTagsUpdated = "TagsUpdated"
	// ConditionBootDataRemoved is False while the boot data that the cloud keeps of the VM
	// cannot be removed although the node has joined. It is absent otherwise.
	ConditionBootDataRemoved = "BootDataRemoved"
	// ConditionProviderIDForm reports which form the providerIDs of a MachineDeployment
	// have, and whether MCM could take over. It is present on a MachineDeployment that
	// has opted in to another form than MCM's, or once did.
	ConditionProviderIDForm = "ProviderIDForm"
	// ConditionReplicasReady reports what a MachineSet or MachineDeployment waits for.
	ConditionReplicasReady = "ReplicasReady"
)

// Reasons of the conditions above.
const (
	ReasonInvalidSpec        = "InvalidSpec"
	ReasonIgnoredValue       = "IgnoredValue" // an annotation or label is invalid and has no effect
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
	ReasonVMOfAnotherOwner   = "VMOfAnotherOwner" // its tags have another owner id than the object
	ReasonCreationTimedOut   = "CreationTimedOut"
	ReasonFrozen             = "Frozen"
	ReasonOutage             = "Outage" // many nodes of the zone or pool became unhealthy together; replacement is paused

	ReasonWaitingForNode       = "WaitingForNode"
	ReasonNodeUnhealthy        = "NodeUnhealthy"
	ReasonNodeNotFound         = "NodeNotFound"
	ReasonNodeShared           = "NodeShared"
	ReasonWaitingForComponents = "WaitingForCriticalComponents"
	ReasonNodeHealthy          = "NodeHealthy"
	ReasonNodeDeletionHeld     = "NodeDeletionHeld" // many nodes are deleted together; the machine is kept
	ReasonWaitingForTurn       = "WaitingForTurn"   // another machine of the deployment is being replaced

	ReasonDraining       = "Draining"
	ReasonEvictionDenied = "EvictionDenied"
	ReasonDrainTimedOut  = "DrainTimedOut"
	ReasonDrained        = "Drained"
	ReasonDrainSkipped   = "DrainSkipped" // it failed, and the deletion is one by force

	ReasonDetachingVolumes = "DetachingVolumes"
	ReasonDeletingVM       = "DeletingVM"
	ReasonDeletingNode     = "DeletingNode"
	ReasonNameInUse        = "NameInUse" // a delayed request could still create another Machine of the name

	ReasonNodeForm      = "NodeForm"
	ReasonRestoringForm = "RestoringMCMForm"

	ReasonHeld        = "HeldForMigration" // the object, or one that it owns, is being migrated to the other API
	ReasonScalingUp   = "ScalingUp"
	ReasonScalingDown = "ScalingDown"
	ReasonReplicasOK  = "ReplicasReady"
)
