package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// MCMExternalControlPlane represents a control plane that is run by somebody else, so
// that Cluster API can drain, watch and move the machines that join it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=mcmexternalcontrolplanes,scope=Namespaced,categories=cluster-api
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:printcolumn:name="Cluster",type="string",JSONPath=".metadata.labels['cluster\\.x-k8s\\.io/cluster-name']",description="Cluster that the object belongs to"
// +kubebuilder:printcolumn:name="Host",type="string",JSONPath=".spec.controlPlaneEndpoint.host",description="Host of the API server"
// +kubebuilder:printcolumn:name="Initialized",type="boolean",JSONPath=".status.initialization.controlPlaneInitialized",description="Whether the API server has answered"
// +kubebuilder:printcolumn:name="Available",type="string",JSONPath=".status.conditions[?(@.type=='Available')].status",description="Whether the API server answers"
// +kubebuilder:printcolumn:name="Version",type="string",JSONPath=".status.version",description="Version that the API server runs"
// +kubebuilder:printcolumn:name="Paused",type="string",JSONPath=".status.conditions[?(@.type=='Paused')].status",description="Whether reconciliation is paused",priority=10
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
// +kubebuilder:validation:XValidation:rule="has(self.spec) || oldSelf.hasValue() && !has(oldSelf.value().spec)",message="set exactly one of kubeconfigSecretRef and selfHosted: true",fieldPath=".spec",optionalOldSelf=true
type MCMExternalControlPlane struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the desired state.
	// +optional
	// +kubebuilder:validation:XValidation:rule="has(self.kubeconfigSecretRef) != (has(self.selfHosted) && self.selfHosted)",message="set exactly one of kubeconfigSecretRef and selfHosted: true"
	// +kubebuilder:validation:XValidation:rule="!has(self.kubeconfigSecretRef) || self.kubeconfigSecretRef.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="name a Secret: lower case letters, digits, '-' and '.', with a letter or digit at both ends",fieldPath=".kubeconfigSecretRef.name"
	// +kubebuilder:validation:XValidation:rule="!has(self.controlPlaneEndpoint) || has(self.controlPlaneEndpoint.host) && has(self.controlPlaneEndpoint.port)",message="set both host and port, or remove controlPlaneEndpoint",fieldPath=".controlPlaneEndpoint"
	// +kubebuilder:validation:XValidation:rule="!has(self.controlPlaneEndpoint) || !has(self.controlPlaneEndpoint.host) || self.controlPlaneEndpoint.host.matches('^([A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?(\\\\.[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?)*\\\\.?|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*)$')",message="set host to a DNS name or an IP address, without scheme, port or path",fieldPath=".controlPlaneEndpoint.host"
	Spec MCMExternalControlPlaneSpec `json:"spec,omitempty"`
	// Status is the observed state. It can be rebuilt at any time.
	// +optional
	Status MCMExternalControlPlaneStatus `json:"status,omitempty"`
}

// MCMExternalControlPlaneSpec is how to connect to the control plane. Exactly one of
// kubeconfigSecretRef and selfHosted is set.
type MCMExternalControlPlaneSpec struct {
	// ControlPlaneEndpoint of the Cluster. Where it is empty, the controller fills it in from the kubeconfig. Another
	// address than that of the kubeconfig's server needs certificate-authority-data in the kubeconfig.
	// +optional
	ControlPlaneEndpoint clusterv1.APIEndpoint `json:"controlPlaneEndpoint,omitempty,omitzero"`
	// KubeconfigSecretRef names a Secret in the same namespace that has a kubeconfig in its key value or kubeconfig. Its
	// user has a token, a client certificate or a password; exec plugins are refused.
	// +optional
	KubeconfigSecretRef *NameReference `json:"kubeconfigSecretRef,omitempty"`
	// SelfHosted is true if the machines join the cluster that this object is in. The controller then creates a
	// ServiceAccount in this cluster, and renews the kubeconfig for it.
	// +optional
	SelfHosted *bool `json:"selfHosted,omitempty"`
	// Version that the control plane should have. Cluster API sets it for Clusters of a ClusterClass, from
	// spec.topology.version, and upgrades workers once status.versions has reached it; leave it empty otherwise. The
	// controller upgrades nothing: that is for whoever runs the control plane.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Version string `json:"version,omitempty"`
}

// NameReference names an object in the same namespace.
type NameReference struct {
	// Name of the object.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// MCMExternalControlPlaneStatus is the observed state of an MCMExternalControlPlane.
type MCMExternalControlPlaneStatus struct {
	// Initialization has the first steps that are complete.
	// +optional
	Initialization MCMExternalControlPlaneInitialization `json:"initialization,omitempty,omitzero"`
	// ExternalManagedControlPlane is always true: Cluster API does not run the control plane machines.
	// +optional
	ExternalManagedControlPlane *bool `json:"externalManagedControlPlane,omitempty"`
	// Versions has the version that the API server reports. It stays while the API server does not answer. Cluster API
	// upgrades no workers while it is behind spec.version.
	// +optional
	// +listType=map
	// +listMapKey=version
	// +kubebuilder:validation:MaxItems=1
	Versions []clusterv1.StatusVersion `json:"versions,omitempty"`
	// Version is that of versions, for Cluster API before 1.14.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Version string `json:"version,omitempty"`
	// Conditions are the current state in detail, with reasons.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// MCMExternalControlPlaneInitialization has the first steps that are complete.
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

// GetConditions returns the conditions, for Cluster API's helpers.
func (c *MCMExternalControlPlane) GetConditions() []metav1.Condition { return c.Status.Conditions }

// SetConditions replaces the conditions.
func (c *MCMExternalControlPlane) SetConditions(conditions []metav1.Condition) {
	c.Status.Conditions = conditions
}
