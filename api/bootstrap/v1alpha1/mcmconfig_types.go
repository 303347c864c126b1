package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MCMConfig is the bootstrap data of one Machine of Cluster API: user data from a
// Secret, with its placeholders replaced.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=mcmconfigs,scope=Namespaced,categories=cluster-api
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:printcolumn:name="Cluster",type="string",JSONPath=".metadata.labels['cluster\\.x-k8s\\.io/cluster-name']",description="Cluster that the object belongs to"
// +kubebuilder:printcolumn:name="Machine",type="string",JSONPath=".metadata.ownerReferences[?(@.kind=='Machine')].name",description="Machine that the object belongs to"
// +kubebuilder:printcolumn:name="Data secret",type="string",JSONPath=".status.dataSecretName",description="Secret with the bootstrap data"
// +kubebuilder:printcolumn:name="Created",type="boolean",JSONPath=".status.initialization.dataSecretCreated",description="Whether the Secret exists"
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type=='Ready')].status",description="Whether the object is ready"
// +kubebuilder:printcolumn:name="Paused",type="string",JSONPath=".status.conditions[?(@.type=='Paused')].status",description="Whether reconciliation is paused",priority=10
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
// +kubebuilder:validation:XValidation:rule="has(self.spec) || oldSelf.hasValue() && !has(oldSelf.value().spec)",message="set exactly one of machineClassRef and userDataSecretRef",fieldPath=".spec",optionalOldSelf=true
type MCMConfig struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the desired state.
	// +optional
	// +kubebuilder:validation:XValidation:rule="has(self.machineClassRef) != has(self.userDataSecretRef)",message="set exactly one of machineClassRef and userDataSecretRef"
	// +kubebuilder:validation:XValidation:rule="!has(self.machineClassRef) || self.machineClassRef.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="name a MachineClass: lower case letters, digits, '-' and '.', with a letter or digit at both ends",fieldPath=".machineClassRef.name"
	// +kubebuilder:validation:XValidation:rule="!has(self.userDataSecretRef) || self.userDataSecretRef.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="name a Secret: lower case letters, digits, '-' and '.', with a letter or digit at both ends",fieldPath=".userDataSecretRef.name"
	Spec MCMConfigSpec `json:"spec,omitempty"`
	// Status is the observed state. It can be rebuilt from the spec at any time.
	// +optional
	Status MCMConfigStatus `json:"status,omitempty"`
}

// MCMConfigSpec is the source of the user data. Exactly one of machineClassRef and
// userDataSecretRef is set.
type MCMConfigSpec struct {
	// MachineClassRef names a MachineClass in the same namespace. Its Secret has the user data.
	// +optional
	MachineClassRef *NameReference `json:"machineClassRef,omitempty"`
	// UserDataSecretRef names a Secret in the same namespace. Its key userData has the user data.
	// +optional
	UserDataSecretRef *NameReference `json:"userDataSecretRef,omitempty"`
	// Format of the user data: cloud-config or ignition. Where it is empty, it is detected from the data.
	// +optional
	Format Format `json:"format,omitempty"`
}

// NameReference names an object in the same namespace.
type NameReference struct {
	// Name of the object.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// Format is the format of bootstrap data.
//
// +kubebuilder:validation:Enum=cloud-config;ignition
type Format string

// The formats.
const (
	FormatCloudConfig Format = "cloud-config"
	FormatIgnition    Format = "ignition"
)

// MCMConfigStatus is the observed state of an MCMConfig.
type MCMConfigStatus struct {
	// Initialization has the first steps that are complete.
	// +optional
	Initialization MCMConfigInitialization `json:"initialization,omitempty,omitzero"`
	// DataSecretName is the name of the Secret with the bootstrap data.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	DataSecretName string `json:"dataSecretName,omitempty"`
	// Conditions are the current state in detail, with reasons.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// MCMConfigInitialization has the first steps that are complete.
//
// +kubebuilder:validation:MinProperties=1
type MCMConfigInitialization struct {
	// DataSecretCreated is true once the Secret exists.
	// +optional
	DataSecretCreated *bool `json:"dataSecretCreated,omitempty"`
}

// MCMConfigList is a list of MCMConfigs.
//
// +kubebuilder:object:root=true
type MCMConfigList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []MCMConfig `json:"items"`
}

// GetConditions returns the conditions, for Cluster API's helpers.
func (c *MCMConfig) GetConditions() []metav1.Condition { return c.Status.Conditions }

// SetConditions replaces the conditions.
func (c *MCMConfig) SetConditions(conditions []metav1.Condition) { c.Status.Conditions = conditions }
