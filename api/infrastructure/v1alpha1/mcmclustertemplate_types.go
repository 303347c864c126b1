package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// MCMClusterTemplate is the template for the MCMClusters of a ClusterClass.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=mcmclustertemplates,scope=Namespaced,categories=cluster-api
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
type MCMClusterTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the template.
	// +required
	Spec MCMClusterTemplateSpec `json:"spec"`
}

// MCMClusterTemplateSpec is the content of an MCMClusterTemplate.
type MCMClusterTemplateSpec struct {
	// Template of the MCMClusters.
	// +required
	Template MCMClusterTemplateResource `json:"template"`
}

// MCMClusterTemplateResource is an MCMCluster without its name.
type MCMClusterTemplateResource struct {
	// ObjectMeta has the labels and annotations of the MCMClusters.
	// +optional
	ObjectMeta clusterv1.ObjectMeta `json:"metadata,omitempty,omitzero"`
	// Spec of the MCMClusters.
	// +optional
	Spec MCMClusterSpec `json:"spec,omitempty"`
}

// MCMClusterTemplateList is a list of MCMClusterTemplates.
//
// +kubebuilder:object:root=true
type MCMClusterTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []MCMClusterTemplate `json:"items"`
}
