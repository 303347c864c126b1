package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// MCMMachine is the infrastructure of one Machine of Cluster API: one VM, made
// from a MachineClass and the Machine's bootstrap data.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=mcmmachines,scope=Namespaced,categories=cluster-api
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:printcolumn:name="Cluster",type="string",JSONPath=".metadata.labels['cluster\\.x-k8s\\.io/cluster-name']",description="Cluster that this belongs to"
// +kubebuilder:printcolumn:name="Machine",type="string",JSONPath=".metadata.ownerReferences[?(@.kind=='Machine')].name",description="Machine that this belongs to"
// +kubebuilder:printcolumn:name="Class",type="string",JSONPath=".spec.machineClassRef.name",description="MachineClass that the VM is made from"
// +kubebuilder:printcolumn:name="ProviderID",type="string",JSONPath=".spec.providerID",description="The cloud's name of the VM"
// +kubebuilder:printcolumn:name="Provisioned",type="boolean",JSONPath=".status.initialization.provisioned",description="Whether the VM has been made"
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type=='Ready')].status",description="Whether all is well"
// +kubebuilder:printcolumn:name="Paused",type="string",JSONPath=".status.conditions[?(@.type=='Paused')].status",description="Whether reconciliation is paused",priority=10
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
type MCMMachine struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what is wanted.
	// +required
	Spec MCMMachineSpec `json:"spec"`
	// Status is what was seen. It can be rebuilt from spec and cloud at any time.
	// +optional
	Status MCMMachineStatus `json:"status,omitempty"`
}

// MCMMachineSpec is what is wanted of a VM.
type MCMMachineSpec struct {
	// ProviderID is the cloud's name of the VM, in the form that its Node carries. It is filled in when the VM is made.
	// A MCMMachine that is created with one adopts that VM and never makes another.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	ProviderID string `json:"providerID,omitempty"`
	// MachineClassRef names the MachineClass, of the same namespace, that the VM is made from.
	// +required
	MachineClassRef MachineClassReference `json:"machineClassRef"`
	// NodeTemplate is what is kept on the Node besides what Cluster API keeps there.
	// +optional
	NodeTemplate NodeTemplate `json:"nodeTemplate,omitempty,omitzero"`
}

// MachineClassReference names a MachineClass of the same namespace.
type MachineClassReference struct {
	// Name of the MachineClass.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// NodeTemplate is what is kept on a Node. What is removed here is removed there.
type NodeTemplate struct {
	// Labels of the Node.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// Annotations of the Node.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
	// Taints of the Node.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Taints []corev1.Taint `json:"taints,omitempty"`
}

// MCMMachineStatus is what was seen of a VM.
type MCMMachineStatus struct {
	// Initialization says how far the first steps are.
	// +optional
	Initialization MCMMachineInitialization `json:"initialization,omitempty,omitzero"`
	// Addresses of the VM.
	// +optional
	Addresses clusterv1.MachineAddresses `json:"addresses,omitempty"`
	// FailureDomain that the VM is in: the cloud's zone.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	FailureDomain string `json:"failureDomain,omitempty"`
	// Interruptible is true if the cloud may take the VM away at any time, e.g. on a spot market.
	// +optional
	Interruptible *bool `json:"interruptible,omitempty"`
	// Conditions say what is the case and why.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// MCMMachineInitialization says how far the first steps are.
//
// +kubebuilder:validation:MinProperties=1
type MCMMachineInitialization struct {
	// Provisioned is true once the VM has been made. It never becomes false again.
	// +optional
	Provisioned *bool `json:"provisioned,omitempty"`
}

// MCMMachineList is a list of MCMMachines.
//
// +kubebuilder:object:root=true
type MCMMachineList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []MCMMachine `json:"items"`
}

// GetConditions returns the conditions; it lets Cluster API's helpers read them.
func (m *MCMMachine) GetConditions() []metav1.Condition { return m.Status.Conditions }

// SetConditions replaces the conditions.
func (m *MCMMachine) SetConditions(conditions []metav1.Condition) { m.Status.Conditions = conditions }
