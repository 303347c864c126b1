package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// MCMConfigTemplate is the template for MCMConfigs.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=mcmconfigtemplates,scope=Namespaced,categories=cluster-api
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:printcolumn:name="Unchanged",type="string",JSONPath=".status.conditions[?(@.type=='SpecUnchanged')].status",description="Whether the spec has not been edited"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
type MCMConfigTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the template. To change machines, create another template and refer to that one.
	// +required
	Spec MCMConfigTemplateSpec `json:"spec"`
	// Status is the observed state.
	// +optional
	Status MCMConfigTemplateStatus `json:"status,omitempty"`
}

// MCMConfigTemplateSpec is the content of an MCMConfigTemplate.
type MCMConfigTemplateSpec struct {
	// Template of the MCMConfigs.
	// +required
	Template MCMConfigTemplateResource `json:"template"`
}

// MCMConfigTemplateResource is an MCMConfig without its name.
type MCMConfigTemplateResource struct {
	// ObjectMeta has the labels and annotations of the MCMConfigs.
	// +optional
	ObjectMeta clusterv1.ObjectMeta `json:"metadata,omitempty,omitzero"`
	// Spec of the MCMConfigs.
	// +optional
	Spec MCMConfigSpec `json:"spec,omitempty"`
}

// MCMConfigTemplateStatus is the observed state of an MCMConfigTemplate.
type MCMConfigTemplateStatus struct {
	// Conditions are the current state in detail, with reasons.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// MCMConfigTemplateList is a list of MCMConfigTemplates.
//
// +kubebuilder:object:root=true
type MCMConfigTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []MCMConfigTemplate `json:"items"`
}

// GetConditions returns the conditions, for Cluster API's helpers.
func (t *MCMConfigTemplate) GetConditions() []metav1.Condition { return t.Status.Conditions }

// SetConditions replaces the conditions.
func (t *MCMConfigTemplate) SetConditions(conditions []metav1.Condition) {
	t.Status.Conditions = conditions
}
