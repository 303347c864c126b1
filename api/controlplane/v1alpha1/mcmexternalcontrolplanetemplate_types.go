package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// MCMExternalControlPlaneTemplate is the template for the MCMExternalControlPlanes of a
// ClusterClass.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=mcmexternalcontrolplanetemplates,scope=Namespaced,categories=cluster-api
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
type MCMExternalControlPlaneTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the template.
	// +required
	Spec MCMExternalControlPlaneTemplateSpec `json:"spec"`
}

// MCMExternalControlPlaneTemplateSpec is the content of an
// MCMExternalControlPlaneTemplate.
type MCMExternalControlPlaneTemplateSpec struct {
	// Template of the MCMExternalControlPlanes.
	// +required
	Template MCMExternalControlPlaneTemplateResource `json:"template"`
}

// MCMExternalControlPlaneTemplateResource is an MCMExternalControlPlane without its name.
type MCMExternalControlPlaneTemplateResource struct {
	// ObjectMeta has the labels and annotations of the MCMExternalControlPlanes.
	// +optional
	ObjectMeta clusterv1.ObjectMeta `json:"metadata,omitempty,omitzero"`
	// Spec of the MCMExternalControlPlanes.
	// +optional
	Spec MCMExternalControlPlaneSpec `json:"spec,omitempty"`
}

// MCMExternalControlPlaneTemplateList is a list of MCMExternalControlPlaneTemplates.
//
// +kubebuilder:object:root=true
type MCMExternalControlPlaneTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []MCMExternalControlPlaneTemplate `json:"items"`
}
