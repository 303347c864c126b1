package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// MCMMachineTemplate is the template for MCMMachines. Its status has the capacity of
// a node of the template, for autoscalers that scale from zero.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=mcmmachinetemplates,scope=Namespaced,categories=cluster-api
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:printcolumn:name="Class",type="string",JSONPath=".spec.template.spec.machineClassRef.name",description="MachineClass that VMs are created from"
// +kubebuilder:printcolumn:name="NextClass",type="string",JSONPath=".status.machineClassName",description="MachineClass that the next machine gets"
// +kubebuilder:printcolumn:name="CPU",type="string",JSONPath=".status.capacity.cpu",description="CPUs of a node"
// +kubebuilder:printcolumn:name="Memory",type="string",JSONPath=".status.capacity.memory",description="Memory of a node"
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type=='Ready')].status",description="Whether the object is ready"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
type MCMMachineTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the template. To change machines, create another template and refer to that one.
	// +required
	Spec MCMMachineTemplateSpec `json:"spec"`
	// Status has the capacity of a node of the template.
	// +optional
	Status MCMMachineTemplateStatus `json:"status,omitempty"`
}

// MCMMachineTemplateSpec is the content of an MCMMachineTemplate.
type MCMMachineTemplateSpec struct {
	// Template of the MCMMachines.
	// +required
	Template MCMMachineTemplateResource `json:"template"`
}

// MCMMachineTemplateResource is an MCMMachine without its name. It has no providerID:
// all machines of the template would share that VM, and the first one that is deleted
// would delete it.
//
// +kubebuilder:validation:XValidation:rule="!has(self.spec.providerID)",message="spec.providerID names one VM, and a template is for many; remove it, and set it in the one MCMMachine that adopts that VM"
type MCMMachineTemplateResource struct {
	// ObjectMeta has the labels and annotations of the MCMMachines.
	// +optional
	ObjectMeta clusterv1.ObjectMeta `json:"metadata,omitempty,omitzero"`
	// Spec of the MCMMachines.
	// +required
	Spec MCMMachineSpec `json:"spec"`
}

// MCMMachineTemplateStatus has the capacity of a node of the template.
type MCMMachineTemplateStatus struct {
	// MachineClassName is the MachineClass that the next machine probably gets: that of machineClassRef, or, while the
	// cloud has no capacity for it, one of fallbackClassRefs.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	MachineClassName string `json:"machineClassName,omitempty"`
	// Capacity of a node: cpu, memory, pods and more. It comes from nodeTemplate of the MachineClass, else from the
	// cloud.
	// +optional
	Capacity corev1.ResourceList `json:"capacity,omitempty"`
	// NodeInfo has the architecture and operating system of a node.
	// +optional
	NodeInfo NodeInfo `json:"nodeInfo,omitempty,omitzero"`
	// Conditions are the current state in detail, with reasons.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// NodeInfo has the architecture and operating system of a node.
//
// +kubebuilder:validation:MinProperties=1
type NodeInfo struct {
	// Architecture of the CPU: amd64, arm64, s390x or ppc64le.
	// +optional
	// +kubebuilder:validation:Enum=amd64;arm64;s390x;ppc64le
	Architecture string `json:"architecture,omitempty"`
	// OperatingSystem of the node.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	OperatingSystem string `json:"operatingSystem,omitempty"`
}

// MCMMachineTemplateList is a list of MCMMachineTemplates.
//
// +kubebuilder:object:root=true
type MCMMachineTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []MCMMachineTemplate `json:"items"`
}

// GetConditions returns the conditions, for Cluster API's helpers.
func (t *MCMMachineTemplate) GetConditions() []metav1.Condition { return t.Status.Conditions }

// SetConditions replaces the conditions.
func (t *MCMMachineTemplate) SetConditions(conditions []metav1.Condition) {
	t.Status.Conditions = conditions
}
