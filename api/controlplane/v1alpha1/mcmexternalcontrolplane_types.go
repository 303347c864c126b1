package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// MCMExternalControlPlane stands for a control plane that someone else runs, so
// that Cluster API drains, watches and moves the machines that joined it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=mcmexternalcontrolplanes,scope=Namespaced,categories=cluster-api
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:printcolumn:name="Cluster",type="string",JSONPath=".metadata.labels['cluster\\.x-k8s\\.io/cluster-name']",description="Cluster that this belongs to"
// +kubebuilder:printcolumn:name="Host",type="string",JSONPath=".spec.controlPlaneEndpoint.host",description="Host of the API server"
// +kubebuilder:printcolumn:name="Initialized",type="boolean",JSONPath=".status.initialization.controlPlaneInitialized",description="Whether the API server has answered"
// +kubebuilder:printcolumn:name="Available",type="string",JSONPath=".status.conditions[?(@.type=='Available')].status",description="Whether the API server answers"
// +kubebuilder:printcolumn:name="Paused",type="string",JSONPath=".status.conditions[?(@.type=='Paused')].status",description="Whether reconciliation is paused",priority=10
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
type MCMExternalControlPlane struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what is wanted.
	// +optional
	Spec MCMExternalControlPlaneSpec `json:"spec,omitempty"`
	// Status is what was seen. It can be rebuilt at any time.
	// +optional
	Status MCMExternalControlPlaneStatus `json:"status,omitempty"`
}

// MCMExternalControlPlaneSpec says how the control plane is reached: exactly one
// of kubeconfigSecretRef and selfHosted is set.
type MCMExternalControlPlaneSpec struct {
	// ControlPlaneEndpoint of the Cluster. It is filled in from the kubeconfig where it is empty.
	// +optional
	ControlPlaneEndpoint clusterv1.APIEndpoint `json:"controlPlaneEndpoint,omitempty,omitzero"`
	// KubeconfigSecretRef names a Secret of the same namespace that has a kubeconfig in its entry value or kubeconfig.
	// Its user can be a token, a certificate or a password, not a program.
	// +optional
	KubeconfigSecretRef *NameReference `json:"kubeconfigSecretRef,omitempty"`
	// SelfHosted is true if the machines join the cluster that this object is in. The kubeconfig is then made, and
	// renewed, for a ServiceAccount of this cluster.
	// +optional
	SelfHosted *bool `json:"selfHosted,omitempty"`
	// Version that workers may have at most. Cluster API sets it for Clusters of a ClusterClass, from
	// spec.topology.version;
	// leave it empty otherwise. Nothing is done about it: whoever runs the control plane upgrades it first.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Version string `json:"version,omitempty"`
}

// NameReference names an object of the same namespace.
type NameReference struct {
	// Name of the object.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// MCMExternalControlPlaneStatus is what was seen of a control plane.
type MCMExternalControlPlaneStatus struct {
	// Initialization says how far the first steps are.
	// +optional
	Initialization MCMExternalControlPlaneInitialization `json:"initialization,omitempty,omitzero"`
	// ExternalManagedControlPlane is always true: nobody here runs control plane machines.
	// +optional
	ExternalManagedControlPlane *bool `json:"externalManagedControlPlane,omitempty"`
	// Versions has the version of the spec, if there is one, once the API server has answered: workers wait for it.
	// +optional
	// +listType=map
	// +listMapKey=version
	// +kubebuilder:validation:MaxItems=1
	Versions []clusterv1.StatusVersion `json:"versions,omitempty"`
	// Conditions say what is the case and why.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// MCMExternalControlPlaneInitialization says how far the first steps are.
//
// +kubebuilder:validation:MinProperties=1
type MCMExternalControlPlaneInitialization struct {
	// ControlPlaneInitialized is true once the API server has answered. It never becomes false again.
	// +optional
	ControlPlaneInitialized *bool `json:"controlPlaneInitialized,omitempty"`
}

// MCMExternalControlPlaneList is a list of MCMExternalControlPlanes.
//
// +kubebuilder:object:root=true
type MCMExternalControlPlaneList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []MCMExternalControlPlane `json:"items"`
}

// GetConditions returns the conditions; it lets Cluster API's helpers read them.
func (c *MCMExternalControlPlane) GetConditions() []metav1.Condition { return c.Status.Conditions }

// SetConditions replaces the conditions.
func (c *MCMExternalControlPlane) SetConditions(conditions []metav1.Condition) {
	c.Status.Conditions = conditions
}
