package v1alpha1

import corev1 "k8s.io/api/core/v1"

// Every name that other systems read or write is defined here and nowhere else.

// MachinePhase is the phase of a machine's life.
type MachinePhase string

// The phases. A machine has none until its VM exists or its creation has failed.
const (
	MachinePending                 MachinePhase = "Pending"   // VM exists, node has not joined
	MachineAvailable               MachinePhase = "Available" // VM exists, there is no target cluster
	MachineRunning                 MachinePhase = "Running"   // node has joined and is healthy
	MachineTerminating             MachinePhase = "Terminating"
	MachineUnknown                 MachinePhase = "Unknown" // node is unhealthy or missing
	MachineFailed                  MachinePhase = "Failed"  // a timeout has expired
	MachineCrashLoopBackOff        MachinePhase = "CrashLoopBackOff"
	MachineInPlaceUpdating         MachinePhase = "InPlaceUpdating"
	MachineInPlaceUpdateSuccessful MachinePhase = "InPlaceUpdateSuccessful"
	MachineInPlaceUpdateFailed     MachinePhase = "InPlaceUpdateFailed"
)

// MachineState is the state of an operation.
type MachineState string

// The states of an operation.
const (
	MachineStateProcessing MachineState = "Processing"
	MachineStateFailed     MachineState = "Failed"
	MachineStateSuccessful MachineState = "Successful"
)

// MachineOperationType is the kind of an operation.
type MachineOperationType string

// The kinds of operations.
const (
	MachineOperationCreate        MachineOperationType = "Create"
	MachineOperationUpdate        MachineOperationType = "Update" // MCM defines and never uses it
	MachineOperationInPlaceUpdate MachineOperationType = "InPlaceUpdate"
	MachineOperationDrainNode     MachineOperationType = "DrainNode"
	MachineOperationHealthCheck   MachineOperationType = "HealthCheck"
	MachineOperationDelete        MachineOperationType = "Delete"
)

// ConditionStatus is the status of a condition.
type ConditionStatus string

// The statuses of a condition.
const (
	ConditionTrue    ConditionStatus = "True"
	ConditionFalse   ConditionStatus = "False"
	ConditionUnknown ConditionStatus = "Unknown"
)

// MachineSetConditionType is the type of a MachineSet's condition.
type MachineSetConditionType string

// The conditions of a MachineSet.
const (
	MachineSetReplicaFailure MachineSetConditionType = "ReplicaFailure"
	MachineSetFrozen         MachineSetConditionType = "Frozen"
)

// MachineDeploymentConditionType is the type of a MachineDeployment's condition.
type MachineDeploymentConditionType string

// The conditions of a MachineDeployment.
const (
	MachineDeploymentAvailable      MachineDeploymentConditionType = "Available"
	MachineDeploymentProgressing    MachineDeploymentConditionType = "Progressing"
	MachineDeploymentReplicaFailure MachineDeploymentConditionType = "ReplicaFailure"
	MachineDeploymentFrozen         MachineDeploymentConditionType = "Frozen"
)

// MachineDeploymentStrategyType is how old machines are replaced.
type MachineDeploymentStrategyType string

// The strategies.
const (
	RecreateStrategyType      MachineDeploymentStrategyType = "Recreate"
	RollingUpdateStrategyType MachineDeploymentStrategyType = "RollingUpdate"
	InPlaceUpdateStrategyType MachineDeploymentStrategyType = "InPlaceUpdate"
)

// OrchestrationType is who selects the nodes of an in-place update.
type OrchestrationType string

// The orchestrations.
const (
	OrchestrationTypeAuto   OrchestrationType = "Auto"
	OrchestrationTypeManual OrchestrationType = "Manual"
)

// Kinds in class references and owner references.
const (
	MachineKind           = "Machine"
	MachineSetKind        = "MachineSet"
	MachineDeploymentKind = "MachineDeployment"
	MachineClassKind      = "MachineClass"
)

// Finalizers.
const (
	// Finalizer is that of Machine, MachineSet, MachineDeployment and MachineClass.
	Finalizer       = "machine.sapcloud.io/machine-controller-manager"
	SecretFinalizer = "machine.sapcloud.io/machine-controller"      // Secret
	NodeFinalizer   = "node.machine.sapcloud.io/machine-controller" // Node
)

// Labels on Machines and MachineSets.
const (
	NodeLabel            = "node" // on Machine: the node's name
	NameLabel            = "name" // on Machine: the MachineDeployment's name, given by the template's author
	TemplateHashLabel    = "machine-template-hash"
	FreezeLabel          = "freeze"         // on MachineSet, MachineDeployment: "True"
	ForceDeletionLabel   = "force-deletion" // on Machine, "True"; parsed as a bool
	ForceDrainLabel      = "force-drain"    // on Machine, "True"; parsed as a bool, exact in MCM
	ScaleUpDisabledLabel = "node.machine.sapcloud.io/scale-up-disabled"
)

// Labels on Nodes.
const (
	MachineNameLabel        = "node.gardener.cloud/machine-name"
	CandidateForUpdateLabel = "node.machine.sapcloud.io/candidate-for-update"
	SelectedForUpdateLabel  = "node.machine.sapcloud.io/selected-for-update"
	UpdateResultLabel       = "node.machine.sapcloud.io/update-result" // also on Machine
	UpdateSuccessful        = "successful"
	UpdateFailed            = "failed"
)

// Annotations on Machines, MachineSets and MachineDeployments.
const (
	PriorityAnnotation                  = "machinepriority.machine.sapcloud.io"
	DeleteMachineAnnotation             = "machine.sapcloud.io/delete-machine" // set by the upstream autoscaler
	MarkedForDeletionAnnotation         = "machine.sapcloud.io/marked-for-deletion-time"
	TriggerDeletionAnnotation           = "node.machine.sapcloud.io/trigger-deletion-by-mcm"
	LastReplicaChangeByScalerAnnotation = "machine.sapcloud.io/last-deployment-replica-change-by-scaler-time"
	EffectiveCreationTimeoutAnnotation  = "node.machine.sapcloud.io/effective-creation-timeout"
	LastAppliedNodePreserveAnnotation   = "node.machine.sapcloud.io/last-applied-node-preserve-value"
	UnfreezeAnnotation                  = "safety.machine.sapcloud.io/unfreeze"
	RevisionAnnotation                  = "deployment.kubernetes.io/revision"
	RevisionHistoryAnnotation           = "deployment.kubernetes.io/revision-history"
	DesiredReplicasAnnotation           = "deployment.kubernetes.io/desired-replicas"
	MaxReplicasAnnotation               = "deployment.kubernetes.io/max-replicas"
	LastAppliedConfigurationAnnotation  = "kubectl.kubernetes.io/last-applied-configuration"
	DefaultPriority                     = "3"
	HighestPriority                     = "1"
)

// Annotations on Nodes.
const (
	PreserveAnnotation                   = "node.machine.sapcloud.io/preserve" // also on Machine
	LastAppliedNodeTemplateAnnotation    = "node.machine.sapcloud.io/last-applied-anno-labels-taints"
	LastAppliedVirtualCapacityAnnotation = "node.machine.sapcloud.io/last-applied-virtual-capacity"
	NotManagedAnnotation                 = "node.machine.sapcloud.io/not-managed-by-mcm"
	UpdateFailedReasonAnnotation         = "node.machine.sapcloud.io/update-failed-reason"
	ScaleDownDisabledAnnotation          = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
	ScaleDownDisabledByMCMAnnotation     = "cluster-autoscaler.kubernetes.io/scale-down-disabled-by-mcm"
)

// What the upstream cluster-autoscaler reads, on top of Cluster API's names.
const (
	DeploymentNameLabel     = "cluster.x-k8s.io/deployment-name"             // on MachineSet
	CAPIRevisionAnnotation  = "machinedeployment.clusters.x-k8s.io/revision" // on MachineSet
	NodeMachineAnnotation   = "machine.sapcloud.io/machine"                  // on Node: the Machine's name
	NodeNamespaceAnnotation = "machine.sapcloud.io/cluster-namespace"        // on Node: the Machine's namespace
)

// Annotations on MachineDeployments of the upstream cluster-autoscaler, with
// CAPI_GROUP=machine.sapcloud.io: the bounds that make one a node group, and
// what a node of it will be like.
const (
	NodeGroupMinSizeAnnotation  = "machine.sapcloud.io/cluster-api-autoscaler-node-group-min-size"
	NodeGroupMaxSizeAnnotation  = "machine.sapcloud.io/cluster-api-autoscaler-node-group-max-size"
	CapacityAnnotationPrefix    = "capacity.cluster-autoscaler.kubernetes.io/"
	CapacityCPUAnnotation       = CapacityAnnotationPrefix + "cpu"
	CapacityMemoryAnnotation    = CapacityAnnotationPrefix + "memory"
	CapacityDiskAnnotation      = CapacityAnnotationPrefix + "ephemeral-disk"
	CapacityMaxPodsAnnotation   = CapacityAnnotationPrefix + "maxPods"
	CapacityGPUTypeAnnotation   = CapacityAnnotationPrefix + "gpu-type"
	CapacityGPUCountAnnotation  = CapacityAnnotationPrefix + "gpu-count"
	CapacityNodeLabelAnnotation = CapacityAnnotationPrefix + "labels"
	CapacityNodeTaintAnnotation = CapacityAnnotationPrefix + "taints"
)

// Prefixes of labels and annotations that only one system writes.
const (
	NodeGroupAnnotationPrefix   = "machine.sapcloud.io/cluster-api-autoscaler-node-group-"
	AutoscalingAnnotationPrefix = "machine.sapcloud.io/autoscaling-options-"
	MCMPrefix                   = "machine.sapcloud.io/"
	MCMNodePrefix               = "node.machine.sapcloud.io/"
	MCMSafetyPrefix             = "safety.machine.sapcloud.io/"
	MCMDeploymentPrefix         = "deployment.machine.sapcloud.io/"
	OurPrefix                   = "mcm.cluster.x-k8s.io/"
)

// Values of ProviderIDFormAnnotation.
const (
	ProviderIDFormNode = "node" // the providerID is the Node's
	ProviderIDFormMCM  = "mcm"  // on a Machine: it is to have MCM's form again
)

// Values of PreserveAnnotation.
const (
	PreserveNow        = "now"
	PreserveWhenFailed = "when-failed"
	PreserveAuto       = "auto-preserved"
	PreserveFalse      = "false"
)

// Taints on Nodes. PreferNoScheduleKey also marks a MachineSet as annotation.
const (
	PreferNoScheduleKey             = "deployment.machine.sapcloud.io/prefer-no-schedule"
	CriticalComponentsNotReadyTaint = "node.gardener.cloud/critical-components-not-ready"
	PreservedTaint                  = "node.machine.sapcloud.io/preserved"
)

// Conditions on Nodes, their reasons and messages.
const (
	NodeTerminating   corev1.NodeConditionType = "Terminating"
	NodeInPlaceUpdate corev1.NodeConditionType = "InPlaceUpdate"
	NodePreserved     corev1.NodeConditionType = "Preserved"

	ReasonScaleDown = "ScaleDown"
	ReasonUnhealthy = "Unhealthy"

	ReasonCandidateForUpdate = "CandidateForUpdate"
	ReasonSelectedForUpdate  = "SelectedForUpdate"
	ReasonDrainSuccessful    = "DrainSuccessful"
	ReasonReadyForUpdate     = "ReadyForUpdate"
	ReasonUpdateSuccessful   = "UpdateSuccessful"
	ReasonUpdateFailed       = "UpdateFailed"

	ReasonPreservedByMCM       = "Preserved by MCM."
	ReasonPreservedByUser      = "Preserved by user."
	ReasonPreservationStopped  = "Preservation stopped."
	MessagePreservedDrained    = "Preserved node drained successfully."
	MessagePreservedNotDrained = "Preserved node could not be drained."
)

// Descriptions of a deletion's steps, as they appear in
// status.lastOperation.description. They are output, for people and for an MCM
// that takes over.
const (
	StepGetVMStatus       = "Set machine status to termination. Now, getting VM Status"
	StepDrain             = "Initiate node drain"
	StepDeleteAttachments = "Delete Volume Attachments"
	StepDeleteVM          = "Initiate VM deletion"
	StepDeleteNode        = "Initiate node object deletion"
	StepRemoveFinalizer   = "Initiate machine object finalizer removal"
)

// Bootstrap tokens and placeholders in userData. UserDataSpecKey is ours: an entry with the spec that
// the boot data is made from, in place of UserDataKey.
const (
	UserDataKey               = "userData"
	UserDataSpecKey           = "userDataSpec"
	BootstrapTokenPlaceholder = "<<BOOTSTRAP_TOKEN>>"
	MachineNamePlaceholder    = "<<MACHINE_NAME>>"
)

// Names of the leases that MCM's two processes hold.
const (
	LeaseMachineControllerManager = "machine-controller-manager"
	LeaseMachineController        = "machine-controller"
)

// LeaseHolderLabel on a Lease marks a holder of this project, see [LeaseMark]. It
// only counts while it matches spec.holderIdentity: MCM leaves the label as it is
// when it takes the Lease.
const LeaseHolderLabel = "mcm.cluster.x-k8s.io/holder"

// Reasons of a MachineDeployment's and a MachineSet's conditions.
const (
	ReasonMinimumReplicasAvailable   = "MinimumReplicasAvailable"
	ReasonMinimumReplicasUnavailable = "MinimumReplicasUnavailable"
	ReasonNewMachineSetCreated       = "NewMachineSetCreated"
	ReasonFoundNewMachineSet         = "FoundNewMachineSet"
	ReasonMachineSetUpdated          = "MachineSetUpdated"
	ReasonNewMachineSetAvailable     = "NewMachineSetAvailable"
	ReasonProgressDeadlineExceeded   = "ProgressDeadlineExceeded"
	ReasonDeploymentPaused           = "DeploymentPaused"
	ReasonDeploymentResumed          = "DeploymentResumed"
	ReasonMachineSetCreateError      = "MachineSetCreateError"
	ReasonFailedCreate               = "FailedCreate"
	ReasonFailedDelete               = "FailedDelete"
	ReasonOverShooting               = "OverShootingReplicaCount"
	ReasonMachineDeploymentStateSync = "MachineDeploymentStateSync"
)

// Reasons of Events that MCM emits.
const (
	EventSelectingAll              = "SelectingAll"
	EventScalingMachineSet         = "ScalingMachineSet"
	EventMachineSetCreateError     = "MachineSetCreateError"
	EventDeploymentRollback        = "DeploymentRollback"
	EventRollbackRevisionNotFound  = "DeploymentRollbackRevisionNotFound"
	EventRollbackTemplateUnchanged = "DeploymentRollbackTemplateUnchanged"
	EventFrozeMachineSet           = "FrozeMachineSet"
	EventUnfrozeMachineSet         = "UnfrozeMachineSet"
	EventSuccessfulCreate          = "SuccessfulCreate"
	EventFailedCreate              = "FailedCreate"
	EventSuccessfulDelete          = "SuccessfulDelete"
	EventFailedDelete              = "FailedDelete"
)

// Reasons of Events of this project.
const (
	EventProviderIDsRestored = "ProviderIDsRestored"
	EventHeld                = "HeldForMigration" // the object, or one that it owns, is being migrated to the other API
)

// Annotations and labels of this project. docs/annotations.md explains all.
const (
	// OwnerIDAnnotation is the durable ID that cloud resources are tagged with. It is
	// the object's first UID, or a new UUID, and never changes.
	OwnerIDAnnotation = "mcm.cluster.x-k8s.io/owner-id"
	// TraceIDAnnotation is the ID of the trace that an Event about a machine belongs to.
	TraceIDAnnotation = "mcm.cluster.x-k8s.io/trace-id"
	// CreateAttemptAnnotation is the number of the current attempt to create the VM;
	// absent means 1. The idempotency token follows from it.
	CreateAttemptAnnotation = "mcm.cluster.x-k8s.io/create-attempt"
	// ZoneAnnotation on a Machine or MCMMachine is the zone that was chosen for its VM
	// among those of a class that has several.
	ZoneAnnotation = "mcm.cluster.x-k8s.io/zone"
	// CloudScopeAnnotation on a Machine or MCMMachine names the account of the cloud that its VM
	// was asked for in, or was first seen in. Other accounts are not believed about the VM.
	CloudScopeAnnotation = "mcm.cluster.x-k8s.io/cloud-scope"
	// OrdinalsAnnotation on a MachineSet is its reservation of ordinals, which the names
	// of its Machines follow from.
	OrdinalsAnnotation = "mcm.cluster.x-k8s.io/ordinals"
	// ProviderIDFormAnnotation on a MachineDeployment, value "node", opts in to
	// providerIDs in the form of the Node. A Machine has it while its providerID has, or
	// may have, another form than MCM's.
	ProviderIDFormAnnotation = "mcm.cluster.x-k8s.io/provider-id-form"
	// OfferedCapacityAnnotation on a MachineDeployment has the autoscaler's capacity
	// annotations that the controller has written, and their values.
	OfferedCapacityAnnotation = "mcm.cluster.x-k8s.io/offered-capacity"
	// OutageObservedAnnotation on a Machine that has not joined is when an outage
	// last kept it from being replaced, RFC 3339: it has a health timeout from then
	// on. Without it the machine is replaced as soon as the outage is over.
	OutageObservedAnnotation = "mcm.cluster.x-k8s.io/outage-observed"
	// PreservedDrainedAnnotation on the Node of a Failed Machine that is preserved,
	// value "true": its pods have been moved off. Without it they are moved off again.
	PreservedDrainedAnnotation = "mcm.cluster.x-k8s.io/preserved-drained"
	// HoldAnnotation on a Machine or MCMMachine keeps the orphan collector from its VM
	// while the object is adopted, moved, restored or migrated.
	HoldAnnotation = "mcm.cluster.x-k8s.io/hold-vm"
	// MigrationHoldAnnotation on a Machine, MachineSet or MachineDeployment, any value:
	// the object is being migrated to the other API. No controller of the native API
	// acts on it, even if it is being deleted.
	MigrationHoldAnnotation = "mcm.cluster.x-k8s.io/migration-hold"
	// MigrationHeldAnnotation is the controller's answer to a hold, with its value: all
	// that the controller had begun is complete, and it will not begin anything.
	MigrationHeldAnnotation = "mcm.cluster.x-k8s.io/migration-held"
	// MigratedFromAnnotation on an object that a migration has created is the object of
	// the other API that it replaces: "<Kind>/<name>/<uid>".
	MigratedFromAnnotation = "mcm.cluster.x-k8s.io/migrated-from"
	// MigrationHeldSinceAnnotation is when the hold was answered, RFC 3339. It is
	// written and removed together with the answer, and only a metric reads it.
	MigrationHeldSinceAnnotation = "mcm.cluster.x-k8s.io/migration-held-since"
	// MigrationLabel is on the ConfigMap with the state of the migration of a pool; its
	// value is the kind of the pool.
	MigrationLabel = "mcm.cluster.x-k8s.io/migration"
	// ReportOrphansAnnotation on a MachineClass, any value: orphans of the class are
	// reported and not removed.
	ReportOrphansAnnotation = "mcm.cluster.x-k8s.io/report-orphans-only"
	// LookForOrphansAnnotation on a MachineClass, any new value: look for orphans now.
	LookForOrphansAnnotation = "mcm.cluster.x-k8s.io/look-for-orphans"
	// ReleaseAnnotation on a Machine or MCMMachine that is being deleted, value "true":
	// the finalizer is removed although the class or the credentials are gone, so that
	// the VM cannot be deleted.
	ReleaseAnnotation = "mcm.cluster.x-k8s.io/release-without-vm"
)

// Finalizers, annotations and tags of Cluster API's kinds.
const (
	// MCMMachineFinalizer keeps an MCMMachine until its VM is gone.
	MCMMachineFinalizer = "mcmmachine.infrastructure.cluster.x-k8s.io"
	// MCMClusterFinalizer keeps an MCMCluster until its MCMMachines are gone.
	MCMClusterFinalizer = "mcmcluster.infrastructure.cluster.x-k8s.io"
	// MCMExternalControlPlaneFinalizer keeps an MCMExternalControlPlane until all that
	// was created for it is gone.
	MCMExternalControlPlaneFinalizer = "mcmexternalcontrolplane.controlplane.cluster.x-k8s.io"
	// InUseFinalizer keeps a MachineClass, and the Secrets that it names, while an
	// MCMMachine uses the class. The native API has other finalizers for that.
	InUseFinalizer = "mcm.cluster.x-k8s.io/in-use"
	// AllowedNamespacesAnnotation on a Secret: the namespaces, separated by commas, or
	// *, whose MachineClasses may name it for MCMMachines and MCMConfigs.
	AllowedNamespacesAnnotation = "mcm.cluster.x-k8s.io/allowed-namespaces"
	// RetainVMAnnotation on an MCMMachine, value "true": deleting the object keeps the
	// VM and all that belongs to it.
	RetainVMAnnotation = "mcm.cluster.x-k8s.io/retain-vm"
	// ClusterNamespaceTag on resources in the cloud is the namespace of the Cluster.
	ClusterNamespaceTag = "mcm.cluster.x-k8s.io/cluster-namespace"
	// ClusterNameTag on resources in the cloud is the name of the Cluster.
	ClusterNameTag = "mcm.cluster.x-k8s.io/cluster-name"
	// ClusterIDTag on resources in the cloud is the owner ID of the Cluster's
	// MCMCluster, which does not change with a move.
	ClusterIDTag = "mcm.cluster.x-k8s.io/cluster-id"
	// OnTerminationTag on disks and interfaces in the cloud is what becomes of them when their VM goes: keep or
	// delete. Drivers write it (cloud.OnTerminationTag).
	OnTerminationTag = "mcm.cluster.x-k8s.io/on-termination"
)
