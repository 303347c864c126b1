package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// MCMMachineTemplate is what MCMMachines are made from. Its status says what a
// node of it will offer, for autoscalers that start from zero.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=mcmmachinetemplates,scope=Namespaced,categories=cluster-api
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:printcolumn:name="Class",type="string",JSONPath=".spec.template.spec.machineClassRef.name",description="MachineClass that VMs are made from"
// +kubebuilder:printcolumn:name="CPU",type="string",JSONPath=".status.capacity.cpu",description="CPUs of a node"
// +kubebuilder:printcolumn:name="Memory",type="string",JSONPath=".status.capacity.memory",description="Memory of a node"
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type=='Ready')].status",description="Whether all is well"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
type MCMMachineTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what is made from it. To change machines, make another template and name that one.
	// +required
	Spec MCMMachineTemplateSpec `json:"spec"`
	// Status is what a node of it will offer.
	// +optional
	Status MCMMachineTemplateStatus `json:"status,omitempty"`
}

// MCMMachineTemplateSpec is what is made from a MCMMachineTemplate.
type MCMMachineTemplateSpec struct {
	// Template of the MCMMachines.
	// +required
	Template MCMMachineTemplateResource `json:"template"`
}

// MCMMachineTemplateResource is a MCMMachine without its name. It names no VM:
// all machines of the template would share that, and the first to go would take it along.
//
// +kubebuilder:validation:XValidation:rule="!has(self.spec.providerID)",message="spec.providerID names one VM, and a template is for many; remove it, and set it in the one MCMMachine that adopts that VM"
type MCMMachineTemplateResource struct {
	// ObjectMeta has labels and annotations of the MCMMachines.
	// +optional
	ObjectMeta clusterv1.ObjectMeta `json:"metadata,omitempty,omitzero"`
	// Spec of the MCMMachines.
	// +required
	Spec MCMMachineSpec `json:"spec"`
}

// MCMMachineTemplateStatus is what a node will offer.
type MCMMachineTemplateStatus struct {
	// Capacity of a node: cpu, memory, pods and more, from the MachineClass's nodeTemplate, else from the cloud.
	// +optional
	Capacity corev1.ResourceList `json:"capacity,omitempty"`
	// NodeInfo says what a node will be like.
	// +optional
	NodeInfo NodeInfo `json:"nodeInfo,omitempty,omitzero"`
	// Conditions say what is the case and why.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// NodeInfo says what a node will be like.
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

// GetConditions returns the conditions; it lets Cluster API's helpers read them.
func (t *MCMMachineTemplate) GetConditions() []metav1.Condition { return t.Status.Conditions }

// SetConditions replaces the conditions.
func (t *MCMMachineTemplate) SetConditions(conditions []metav1.Condition) {
	t.Status.Conditions = conditions
}
