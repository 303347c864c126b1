package v1alpha1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MCMRemediation asks for the remediation of one unhealthy Machine of Cluster API: its VM is
// rebooted, and if that does not help, the Machine is handed over to its owner, which replaces
// it. A MachineHealthCheck creates it from an MCMRemediationTemplate, under the name of the
// Machine, and deletes it when the Machine is healthy again.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=mcmremediations,scope=Namespaced,categories=cluster-api
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:printcolumn:name="Cluster",type="string",JSONPath=".metadata.labels['cluster\\.x-k8s\\.io/cluster-name']",description="Cluster that the object belongs to"
// +kubebuilder:printcolumn:name="Phase",type="string",JSONPath=".status.phase",description="How far the remediation is"
// +kubebuilder:printcolumn:name="Reboots",type="integer",JSONPath=".status.reboots",description="Reboots so far"
// +kubebuilder:printcolumn:name="Limit",type="integer",JSONPath=".spec.strategy.retryLimit",description="Reboots before the Machine is replaced"
// +kubebuilder:printcolumn:name="Reason",type="string",JSONPath=".status.conditions[?(@.type=='Remediated')].reason",description="Why it is so"
// +kubebuilder:printcolumn:name="Paused",type="string",JSONPath=".status.conditions[?(@.type=='Paused')].status",description="Whether reconciliation is paused",priority=10
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
type MCMRemediation struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec says how the Machine is remediated.
	// +optional
	// +kubebuilder:default={}
	Spec MCMRemediationSpec `json:"spec,omitempty"`
	// Status has how far the remediation is.
	// +optional
	Status MCMRemediationStatus `json:"status,omitempty"`
}

// MCMRemediationSpec says how a Machine is remediated.
type MCMRemediationSpec struct {
	// Strategy of the remediation. Without it, the defaults of its fields apply.
	// +optional
	// +kubebuilder:default={}
	Strategy RemediationStrategy `json:"strategy,omitempty"`
}

// RemediationStrategyType is what is done to an unhealthy Machine.
//
// +kubebuilder:validation:Enum=Reboot
type RemediationStrategyType string

// RebootStrategy reboots the VM of the Machine.
const RebootStrategy RemediationStrategyType = "Reboot"

// RemediationStrategy says how often a VM is rebooted before its Machine is replaced.
type RemediationStrategy struct {
	// Type of the strategy: Reboot.
	// +optional
	// +kubebuilder:default=Reboot
	Type RemediationStrategyType `json:"type,omitempty"`
	// RetryLimit is how often the VM is rebooted before the Machine is replaced. 0 replaces it without a reboot.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10
	RetryLimit *int32 `json:"retryLimit,omitempty"`
	// TimeoutSeconds is how long the node may take to become healthy after a reboot.
	// +optional
	// +kubebuilder:default=600
	// +kubebuilder:validation:Minimum=1
	TimeoutSeconds *int32 `json:"timeoutSeconds,omitempty"`
	// CooldownSeconds is for how long after its last reboot a Machine that becomes unhealthy again is replaced without
	// another reboot. Reboots of one remediation are TimeoutSeconds apart, whatever the cooldown is.
	// +optional
	// +kubebuilder:default=3600
	// +kubebuilder:validation:Minimum=0
	CooldownSeconds *int32 `json:"cooldownSeconds,omitempty"`
}

// The defaults of a strategy, for objects that were created without the CRD's.
const (
	defaultRetryLimit = 1
	defaultTimeout    = 10 * time.Minute
	defaultCooldown   = time.Hour
)

// Limit is RetryLimit with its default.
func (s *RemediationStrategy) Limit() int {
	if s.RetryLimit == nil {
		return defaultRetryLimit
	}
	return int(*s.RetryLimit)
}

// Timeout is TimeoutSeconds with its default.
func (s *RemediationStrategy) Timeout() time.Duration {
	return seconds(s.TimeoutSeconds, defaultTimeout)
}

// Cooldown is CooldownSeconds with its default.
func (s *RemediationStrategy) Cooldown() time.Duration {
	return seconds(s.CooldownSeconds, defaultCooldown)
}

func seconds(n *int32, usual time.Duration) time.Duration {
	if n == nil {
		return usual
	}
	return time.Duration(*n) * time.Second
}

// RemediationPhase is how far a remediation is.
type RemediationPhase string

// The phases of a remediation.
const (
	// RemediationPending: the VM is to be rebooted, and something has to happen first.
	RemediationPending RemediationPhase = "Pending"
	// RemediationWaiting: the VM was rebooted, and its node has time to become healthy.
	RemediationWaiting RemediationPhase = "Waiting"
	// RemediationHealthy: the Machine is healthy. The MachineHealthCheck deletes the object.
	RemediationHealthy RemediationPhase = "Healthy"
	// RemediationReplacing: the owner of the Machine is asked to replace it.
	RemediationReplacing RemediationPhase = "Replacing"
)

// MCMRemediationStatus has how far a remediation is.
type MCMRemediationStatus struct {
	// Phase is how far the remediation is: Pending, Waiting, Healthy or Replacing.
	// +optional
	// +kubebuilder:validation:Enum=Pending;Waiting;Healthy;Replacing
	Phase RemediationPhase `json:"phase,omitempty"`
	// Reboots is how often the VM was rebooted for this remediation.
	// +optional
	Reboots *int32 `json:"reboots,omitempty"`
	// LastReboot is when the last of these reboots was asked for.
	// +optional
	LastReboot metav1.Time `json:"lastReboot,omitempty,omitzero"`
	// Conditions are the current state in detail, with reasons.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// MCMRemediationList is a list of MCMRemediations.
//
// +kubebuilder:object:root=true
type MCMRemediationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []MCMRemediation `json:"items"`
}

// GetConditions returns the conditions, for Cluster API's helpers.
func (r *MCMRemediation) GetConditions() []metav1.Condition { return r.Status.Conditions }

// SetConditions replaces the conditions.
func (r *MCMRemediation) SetConditions(conditions []metav1.Condition) {
	r.Status.Conditions = conditions
}

// MCMRemediationTemplate is what a MachineHealthCheck creates MCMRemediations from.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=mcmremediationtemplates,scope=Namespaced,categories=cluster-api
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io/move="
// +kubebuilder:printcolumn:name="Strategy",type="string",JSONPath=".spec.template.spec.strategy.type",description="What is done to an unhealthy Machine"
// +kubebuilder:printcolumn:name="Limit",type="integer",JSONPath=".spec.template.spec.strategy.retryLimit",description="Reboots before the Machine is replaced"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
type MCMRemediationTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the template. A change of it counts for remediations that begin later.
	// +required
	Spec MCMRemediationTemplateSpec `json:"spec"`
}

// MCMRemediationTemplateSpec is the content of an MCMRemediationTemplate.
type MCMRemediationTemplateSpec struct {
	// Template of the MCMRemediations.
	// +required
	Template MCMRemediationTemplateResource `json:"template"`
}

// MCMRemediationTemplateResource is an MCMRemediation without its name.
type MCMRemediationTemplateResource struct {
	// Spec of the MCMRemediations.
	// +optional
	// +kubebuilder:default={}
	Spec MCMRemediationSpec `json:"spec,omitempty"`
}

// MCMRemediationTemplateList is a list of MCMRemediationTemplates.
//
// +kubebuilder:object:root=true
type MCMRemediationTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []MCMRemediationTemplate `json:"items"`
}
