package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MachineSet keeps a number of equal Machines.
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

	// Spec says how many of which machines are wanted.
	// +optional
	Spec MachineSetSpec `json:"spec,omitempty"`
	// Status says how many are there.
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

// MachineSetSpec says how many of which machines are wanted.
type MachineSetSpec struct {
	// Replicas wanted. A stored 0 stays visible, so that autoscalers can read it.
	// +optional
	Replicas int32 `json:"replicas"`
	// Selector of the Machines that belong to this set.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// MachineClass is a remnant that only feeds a metric label; template.spec.class is what counts.
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

// MachineSetStatus says how many machines are there.
type MachineSetStatus struct {
	// Replicas is the number of machines, terminating ones included.
	// +optional
	Replicas int32 `json:"replicas,omitempty"`
	// FullyLabeledReplicas carry all labels of the template.
	// +optional
	FullyLabeledReplicas int32 `json:"fullyLabeledReplicas,omitempty"`
	// ReadyReplicas are Running.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas,omitempty"`
	// AvailableReplicas are Running, or Available without a target cluster.
	// +optional
	AvailableReplicas int32 `json:"availableReplicas,omitempty"`
	// PreservedFailedReplicas are Failed and kept for examination.
	// +optional
	PreservedFailedReplicas int32 `json:"preservedFailedReplicas,omitempty"`
	// ObservedGeneration is the generation that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions; the JSON key is MCM's.
	// +optional
	Conditions []MachineSetCondition `json:"machineSetCondition,omitempty"`
	// LastOperation carries only a time.
	// +optional
	LastOperation LastOperation `json:"lastOperation,omitempty"`
	// FailedMachines sums up machines whose last operation failed.
	// +optional
	FailedMachines *[]MachineSummary `json:"failedMachines,omitempty"`
	// AutoPreserveFailedMachineCount is how many machines are annotated as preserved by MCM.
	// +optional
	AutoPreserveFailedMachineCount int32 `json:"autoPreserveFailedMachineCount,omitempty"`

	// Progress says what the set is waiting for. Added by this project.
	// +optional
	Progress *Progress `json:"progress,omitempty"`
}

// MachineSummary sums up a machine whose last operation failed.
type MachineSummary struct {
	// Name of the Machine.
	// +optional
	Name string `json:"name,omitempty"`
	// ProviderID of its VM.
	// +optional
	ProviderID string `json:"providerID,omitempty"`
	// LastOperation that failed.
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
	// Reason in one word.
	// +optional
	Reason string `json:"reason,omitempty"`
	// Message for a person.
	// +optional
	Message string `json:"message,omitempty"`
}
