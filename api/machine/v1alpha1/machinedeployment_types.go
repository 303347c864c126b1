package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// MachineDeployment keeps a number of Machines, and rolls changes of their template
// out over MachineSets.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName="mcd"
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas
// +kubebuilder:printcolumn:name="Ready",type=integer,JSONPath=`.status.readyReplicas`,description="Total number of ready machines targeted by this machine deployment."
// +kubebuilder:printcolumn:name="Desired",type=integer,JSONPath=`.spec.replicas`,description="Number of desired machines."
// +kubebuilder:printcolumn:name="Up-to-date",type=integer,JSONPath=`.status.updatedReplicas`,description="Total number of machines that have the desired template spec."
// +kubebuilder:printcolumn:name="Available",type=integer,JSONPath=`.status.availableReplicas`,description="Total number of available machines targeted by this machine deployment."
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="Time since the machine deployment was created."
type MachineDeployment struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the desired state.
	// +optional
	Spec MachineDeploymentSpec `json:"spec,omitempty"`
	// Status is the observed state.
	// +optional
	Status MachineDeploymentStatus `json:"status,omitempty"`
}

// MachineDeploymentList is a list of MachineDeployments.
//
// +kubebuilder:object:root=true
type MachineDeploymentList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []MachineDeployment `json:"items"`
}

// MachineDeploymentSpec is the desired state of a MachineDeployment.
type MachineDeploymentSpec struct {
	// Replicas is the number of desired Machines.
	// +optional
	Replicas int32 `json:"replicas"`
	// Selector of the MachineSets and Machines that belong to this deployment.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// Template of the Machines.
	Template MachineTemplateSpec `json:"template"`
	// Strategy is how old machines are replaced. There is no default.
	// +optional
	Strategy MachineDeploymentStrategy `json:"strategy,omitempty"`
	// MinReadySeconds is accepted and ignored, as in MCM.
	// +optional
	MinReadySeconds int32 `json:"minReadySeconds,omitempty"`
	// RevisionHistoryLimit is how many old MachineSets are kept; nil keeps all.
	// +optional
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`
	// Paused stops rollouts; scaling goes on.
	// +optional
	Paused bool `json:"paused,omitempty"`
	// RollbackTo requests the template of an earlier revision. The controller clears it when the rollback is done.
	// +optional
	RollbackTo *RollbackConfig `json:"rollbackTo,omitempty"`
	// ProgressDeadlineSeconds is how long a rollout may make no progress before it is reported as failed; nil is
	// unlimited.
	// +optional
	ProgressDeadlineSeconds *int32 `json:"progressDeadlineSeconds,omitempty"`
	// AutoPreserveFailedMachineMax is how many failed machines each MachineSet keeps for examination.
	// +optional
	AutoPreserveFailedMachineMax int32 `json:"autoPreserveFailedMachineMax,omitempty"`
}

// RollbackConfig is the revision to roll back to.
type RollbackConfig struct {
	// Revision to roll back to; 0 is the one before the current.
	// +optional
	Revision int64 `json:"revision,omitempty"`
}

// MachineDeploymentStrategy is how old machines are replaced.
type MachineDeploymentStrategy struct {
	// Type is Recreate, RollingUpdate or InPlaceUpdate.
	// +optional
	Type MachineDeploymentStrategyType `json:"type,omitempty"`
	// RollingUpdate is required for the type RollingUpdate.
	// +optional
	RollingUpdate *RollingUpdateMachineDeployment `json:"rollingUpdate,omitempty"`
	// InPlaceUpdate is required for the type InPlaceUpdate.
	// +optional
	InPlaceUpdate *InPlaceUpdateMachineDeployment `json:"inPlaceUpdate,omitempty"`
}

// RollingUpdateMachineDeployment has the limits of a rolling update.
type RollingUpdateMachineDeployment struct {
	UpdateConfiguration `json:",inline"`
}

// InPlaceUpdateMachineDeployment has the limits of an in-place update.
type InPlaceUpdateMachineDeployment struct {
	UpdateConfiguration `json:",inline"`
	// OrchestrationType is Auto or Manual: who selects the nodes to update.
	// +optional
	OrchestrationType OrchestrationType `json:"orchestrationType,omitempty"`
}

// UpdateConfiguration limits how many machines are replaced at a time.
type UpdateConfiguration struct {
	// MaxUnavailable is how many machines may be unavailable: a number, or a percentage, rounded down.
	// +optional
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	// MaxSurge is how many machines may be created above replicas: a number, or a percentage, rounded up.
	// +optional
	MaxSurge *intstr.IntOrString `json:"maxSurge,omitempty"`
}

// MachineDeploymentStatus is the observed state of a MachineDeployment.
type MachineDeploymentStatus struct {
	// ObservedGeneration is the generation of the spec that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Replicas is the number of machines, terminating ones included.
	// +optional
	Replicas int32 `json:"replicas,omitempty"`
	// UpdatedReplicas is the number of machines with the current template.
	// +optional
	UpdatedReplicas int32 `json:"updatedReplicas,omitempty"`
	// ReadyReplicas is the number of machines that are Running.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas,omitempty"`
	// AvailableReplicas is the number of machines that are Running, or Available without a target cluster.
	// +optional
	AvailableReplicas int32 `json:"availableReplicas,omitempty"`
	// PreservedFailedReplicas is the number of Failed machines that are kept for examination.
	// +optional
	PreservedFailedReplicas int32 `json:"preservedFailedReplicas,omitempty"`
	// UnavailableReplicas is the number of desired machines that are not available.
	// +optional
	UnavailableReplicas int32 `json:"unavailableReplicas,omitempty"`
	// Conditions are Available, Progressing, ReplicaFailure and Frozen.
	// +optional
	Conditions []MachineDeploymentCondition `json:"conditions,omitempty"`
	// CollisionCount is the number of name collisions of new MachineSets.
	// +optional
	CollisionCount *int32 `json:"collisionCount,omitempty"`
	// FailedMachines are the machines whose last operation failed.
	// +optional
	FailedMachines []*MachineSummary `json:"failedMachines,omitempty"`

	// Progress has what the MachineDeployment is waiting for. Added by this project.
	// +optional
	Progress *Progress `json:"progress,omitempty"`
}

// MachineDeploymentCondition is a condition of a MachineDeployment.
type MachineDeploymentCondition struct {
	// Type of the condition.
	Type MachineDeploymentConditionType `json:"type"`
	// Status is True, False or Unknown.
	Status ConditionStatus `json:"status"`
	// LastUpdateTime is when the condition was last updated.
	// +optional
	LastUpdateTime metav1.Time `json:"lastUpdateTime,omitempty"`
	// LastTransitionTime is when the status last changed.
	// +optional
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitempty"`
	// Reason is the reason in one word, for programs.
	// +optional
	Reason string `json:"reason,omitempty"`
	// Message is the reason for people.
	// +optional
	Message string `json:"message,omitempty"`
}
