package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// MCMMachine is the infrastructure of one Machine of Cluster API: one VM, created
// from a MachineClass and the Machine's bootstrap data.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=mcmmachines,scope=Namespaced,categories=cluster-api
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:printcolumn:name="Cluster",type="string",JSONPath=".metadata.labels['cluster\\.x-k8s\\.io/cluster-name']",description="Cluster that the object belongs to"
// +kubebuilder:printcolumn:name="Machine",type="string",JSONPath=".metadata.ownerReferences[?(@.kind=='Machine')].name",description="Machine that the object belongs to"
// +kubebuilder:printcolumn:name="Class",type="string",JSONPath=".spec.machineClassRef.name",description="MachineClass that the VM is created from"
// +kubebuilder:printcolumn:name="ProviderID",type="string",JSONPath=".spec.providerID",description="ID of the VM in the cloud"
// +kubebuilder:printcolumn:name="Provisioned",type="boolean",JSONPath=".status.initialization.provisioned",description="Whether the VM has been created"
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type=='Ready')].status",description="Whether the object is ready"
// +kubebuilder:printcolumn:name="Paused",type="string",JSONPath=".status.conditions[?(@.type=='Paused')].status",description="Whether reconciliation is paused",priority=10
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
type MCMMachine struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the desired state.
	// +required
	Spec MCMMachineSpec `json:"spec"`
	// Status is the observed state. It can be rebuilt from the spec and the cloud at any time.
	// +optional
	Status MCMMachineStatus `json:"status,omitempty"`
}

// MCMMachineSpec is the desired state of an MCMMachine.
type MCMMachineSpec struct {
	// ProviderID is the ID of the VM in the cloud, in the form of spec.providerID of its Node. The controller sets it
	// when it has created the VM. An MCMMachine that is created with a providerID adopts that VM and never creates
	// another one.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	ProviderID string `json:"providerID,omitempty"`
	// MachineClassRef names the MachineClass, in the same namespace, that the VM is created from.
	// +required
	MachineClassRef MachineClassReference `json:"machineClassRef"`
	// NodeTemplate has labels, annotations and taints that the controller keeps on the Node, in addition to those that
	// Cluster API keeps there.
	// +optional
	NodeTemplate NodeTemplate `json:"nodeTemplate,omitempty,omitzero"`
}

// MachineClassReference names a MachineClass in the same namespace.
type MachineClassReference struct {
	// Name of the MachineClass.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// NodeTemplate has labels, annotations and taints of a Node. What is removed here is
// removed from the Node.
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

// MCMMachineStatus is the observed state of an MCMMachine.
type MCMMachineStatus struct {
	// Initialization has the first steps that are complete.
	// +optional
	Initialization MCMMachineInitialization `json:"initialization,omitempty,omitzero"`
	// Addresses of the VM.
	// +optional
	Addresses clusterv1.MachineAddresses `json:"addresses,omitempty"`
	// FailureDomain is the zone of the cloud that the VM is in.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	FailureDomain string `json:"failureDomain,omitempty"`
	// Interruptible is true if the cloud may reclaim the VM at any time, as with spot instances.
	// +optional
	Interruptible *bool `json:"interruptible,omitempty"`
	// Conditions are the current state in detail, with reasons.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// MCMMachineInitialization has the first steps that are complete.
//
// +kubebuilder:validation:MinProperties=1
type MCMMachineInitialization struct {
	// Provisioned is true once the VM has been created. It never becomes false again.
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

// GetConditions returns the conditions, for Cluster API's helpers.
func (m *MCMMachine) GetConditions() []metav1.Condition { return m.Status.Conditions }

// SetConditions replaces the conditions.
func (m *MCMMachine) SetConditions(conditions []metav1.Condition) { m.Status.Conditions = conditions }
