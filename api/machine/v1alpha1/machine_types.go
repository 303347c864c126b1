package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Machine is one VM and the node it becomes.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName="mc"
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.currentStatus.phase`,description="Current status of the machine."
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="Time since the machine was created."
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.metadata.labels.node`,description="Node backing the machine object"
// +kubebuilder:printcolumn:name="ProviderID",type=string,JSONPath=`.spec.providerID`,description="ProviderID of the infra instance backing the machine object",priority=1
type Machine struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the desired state.
	// +optional
	Spec MachineSpec `json:"spec,omitempty"`
	// Status is the observed state.
	// +optional
	Status MachineStatus `json:"status,omitempty"`
}

// MachineList is a list of Machines.
//
// +kubebuilder:object:root=true
type MachineList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Machine `json:"items"`
}

// MachineTemplateSpec is the template for the Machines of a MachineSet.
type MachineTemplateSpec struct {
	// Labels and annotations of the Machines.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// Spec of the Machines.
	// +optional
	Spec MachineSpec `json:"spec,omitempty"`
}

// MachineSpec is the desired state of a Machine.
type MachineSpec struct {
	// Class refers to the MachineClass that the VM is created from.
	// +optional
	Class ClassSpec `json:"class,omitempty"`
	// ProviderID is the ID of the VM in the cloud. The controller sets it when the VM exists. A Machine that has a
	// providerID never creates another VM.
	// +optional
	ProviderID string `json:"providerID,omitempty"`
	// NodeTemplateSpec has the labels, annotations and taints of the node.
	// +optional
	NodeTemplateSpec NodeTemplateSpec `json:"nodeTemplate,omitempty"`
	// Timeouts and limits of this Machine. Where they are empty, the manager's flags apply.
	// +optional
	*MachineConfiguration `json:",inline"`
}

// ClassSpec refers to a MachineClass in the Machine's namespace.
type ClassSpec struct {
	// APIGroup of the class, machine.sapcloud.io.
	// +optional
	APIGroup string `json:"apiGroup,omitempty"`
	// Kind of the class, MachineClass.
	// +optional
	Kind string `json:"kind,omitempty"`
	// Name of the class.
	// +optional
	Name string `json:"name,omitempty"`
}

// NodeTemplateSpec is the template for a node. Only labels, annotations and
// spec.taints are applied.
type NodeTemplateSpec struct {
	// Labels and annotations of the node.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// Spec of the node. Only taints are applied.
	// +optional
	Spec corev1.NodeSpec `json:"spec,omitempty"`
}

// MachineConfiguration has the timeouts and limits that a Machine can override.
type MachineConfiguration struct {
	// MachineDrainTimeout is how long the node is drained before its pods are deleted by force.
	// +optional
	MachineDrainTimeout *metav1.Duration `json:"drainTimeout,omitempty"`
	// MachineHealthTimeout is how long a machine may be Unknown before it becomes Failed.
	// +optional
	MachineHealthTimeout *metav1.Duration `json:"healthTimeout,omitempty"`
	// MachineCreationTimeout is how long a machine may take to become Running.
	// +optional
	MachineCreationTimeout *metav1.Duration `json:"creationTimeout,omitempty"`
	// MachineInPlaceUpdateTimeout is how long an in-place update may take.
	// +optional
	MachineInPlaceUpdateTimeout *metav1.Duration `json:"inPlaceUpdateTimeout,omitempty"`
	// DisableHealthTimeout keeps an unhealthy machine Unknown, so that it never becomes Failed. It is meant for machines
	// that are updated in place.
	// +optional
	DisableHealthTimeout *bool `json:"disableHealthTimeout,omitempty"`
	// MaxEvictRetries is how often a refused eviction is retried before the pod is deleted.
	// +optional
	MaxEvictRetries *int32 `json:"maxEvictRetries,omitempty"`
	// NodeConditions is a comma-separated list of node conditions. The machine is unhealthy unless all of them are False.
	// +optional
	NodeConditions *string `json:"nodeConditions,omitempty"`
	// MachinePreserveTimeout is how long a preserved machine is kept.
	// +optional
	MachinePreserveTimeout *metav1.Duration `json:"machinePreserveTimeout,omitempty"`
}

// MachineStatus is the observed state of a Machine.
type MachineStatus struct {
	// Addresses of the VM. They are only set where there is no target cluster.
	// +optional
	Addresses []corev1.NodeAddress `json:"addresses,omitempty"`
	// Conditions of the node, as it reports them.
	// +optional
	Conditions []corev1.NodeCondition `json:"conditions,omitempty"`
	// LastOperation is the current operation, or the last one.
	// +optional
	LastOperation LastOperation `json:"lastOperation,omitempty"`
	// CurrentStatus is the phase of the machine, and since when.
	// +optional
	CurrentStatus CurrentStatus `json:"currentStatus,omitempty"`
	// LastKnownState is what the driver needs to resume the creation of the VM.
	// +optional
	LastKnownState string `json:"lastKnownState,omitempty"`

	// NodeRef names the node once it has registered. Added by this project.
	// +optional
	NodeRef *NodeReference `json:"nodeRef,omitempty"`
	// Progress has what the Machine is waiting for. Added by this project.
	// +optional
	Progress *Progress `json:"progress,omitempty"`
	// Phase is Failed while the VM cannot be created, and empty otherwise. The upstream cluster-autoscaler reads it. Added
	// by this project.
	// +optional
	Phase string `json:"phase,omitempty"`
	// FailureMessage is why the VM cannot be created. The upstream cluster-autoscaler reads it. Added by this project.
	// +optional
	FailureMessage *string `json:"failureMessage,omitempty"`
}

// NodeReference is a reference to a registered node.
type NodeReference struct {
	// Kind is Node.
	Kind string `json:"kind"`
	// Name of the node.
	Name string `json:"name"`
}

// Progress has what an object is waiting for. It is output: no controller decides
// anything from it.
type Progress struct {
	// Conditions, one for each type.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// LastOperation describes an operation on a machine.
type LastOperation struct {
	// Description for people. Other systems read parts of it. The controller does not, except for a machine that MCM was
	// deleting when it was replaced.
	// +optional
	Description string `json:"description,omitempty"`
	// ErrorCode is MCM's name of the error, for example ResourceExhausted.
	// +optional
	ErrorCode string `json:"errorCode,omitempty"`
	// LastUpdateTime is when the operation last changed.
	// +optional
	LastUpdateTime metav1.Time `json:"lastUpdateTime,omitempty"`
	// State of the operation.
	// +optional
	State MachineState `json:"state,omitempty"`
	// Type of the operation.
	// +optional
	Type MachineOperationType `json:"type,omitempty"`
}

// CurrentStatus is the phase of a machine, and since when.
type CurrentStatus struct {
	// Phase of the machine; empty until the VM exists or its creation failed.
	// +optional
	Phase MachinePhase `json:"phase,omitempty"`
	// TimeoutActive is true while the creation timeout runs.
	// +optional
	TimeoutActive bool `json:"timeoutActive,omitempty"`
	// LastUpdateTime is when the phase last changed.
	// +optional
	LastUpdateTime metav1.Time `json:"lastUpdateTime,omitempty"`
	// PreserveExpiryTime is when the preservation of the machine ends; nil if it is not preserved.
	// +optional
	PreserveExpiryTime *metav1.Time `json:"preserveExpiryTime,omitempty"`
}
