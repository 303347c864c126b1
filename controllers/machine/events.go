package machine

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// Reasons of Events on Machines. A machine that does well has one for its
// creation and one for its deletion.
const (
	eventJoined       = "Joined"
	eventCreated      = "Created"
	eventCreateFailed = "CreateFailed"
	eventUnhealthy    = "Unhealthy"
	eventRecovered    = "Recovered"
	eventFailed       = "Failed"
	eventUpdated      = "InPlaceUpdate"
	eventDrainBlocked = "DrainBlocked"
	eventDrainSkipped = "DrainSkipped" // the deletion is one by force
	eventDeleteFailed = "DeleteFailed"
	eventDeleted      = "Deleted"
	eventIgnoredValue = "IgnoredValue"
	eventOutage       = "Outage" // about the pool
	eventOutageOver   = "OutageOver"
)

// emitEvents emits Events about what changed in this pass.
func (c *Controller) emitEvents(p *pass) {
	for _, e := range p.did.events {
		c.Events.Event(p.machine, e.kind, e.reason, e.message)
	}
	if p.did.finalizerRemoved {
		return
	}
	if e, ok := phaseEvent(p); ok {
		c.Events.Event(p.machine, e.kind, e.reason, e.message)
	}
	for _, kind := range []struct{ condition, reason string }{
		{machinev1.ConditionSpecValid, machinev1.ReasonInvalidSpec},
		{machinev1.ConditionVMReady, eventCreateFailed},
		{machinev1.ConditionDrained, eventDrainBlocked},
		{machinev1.ConditionDeleted, eventDeleteFailed},
	} {
		if changed, ok := newFault(p, kind.condition); ok {
			c.Events.Event(p.machine, corev1.EventTypeWarning, kind.reason, changed.Message)
		}
	}
	if is := findCondition(p.machine.Status.Progress, machinev1.ConditionSpecValid); is != nil &&
		is.Reason == machinev1.ReasonIgnoredValue {
		was := findCondition(p.seen.before.Status.Progress, machinev1.ConditionSpecValid)
		if was == nil || was.Message != is.Message {
			c.Events.Event(p.machine, corev1.EventTypeWarning, eventIgnoredValue, is.Message)
		}
	}
}

// phaseEvent is the Event of a change of phase that a person would ask about.
func phaseEvent(p *pass) (kubeEvent, bool) {
	was, is := p.seen.before.Status.CurrentStatus.Phase, p.machine.Status.CurrentStatus.Phase
	text := p.machine.Status.LastOperation.Description
	if was == is {
		return kubeEvent{}, false
	}
	switch is {
	case machinev1.MachineRunning:
		if was == machinev1.MachinePending {
			text = fmt.Sprintf("VM %s joined as Node %s", p.machine.Spec.ProviderID, p.nodeName)
			return kubeEvent{corev1.EventTypeNormal, eventJoined, text}, true
		}
		return kubeEvent{corev1.EventTypeNormal, eventRecovered, text}, true
	case machinev1.MachineAvailable:
		return kubeEvent{corev1.EventTypeNormal, eventCreated, "VM " + p.machine.Spec.ProviderID + " exists"}, true
	case machinev1.MachineUnknown:
		return kubeEvent{corev1.EventTypeWarning, eventUnhealthy, text}, true
	case machinev1.MachineFailed:
		return kubeEvent{corev1.EventTypeWarning, eventFailed, text}, true
	case machinev1.MachineInPlaceUpdating, machinev1.MachineInPlaceUpdateSuccessful:
		return kubeEvent{corev1.EventTypeNormal, eventUpdated, text}, true
	case machinev1.MachineInPlaceUpdateFailed:
		return kubeEvent{corev1.EventTypeWarning, eventUpdated, text}, true
	case "", machinev1.MachinePending, machinev1.MachineTerminating, machinev1.MachineCrashLoopBackOff:
		return kubeEvent{}, false
	}
	return kubeEvent{}, false
}

// newFault returns the condition of that type if this pass made it False for a
// reason that is a fault, and shows that for the first time.
func newFault(p *pass, kind string) (metav1.Condition, bool) {
	is := findCondition(p.machine.Status.Progress, kind)
	was := findCondition(p.seen.before.Status.Progress, kind)
	if is == nil || is.Status != metav1.ConditionFalse || expected(is.Reason) {
		return metav1.Condition{}, false
	}
	if was != nil && was.Status == is.Status && was.Reason == is.Reason && was.Message == is.Message {
		return metav1.Condition{}, false
	}
	return *is, true
}

// expected reports whether waiting for that reason is the normal course of things.
func expected(reason string) bool {
	switch reason {
	case machinev1.ReasonVMPending, machinev1.ReasonDraining, machinev1.ReasonDetachingVolumes,
		machinev1.ReasonDeletingVM, machinev1.ReasonDeletingNode,
		machinev1.ReasonNameInUse, machinev1.ReasonDrainSkipped,
		machinev1.ReasonOutage: // these have Events of their own
		return true
	}
	return false
}

func findCondition(p *machinev1.Progress, kind string) *metav1.Condition {
	if p == nil {
		return nil
	}
	return meta.FindStatusCondition(p.Conditions, kind)
}

// Durations record how long steps of a machine's life took.
type Durations interface {
	// Observe is called once per machine and step: create, join, drain, delete.
	Observe(m *machinev1.Machine, instanceType, zone, step string, seconds float64)
	// FailedJoin counts a machine whose node did not join in time.
	FailedJoin(m *machinev1.Machine, instanceType, zone string)
}

// recordDurations records how long the step took that this pass ended. It reads only what
// was observed: the machine's age, and the time since its deletion was asked for.
func (c *Controller) recordDurations(ctx context.Context, p *pass) {
	if c.Durations == nil {
		return
	}
	step, since := stepEnded(p)
	if step == "" {
		return
	}
	instanceType, zone := c.placement(ctx, p)
	if step == stepFailedJoin {
		c.Durations.FailedJoin(p.machine, instanceType, zone)
		return
	}
	c.Durations.Observe(p.machine, instanceType, zone, step, since)
}

const stepFailedJoin = "failed join"

// stepEnded is the step that this pass ended and how many seconds it took; empty
// if it ended none.
func stepEnded(p *pass) (step string, seconds float64) {
	if p.machine.DeletionTimestamp != nil {
		return deletionStepEnded(p)
	}
	age := p.seen.now.Sub(p.machine.CreationTimestamp.Time).Seconds()
	was, is := p.seen.before.Status.CurrentStatus.Phase, p.machine.Status.CurrentStatus.Phase
	switch {
	case was == is:
		return "", 0
	case is == machinev1.MachinePending, is == machinev1.MachineAvailable:
		return "create", age
	case was == machinev1.MachinePending && is == machinev1.MachineRunning:
		return "join", age
	case was == machinev1.MachinePending && is == machinev1.MachineFailed:
		return stepFailedJoin, age
	}
	return "", 0
}

// deletionStepEnded is stepEnded of a machine that goes.
func deletionStepEnded(p *pass) (step string, seconds float64) {
	going := p.seen.now.Sub(p.machine.DeletionTimestamp.Time).Seconds()
	switch {
	case p.did.finalizerRemoved && p.machine.Spec.ProviderID != "":
		return "delete", going
	case p.did.drained != nil && p.did.drained.done:
		return "drain", going
	}
	return "", 0
}

// placement is where the machine is: by the labels of its node, else its template, else
// its class.
func (c *Controller) placement(ctx context.Context, p *pass) (instanceType, zone string) {
	labels := p.machine.Spec.NodeTemplateSpec.Labels
	if p.node != nil {
		labels = p.node.Labels
	}
	instanceType, zone = labels[corev1.LabelInstanceTypeStable], labels[corev1.LabelTopologyZone]
	if instanceType != "" && zone != "" {
		return instanceType, zone
	}
	class := &machinev1.MachineClass{}
	key := client.ObjectKey{Namespace: p.machine.Namespace, Name: p.machine.Spec.Class.Name}
	if err := c.Client.Get(ctx, key, class); err != nil || class.NodeTemplate == nil {
		return instanceType, zone // a label of a metric is worth no retry
	}
	if instanceType == "" {
		instanceType = class.NodeTemplate.InstanceType
	}
	if zone == "" {
		zone = class.NodeTemplate.Zone
	}
	return instanceType, zone
}
