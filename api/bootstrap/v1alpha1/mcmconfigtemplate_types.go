package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// MCMConfigTemplate is what MCMConfigs are made from.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=mcmconfigtemplates,scope=Namespaced,categories=cluster-api
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:printcolumn:name="Unchanged",type="string",JSONPath=".status.conditions[?(@.type=='SpecUnchanged')].status",description="Whether the spec is the one that was seen first"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
type MCMConfigTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what is made from it. To change machines, make another template and name that one.
	// +required
	Spec MCMConfigTemplateSpec `json:"spec"`
	// Status is what was seen of it.
	// +optional
	Status MCMConfigTemplateStatus `json:"status,omitempty"`
}

// MCMConfigTemplateSpec is what is made from a MCMConfigTemplate.
type MCMConfigTemplateSpec struct {
	// Template of the MCMConfigs.
	// +required
	Template MCMConfigTemplateResource `json:"template"`
}

// MCMConfigTemplateResource is a MCMConfig without its name.
type MCMConfigTemplateResource struct {
	// ObjectMeta has labels and annotations of the MCMConfigs.
	// +optional
	ObjectMeta clusterv1.ObjectMeta `json:"metadata,omitempty,omitzero"`
	// Spec of the MCMConfigs.
	// +optional
	Spec MCMConfigSpec `json:"spec,omitempty"`
}

// MCMConfigTemplateStatus is what was seen of a MCMConfigTemplate.
type MCMConfigTemplateStatus struct {
	// Conditions say what is the case and why.
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

// GetConditions returns the conditions; it lets Cluster API's helpers read them.
func (t *MCMConfigTemplate) GetConditions() []metav1.Condition { return t.Status.Conditions }

// SetConditions replaces the conditions.
func (t *MCMConfigTemplate) SetConditions(conditions []metav1.Condition) {
	t.Status.Conditions = conditions
}
