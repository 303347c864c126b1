package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// MCMClusterTemplate is what MCMClusters of a ClusterClass are made from.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=mcmclustertemplates,scope=Namespaced,categories=cluster-api
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
type MCMClusterTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what is made from it.
	// +required
	Spec MCMClusterTemplateSpec `json:"spec"`
}

// MCMClusterTemplateSpec is what is made from a MCMClusterTemplate.
type MCMClusterTemplateSpec struct {
	// Template of the MCMClusters.
	// +required
	Template MCMClusterTemplateResource `json:"template"`
}

// MCMClusterTemplateResource is a MCMCluster without its name.
type MCMClusterTemplateResource struct {
	// ObjectMeta has labels and annotations of the MCMClusters.
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
