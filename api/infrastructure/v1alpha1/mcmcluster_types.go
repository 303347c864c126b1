package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// MCMCluster is the infrastructure of a Cluster whose machines are made from
// MachineClasses. Nothing is made for it: it says that machines may be made, and
// in which failure domains, and it is held until none of them is left.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=mcmclusters,scope=Namespaced,categories=cluster-api
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:printcolumn:name="Cluster",type="string",JSONPath=".metadata.labels['cluster\\.x-k8s\\.io/cluster-name']",description="Cluster that this belongs to"
// +kubebuilder:printcolumn:name="Provisioned",type="boolean",JSONPath=".status.initialization.provisioned",description="Whether machines may be made"
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type=='Ready')].status",description="Whether all is well"
// +kubebuilder:printcolumn:name="Paused",type="string",JSONPath=".status.conditions[?(@.type=='Paused')].status",description="Whether reconciliation is paused",priority=10
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
type MCMCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what is wanted.
	// +optional
	Spec MCMClusterSpec `json:"spec,omitempty"`
	// Status is what was seen. It can be rebuilt from spec and cloud at any time.
	// +optional
	Status MCMClusterStatus `json:"status,omitempty"`
}

// MCMClusterSpec is what is wanted of a Cluster's infrastructure.
type MCMClusterSpec struct {
	// ControlPlaneEndpoint of the Cluster, where no control plane object names one. It is never changed.
	// +optional
	ControlPlaneEndpoint clusterv1.APIEndpoint `json:"controlPlaneEndpoint,omitempty,omitzero"`
	// FailureDomains that machines can be placed in: names of the cloud's zones.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=100
	FailureDomains []clusterv1.FailureDomain `json:"failureDomains,omitempty"`
}

// MCMClusterStatus is what was seen of a Cluster's infrastructure.
type MCMClusterStatus struct {
	// Initialization says how far the first steps are.
	// +optional
	Initialization MCMClusterInitialization `json:"initialization,omitempty,omitzero"`
	// FailureDomains are those of the spec.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=100
	FailureDomains []clusterv1.FailureDomain `json:"failureDomains,omitempty"`
	// Conditions say what is the case and why.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// MCMClusterInitialization says how far the first steps are.
//
// +kubebuilder:validation:MinProperties=1
type MCMClusterInitialization struct {
	// Provisioned is true once machines may be made.
	// +optional
	Provisioned *bool `json:"provisioned,omitempty"`
}

// MCMClusterList is a list of MCMClusters.
//
// +kubebuilder:object:root=true
type MCMClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []MCMCluster `json:"items"`
}

// GetConditions returns the conditions; it lets Cluster API's helpers read them.
func (c *MCMCluster) GetConditions() []metav1.Condition { return c.Status.Conditions }

// SetConditions replaces the conditions.
func (c *MCMCluster) SetConditions(conditions []metav1.Condition) { c.Status.Conditions = conditions }
