package explain

import (
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// Condition types that stand for what a native object shows elsewhere than in its conditions.
const (
	conditionHeld   = "Held"
	conditionPaused = "Paused"
	conditionFrozen = "Frozen"
)

// OfMachine is a Machine of the native API.
func OfMachine(m *machinev1.Machine) *Object {
	o := object(Native, machinev1.GroupVersion, KindMachine, m)
	o.Conditions = append(o.Conditions, progress(m.Status.Progress)...)
	o.Phase, o.PhaseSince = string(m.Status.CurrentStatus.Phase), m.Status.CurrentStatus.LastUpdateTime.Time
	o.Class, o.ProviderID = m.Spec.Class.Name, m.Spec.ProviderID
	o.Pool, o.Node = m.Labels[machinev1.NameLabel], m.Labels[machinev1.NodeLabel]
	if m.Status.NodeRef != nil {
		o.Node, o.Joined = m.Status.NodeRef.Name, true
	}
	o.Joined = o.Joined || m.Status.CurrentStatus.Phase == machinev1.MachineRunning
	o.OwnerID, o.Attempt = machinev1.OwnerID(m), 1
	if n, err := strconv.Atoi(m.Annotations[machinev1.CreateAttemptAnnotation]); err == nil {
		o.Attempt = max(1, n)
	}
	op := m.Status.LastOperation
	o.Operation = Operation{
		Type: string(op.Type), State: string(op.State), Code: op.ErrorCode, Description: op.Description,
		Since: op.LastUpdateTime.Time,
	}
	if c := m.Spec.MachineConfiguration; c != nil {
		o.Creation, o.Drain, o.Health = timeout(c.MachineCreationTimeout), timeout(c.MachineDrainTimeout),
			timeout(c.MachineHealthTimeout)
	}
	if d, err := time.ParseDuration(m.Annotations[machinev1.EffectiveCreationTimeoutAnnotation]); err == nil {
		o.Creation = &d
	}
	return o
}

// OfMachineSet is a MachineSet of the native API.
func OfMachineSet(s *machinev1.MachineSet) *Object {
	o := object(Native, machinev1.GroupVersion, KindSet, s)
	o.Conditions = append(o.Conditions, progress(s.Status.Progress)...)
	for _, c := range s.Status.Conditions {
		o.Conditions = append(o.Conditions, Condition{
			Type: string(c.Type), Status: metav1.ConditionStatus(c.Status), Reason: c.Reason, Message: c.Message,
			Since: c.LastTransitionTime.Time,
		})
	}
	o.Desired, o.Ready, o.Updated = s.Spec.Replicas, s.Status.AvailableReplicas, s.Spec.Replicas
	o.Class = s.Spec.Template.Spec.Class.Name
	return o
}

// OfMachineDeployment is a MachineDeployment of the native API.
func OfMachineDeployment(d *machinev1.MachineDeployment) *Object {
	o := object(Native, machinev1.GroupVersion, KindDeployment, d)
	if d.Spec.Paused {
		o.Conditions = append(o.Conditions, Condition{
			Type: conditionPaused, Status: metav1.ConditionTrue, Reason: machinev1.ReasonDeploymentPaused,
			Message: "spec.paused is true",
		})
	}
	o.Conditions = append(o.Conditions, progress(d.Status.Progress)...)
	for _, c := range d.Status.Conditions {
		o.Conditions = append(o.Conditions, Condition{
			Type: string(c.Type), Status: metav1.ConditionStatus(c.Status), Reason: c.Reason, Message: c.Message,
			Since: c.LastTransitionTime.Time,
		})
	}
	o.Desired, o.Ready, o.Updated = d.Spec.Replicas, d.Status.AvailableReplicas, d.Status.UpdatedReplicas
	o.Class, o.Pool = d.Spec.Template.Spec.Class.Name, d.Name
	return o
}

// OfMachineClass is a MachineClass. Of its Secrets only the names are read.
func OfMachineClass(c *machinev1.MachineClass) *Object {
	o := object(Native, machinev1.GroupVersion, KindClass, c)
	o.Class = c.Name
	if r := c.SecretRef; r != nil {
		o.Boot = Ref{Namespace: r.Namespace, Name: r.Name}
	}
	if r := c.CredentialsSecretRef; r != nil {
		o.Credentials = Ref{Namespace: r.Namespace, Name: r.Name}
	}
	return o
}

// object has what all kinds have. A hold for migration is shown as a condition.
func object(api API, group schema.GroupVersion, kind string, m metav1.Object) *Object {
	o := &Object{
		Ref: Ref{APIVersion: group.String(), Kind: kind, Namespace: m.GetNamespace(), Name: m.GetName()},
		API: api, UID: m.GetUID(), Created: m.GetCreationTimestamp().Time, Labels: m.GetLabels(),
	}
	if t := m.GetDeletionTimestamp(); t != nil {
		o.Deleting = &t.Time
	}
	if owner := metav1.GetControllerOf(m); owner != nil {
		o.Owner = owner.UID
	} else if owners := m.GetOwnerReferences(); len(owners) > 0 {
		o.Owner = owners[0].UID
	}
	if parts := strings.Split(m.GetAnnotations()[machinev1.MigratedFromAnnotation], "/"); len(parts) == 3 {
		o.CopiedFrom = types.UID(parts[2])
	}
	if machinev1.Held(m) {
		since, _ := time.Parse(time.RFC3339, m.GetAnnotations()[machinev1.MigrationHeldSinceAnnotation])
		o.Conditions = append(o.Conditions, Condition{
			Type: conditionHeld, Status: metav1.ConditionTrue, Reason: machinev1.ReasonHeld, Since: since,
			Message: "annotation " + machinev1.MigrationHoldAnnotation + " is set",
		})
	}
	return o
}

func progress(p *machinev1.Progress) []Condition {
	if p == nil {
		return nil
	}
	return conditions(p.Conditions)
}

func conditions(all []metav1.Condition) []Condition {
	out := make([]Condition, 0, len(all))
	for _, c := range all {
		out = append(out, Condition{
			Type: c.Type, Status: c.Status, Reason: c.Reason, Message: strings.TrimSpace(c.Message),
			Since: c.LastTransitionTime.Time,
		})
	}
	return out
}

func timeout(d *metav1.Duration) *time.Duration {
	if d == nil {
		return nil
	}
	return &d.Duration
}
