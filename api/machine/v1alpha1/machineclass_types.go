package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// MachineClass is how VMs are created in a cloud. It has neither spec nor status.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName="mcc"
type MachineClass struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// NodeTemplate has the capacity of a node of this class, for autoscalers that scale from zero.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	NodeTemplate *NodeTemplate `json:"nodeTemplate,omitempty"`
	// CredentialsSecretRef refers to a Secret with credentials. Its keys take precedence over those of secretRef.
	// +optional
	CredentialsSecretRef *corev1.SecretReference `json:"credentialsSecretRef,omitempty"`
	// ProviderSpec is the specification of a VM, in the form of its cloud.
	// +kubebuilder:pruning:PreserveUnknownFields
	ProviderSpec runtime.RawExtension `json:"providerSpec"`
	// Provider is the name of the cloud, for example AWS.
	// +optional
	Provider string `json:"provider,omitempty"`
	// SecretRef refers to a Secret with userData and, unless credentialsSecretRef is used, credentials.
	// +optional
	SecretRef *corev1.SecretReference `json:"secretRef,omitempty"`
}

// MachineClassList is a list of MachineClasses.
//
// +kubebuilder:object:root=true
type MachineClassList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []MachineClass `json:"items"`
}

// NodeTemplate has the capacity and properties of a node of a class.
type NodeTemplate struct {
	// Capacity of the node: cpu, gpu and memory are required.
	Capacity corev1.ResourceList `json:"capacity"`
	// VirtualCapacity has extended resources that the controller adds to the node's capacity.
	// +optional
	VirtualCapacity corev1.ResourceList `json:"virtualCapacity,omitempty"`
	// InstanceType of the VM.
	InstanceType string `json:"instanceType"`
	// Region of the VM.
	Region string `json:"region"`
	// Zone of the VM.
	Zone string `json:"zone"`
	// Architecture of the VM's CPU.
	// +optional
	Architecture *string `json:"architecture,omitempty"`
}
