package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MachineSet keeps a number of Machines with the same template.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName="mcs"
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas
// +kubebuilder:printcolumn:name="Desired",type=integer,JSONPath=`.spec.replicas`,description="Number of desired replicas."
// +kubebuilder:printcolumn:name="Current",type=integer,JSONPath=`.status.replicas`,description="Number of actual replicas."
// +kubebuilder:printcolumn:name="Ready",type=integer,JSONPath=`.status.readyReplicas`,description="Number of ready replicas for this machine set."
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="Time since the machine set was created."
type MachineSet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the desired state.
	// +optional
	Spec MachineSetSpec `json:"spec,omitempty"`
	// Status is the observed state.
	// +optional
	Status MachineSetStatus `json:"status,omitempty"`
}

// MachineSetList is a list of MachineSets.
//
// +kubebuilder:object:root=true
type MachineSetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []MachineSet `json:"items"`
}

// MachineSetSpec is the desired state of a MachineSet.
type MachineSetSpec struct {
	// Replicas is the number of desired Machines.
	// +optional
	Replicas int32 `json:"replicas"`
	// Selector of the Machines that belong to this set.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// MachineClass is obsolete and only feeds metric labels. The class of the Machines is template.spec.class.
	// +optional
	MachineClass ClassSpec `json:"machineClass,omitempty"`
	// Template of the Machines.
	// +optional
	Template MachineTemplateSpec `json:"template,omitempty"`
	// MinReadySeconds is accepted and ignored, as in MCM.
	// +optional
	MinReadySeconds int32 `json:"minReadySeconds,omitempty"`
	// AutoPreserveFailedMachineMax is how many failed machines are kept for examination.
	// +optional
	AutoPreserveFailedMachineMax int32 `json:"autoPreserveFailedMachineMax,omitempty"`
}

// MachineSetStatus is the observed state of a MachineSet.
type MachineSetStatus struct {
	// Replicas is the number of machines, terminating ones included.
	// +optional
	Replicas int32 `json:"replicas,omitempty"`
	// FullyLabeledReplicas is the number of machines with all labels of the template.
	// +optional
	FullyLabeledReplicas int32 `json:"fullyLabeledReplicas,omitempty"`
	// ReadyReplicas is the number of machines that are Running.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas,omitempty"`
	// AvailableReplicas is the number of machines that are Running, or Available without a target cluster.
	// +optional
	AvailableReplicas int32 `json:"availableReplicas,omitempty"`
	// PreservedFailedReplicas is the number of Failed machines that are kept for examination.
	// +optional
	PreservedFailedReplicas int32 `json:"preservedFailedReplicas,omitempty"`
	// ObservedGeneration is the generation of the spec that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions of the MachineSet. The JSON key is MCM's.
	// +optional
	Conditions []MachineSetCondition `json:"machineSetCondition,omitempty"`
	// LastOperation has only a time.
	// +optional
	LastOperation LastOperation `json:"lastOperation,omitempty"`
	// FailedMachines are the machines whose last operation failed.
	// +optional
	FailedMachines *[]MachineSummary `json:"failedMachines,omitempty"`
	// AutoPreserveFailedMachineCount is the number of machines that are preserved automatically.
	// +optional
	AutoPreserveFailedMachineCount int32 `json:"autoPreserveFailedMachineCount,omitempty"`

	// Progress has what the MachineSet is waiting for. Added by this project.
	// +optional
	Progress *Progress `json:"progress,omitempty"`
}

// MachineSummary is a machine whose last operation failed.
type MachineSummary struct {
	// Name of the Machine.
	// +optional
	Name string `json:"name,omitempty"`
	// ProviderID of its VM.
	// +optional
	ProviderID string `json:"providerID,omitempty"`
	// LastOperation is the operation that failed.
	// +optional
	LastOperation LastOperation `json:"lastOperation,omitempty"`
	// OwnerRef is the name of the owning MachineSet.
	// +optional
	OwnerRef string `json:"ownerRef,omitempty"`
}

// MachineSetCondition is a condition of a MachineSet.
type MachineSetCondition struct {
	// Type of the condition.
	Type MachineSetConditionType `json:"type"`
	// Status is True, False or Unknown.
	Status ConditionStatus `json:"status"`
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
