package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// MCMCluster is the infrastructure of a Cluster whose machines are created from
// MachineClasses. Nothing is created in the cloud for it: it reports that machines may
// be created, and in which failure domains, and it is deleted after its machines.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=mcmclusters,scope=Namespaced,categories=cluster-api
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:printcolumn:name="Cluster",type="string",JSONPath=".metadata.labels['cluster\\.x-k8s\\.io/cluster-name']",description="Cluster that the object belongs to"
// +kubebuilder:printcolumn:name="Provisioned",type="boolean",JSONPath=".status.initialization.provisioned",description="Whether machines may be created"
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type=='Ready')].status",description="Whether the object is ready"
// +kubebuilder:printcolumn:name="Paused",type="string",JSONPath=".status.conditions[?(@.type=='Paused')].status",description="Whether reconciliation is paused",priority=10
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
type MCMCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the desired state.
	// +optional
	// +kubebuilder:default={}
	// +kubebuilder:validation:XValidation:rule="!has(self.controlPlaneEndpoint) || has(self.controlPlaneEndpoint.host) && has(self.controlPlaneEndpoint.port)",message="set both host and port, or remove controlPlaneEndpoint",fieldPath=".controlPlaneEndpoint"
	// +kubebuilder:validation:XValidation:rule="!has(self.controlPlaneEndpoint) || !has(self.controlPlaneEndpoint.host) || self.controlPlaneEndpoint.host.matches('^([A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?(\\\\.[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?)*\\\\.?|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*)$')",message="set host to a DNS name or an IP address, without scheme, port or path",fieldPath=".controlPlaneEndpoint.host"
	// +kubebuilder:validation:XValidation:rule="!has(oldSelf.controlPlaneEndpoint) || !has(oldSelf.controlPlaneEndpoint.host) || !has(oldSelf.controlPlaneEndpoint.port) || has(self.controlPlaneEndpoint) && self.controlPlaneEndpoint == oldSelf.controlPlaneEndpoint",message="keep the endpoint: certificates and kubeconfigs of the Cluster have it; create a Cluster for another one",fieldPath=".controlPlaneEndpoint"
	// +kubebuilder:validation:XValidation:rule="!has(self.failureDomains) || self.failureDomains.size() > 0",message="name at least one failure domain, or remove failureDomains",fieldPath=".failureDomains"
	Spec MCMClusterSpec `json:"spec,omitempty"`
	// Status is the observed state. It can be rebuilt from the spec and the cloud at any time.
	// +optional
	Status MCMClusterStatus `json:"status,omitempty"`
}

// MCMClusterSpec is the desired state of an MCMCluster.
type MCMClusterSpec struct {
	// ControlPlaneEndpoint of the Cluster, where no control plane object has one: the load balancer in front of its
	// control plane machines. The controller never changes it.
	// +optional
	ControlPlaneEndpoint clusterv1.APIEndpoint `json:"controlPlaneEndpoint,omitempty,omitzero"`
	// FailureDomains that machines can be placed in. Their names are zones of the cloud.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=100
	FailureDomains []clusterv1.FailureDomain `json:"failureDomains,omitempty"`
}

// MCMClusterStatus is the observed state of an MCMCluster.
type MCMClusterStatus struct {
	// Initialization has the first steps that are complete.
	// +optional
	Initialization MCMClusterInitialization `json:"initialization,omitempty,omitzero"`
	// FailureDomains are those of the spec that a MachineClass of the Cluster can honour. None is offered before such a
	// class is known.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=100
	FailureDomains []clusterv1.FailureDomain `json:"failureDomains,omitempty"`
	// Conditions are the current state in detail, with reasons.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// MCMClusterInitialization has the first steps that are complete.
//
// +kubebuilder:validation:MinProperties=1
type MCMClusterInitialization struct {
	// Provisioned is true once machines may be created. A Cluster with control plane machines of its own needs a control
	// plane endpoint first. It never becomes false again.
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

// GetConditions returns the conditions, for Cluster API's helpers.
func (c *MCMCluster) GetConditions() []metav1.Condition { return c.Status.Conditions }

// SetConditions replaces the conditions.
func (c *MCMCluster) SetConditions(conditions []metav1.Condition) { c.Status.Conditions = conditions }
