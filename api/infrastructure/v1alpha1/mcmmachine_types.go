package v1alpha1

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// MCMMachine is the infrastructure of one Machine of Cluster API: one VM, created
// from a MachineClass and the Machine's bootstrap data.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=mcmmachines,scope=Namespaced,categories=cluster-api
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:printcolumn:name="Cluster",type="string",JSONPath=".metadata.labels['cluster\\.x-k8s\\.io/cluster-name']",description="Cluster that the object belongs to"
// +kubebuilder:printcolumn:name="Machine",type="string",JSONPath=".metadata.ownerReferences[?(@.kind=='Machine')].name",description="Machine that the object belongs to"
// +kubebuilder:printcolumn:name="Class",type="string",JSONPath=".spec.machineClassRef.name",description="MachineClass that comes first"
// +kubebuilder:printcolumn:name="VMClass",type="string",JSONPath=".status.machineClassName",description="MachineClass that the VM is created from"
// +kubebuilder:printcolumn:name="ProviderID",type="string",JSONPath=".spec.providerID",description="ID of the VM in the cloud"
// +kubebuilder:printcolumn:name="Provisioned",type="boolean",JSONPath=".status.initialization.provisioned",description="Whether the VM has been created"
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type=='Ready')].status",description="Whether the object is ready"
// +kubebuilder:printcolumn:name="Paused",type="string",JSONPath=".status.conditions[?(@.type=='Paused')].status",description="Whether reconciliation is paused",priority=10
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.initialization) || !has(oldSelf.status.initialization.provisioned) || !oldSelf.status.initialization.provisioned || !has(oldSelf.spec.providerID) || has(self.spec.providerID) && self.spec.providerID == oldSelf.spec.providerID",message="keep the providerID: the VM exists, and another ID would leave it behind; delete the Machine to replace the VM",fieldPath=".spec.providerID"
type MCMMachine struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the desired state.
	// +required
	// +kubebuilder:validation:XValidation:rule="has(self.network) == has(oldSelf.network) && (!has(self.network) || self.network == oldSelf.network)",message="spec.network cannot be changed, because the VM keeps the addresses that it was created with; create an MCMMachineTemplate with the new network, and name it in the MachineDeployment"
	// +kubebuilder:validation:XValidation:rule="self.machineClassRef.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="name a MachineClass: lower case letters, digits, '-' and '.', with a letter or digit at both ends",fieldPath=".machineClassRef.name"
	// +kubebuilder:validation:XValidation:rule="!has(self.fallbackClassRefs) || self.fallbackClassRefs.all(c, c.name != self.machineClassRef.name)",message="fallbackClassRefs must not have the class of machineClassRef, which comes first anyway; remove it",fieldPath=".fallbackClassRefs"
	// +kubebuilder:validation:XValidation:rule="!has(self.fallbackClassRefs) || self.fallbackClassRefs.all(c, self.fallbackClassRefs.exists_one(d, d.name == c.name))",message="remove one of the fallbackClassRefs that have the same name",fieldPath=".fallbackClassRefs"
	// +kubebuilder:validation:XValidation:rule="!has(self.fallbackClassRefs) || self.fallbackClassRefs.all(c, c.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$'))",message="name MachineClasses: lower case letters, digits, '-' and '.', with a letter or digit at both ends",fieldPath=".fallbackClassRefs"
	// +kubebuilder:validation:XValidation:rule="!has(self.nodeTemplate) || !has(self.nodeTemplate.labels) || self.nodeTemplate.labels.all(k, k.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$'))",message="correct the key of a label: [prefix/]name, with a DNS name as prefix and a name of 1 to 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends",fieldPath=".nodeTemplate.labels"
	// +kubebuilder:validation:XValidation:rule="!has(self.nodeTemplate) || !has(self.nodeTemplate.labels) || self.nodeTemplate.labels.all(k, self.nodeTemplate.labels[k].matches('^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$'))",message="correct the value of a label: up to 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends, or nothing",fieldPath=".nodeTemplate.labels"
	// +kubebuilder:validation:XValidation:rule="!has(self.nodeTemplate) || !has(self.nodeTemplate.taints) || self.nodeTemplate.taints.all(t, t.key.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$'))",message="correct the key of a taint: [prefix/]name, with a DNS name as prefix and a name of 1 to 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends",fieldPath=".nodeTemplate.taints"
	// +kubebuilder:validation:XValidation:rule="!has(self.nodeTemplate) || !has(self.nodeTemplate.taints) || self.nodeTemplate.taints.all(t, !has(t.value) || t.value.matches('^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$'))",message="correct the value of a taint: up to 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends, or nothing",fieldPath=".nodeTemplate.taints"
	// +kubebuilder:validation:XValidation:rule="!has(self.nodeTemplate) || !has(self.nodeTemplate.taints) || self.nodeTemplate.taints.all(t, t.effect in ['NoSchedule', 'PreferNoSchedule', 'NoExecute'])",message="set the effect of a taint to NoSchedule, PreferNoSchedule or NoExecute",fieldPath=".nodeTemplate.taints"
	// +kubebuilder:validation:XValidation:rule="!has(self.nodeTemplate) || !has(self.nodeTemplate.taints) || self.nodeTemplate.taints.all(t, self.nodeTemplate.taints.exists_one(u, u.key == t.key && u.effect == t.effect))",message="remove one of the taints that have the same key and effect",fieldPath=".nodeTemplate.taints"
	Spec MCMMachineSpec `json:"spec"`
	// Status is the observed state. It can be rebuilt from the spec and the cloud at any time.
	// +optional
	Status MCMMachineStatus `json:"status,omitempty"`
}

// MCMMachineSpec is the desired state of an MCMMachine.
type MCMMachineSpec struct {
	// ProviderID is the ID of the VM in the cloud, in the form of spec.providerID of its Node. The controller sets it
	// when it has created the VM. An MCMMachine that is created with a providerID adopts that VM and never creates
	// another one.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	ProviderID string `json:"providerID,omitempty"`
	// MachineClassRef names the MachineClass, in the same namespace, that the VM is created from.
	// +required
	MachineClassRef MachineClassReference `json:"machineClassRef"`
	// FallbackClassRefs name MachineClasses of the same provider, in the same namespace. While the cloud has no capacity
	// for machineClassRef, the VM is created from the first of these that has room.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	FallbackClassRefs []MachineClassReference `json:"fallbackClassRefs,omitempty"`
	// NodeTemplate has labels, annotations and taints that the controller keeps on the Node, in addition to those that
	// Cluster API keeps there.
	// +optional
	NodeTemplate NodeTemplate `json:"nodeTemplate,omitempty,omitzero"`
	// Network has the addresses of the VM that come from IP pools. Without it, all addresses come from DHCP or from the
	// cloud.
	// +optional
	Network MachineNetwork `json:"network,omitempty,omitzero"`
}

// MachineNetwork has the network interfaces of a VM.
type MachineNetwork struct {
	// Devices are the network interfaces of the VM, in the order in which the MachineClass names their networks.
	// Interfaces beyond the list get their addresses from DHCP or from the cloud.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=10
	// +kubebuilder:validation:XValidation:rule="self.exists(d, has(d.addressesFromPools))",message="no device has addressesFromPools; name a pool, or remove spec.network"
	Devices []NetworkDevice `json:"devices"`
}

// NetworkDevice is a network interface of a VM.
//
// +kubebuilder:validation:XValidation:rule="has(self.addressesFromPools) || !has(self.nameservers) && !has(self.searchDomains)",message="nameservers and searchDomains have no effect without addressesFromPools; name a pool, or remove them"
type NetworkDevice struct {
	// AddressesFromPools are the pools of Cluster API IPAM providers, in the namespace of the machine, that the
	// interface gets an address from, one of each. Without any, its addresses come from DHCP or from the cloud.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=4
	AddressesFromPools []IPPoolReference `json:"addressesFromPools,omitempty"`
	// Nameservers are the IP addresses of the DNS servers of the interface. A pool has none.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MinLength=2
	// +kubebuilder:validation:items:MaxLength=39
	// +kubebuilder:validation:items:XValidation:rule="isIP(self)",message="a nameserver has to be an IP address"
	Nameservers []string `json:"nameservers,omitempty"`
	// SearchDomains are the DNS domains in which the interface's names are looked up.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	SearchDomains []string `json:"searchDomains,omitempty"`
}

// IPPoolReference names a pool of IP addresses of any Cluster API IPAM provider.
type IPPoolReference struct {
	// APIGroup of the pool.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	APIGroup string `json:"apiGroup"`
	// Kind of the pool.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-zA-Z]([-a-zA-Z0-9]*[a-zA-Z0-9])?$`
	Kind string `json:"kind"`
	// Name of the pool.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Name string `json:"name"`
}

// MachineClassReference names a MachineClass in the same namespace.
type MachineClassReference struct {
	// Name of the MachineClass.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// NodeTemplate has labels, annotations and taints of a Node. What is removed here is
// removed from the Node.
//
// +kubebuilder:object:generate=false
type NodeTemplate struct {
	// Labels of the Node.
	// +optional
	// +kubebuilder:validation:MaxProperties=100
	Labels map[string]LabelValue `json:"labels,omitempty"`
	// Annotations of the Node.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
	// Taints of the Node.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Taints []Taint `json:"taints,omitempty"`
}

// DeepCopyInto copies the template into out.
func (t *NodeTemplate) DeepCopyInto(out *NodeTemplate) {
	out.Labels, out.Annotations, out.Taints = maps.Clone(t.Labels), maps.Clone(t.Annotations), slices.Clone(t.Taints)
}

// LabelValue is the value of a label. Its limit bounds what the rules cost.
//
// +kubebuilder:validation:MaxLength=63
type LabelValue = string

// Taint of a Node.
type Taint struct {
	// Key of the taint.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	Key string `json:"key"`
	// Value of the taint.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Value string `json:"value,omitempty"`
	// Effect on pods that do not tolerate the taint: NoSchedule, PreferNoSchedule or NoExecute.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Effect string `json:"effect"`
}

// CoreTaints returns the taints as a Node has them; nil if there are none.
func (t *NodeTemplate) CoreTaints() []corev1.Taint {
	var out []corev1.Taint
	for _, x := range t.Taints {
		out = append(out, corev1.Taint{Key: x.Key, Value: x.Value, Effect: corev1.TaintEffect(x.Effect)})
	}
	return out
}

// ClassNames returns the names of the classes that the VM may be created from, the preferred
// one first.
func (s *MCMMachineSpec) ClassNames() []string {
	names := []string{s.MachineClassRef.Name}
	for _, ref := range s.FallbackClassRefs {
		names = append(names, ref.Name)
	}
	return names
}

// MCMMachineStatus is the observed state of an MCMMachine.
type MCMMachineStatus struct {
	// Initialization has the first steps that are complete.
	// +optional
	Initialization MCMMachineInitialization `json:"initialization,omitempty,omitzero"`
	// Addresses of the VM.
	// +optional
	Addresses clusterv1.MachineAddresses `json:"addresses,omitempty"`
	// FailureDomain is the zone of the cloud that the VM is in.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	FailureDomain string `json:"failureDomain,omitempty"`
	// MachineClassName is the MachineClass that the VM is created from: that of machineClassRef, or one of
	// fallbackClassRefs.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	MachineClassName string `json:"machineClassName,omitempty"`
	// Interruptible is true if the cloud may reclaim the VM at any time, as with spot instances.
	// +optional
	Interruptible *bool `json:"interruptible,omitempty"`
	// Conditions are the current state in detail, with reasons.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// MCMMachineInitialization has the first steps that are complete.
//
// +kubebuilder:validation:MinProperties=1
type MCMMachineInitialization struct {
	// Provisioned is true once the VM has been created. It never becomes false again.
	// +optional
	Provisioned *bool `json:"provisioned,omitempty"`
}

// MCMMachineList is a list of MCMMachines.
//
// +kubebuilder:object:root=true
type MCMMachineList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []MCMMachine `json:"items"`
}

// GetConditions returns the conditions, for Cluster API's helpers.
func (m *MCMMachine) GetConditions() []metav1.Condition { return m.Status.Conditions }

// SetConditions replaces the conditions.
func (m *MCMMachine) SetConditions(conditions []metav1.Condition) { m.Status.Conditions = conditions }
