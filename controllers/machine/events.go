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
	eventDeleteFailed = "DeleteFailed"
	eventDeleted      = "Deleted"
	eventIgnoredValue = "IgnoredValue"
	eventOutage       = "Outage" // about the pool
	eventOutageOver   = "OutageOver"
)

// emitEvents tells about what changed in this pass. What did not change was told
// before.
func (c *Controller) emitEvents(f *facts) {
	for _, e := range f.events {
		c.Events.Event(f.machine, e.kind, e.reason, e.message)
	}
	if f.finalizerRemoved {
		return
	}
	if e, ok := phaseEvent(f); ok {
		c.Events.Event(f.machine, e.kind, e.reason, e.message)
	}
	for _, kind := range []struct{ condition, reason string }{
		{machinev1.ConditionSpecValid, machinev1.ReasonInvalidSpec},
		{machinev1.ConditionVMReady, eventCreateFailed},
		{machinev1.ConditionDrained, eventDrainBlocked},
		{machinev1.ConditionDeleted, eventDeleteFailed},
	} {
		if changed, ok := newFault(f, kind.condition); ok {
			c.Events.Event(f.machine, corev1.EventTypeWarning, kind.reason, changed.Message)
		}
	}
	if is := findCondition(f.machine.Status.Progress, machinev1.ConditionSpecValid); is != nil &&
		is.Reason == machinev1.ReasonIgnoredValue {
		was := findCondition(f.before.Status.Progress, machinev1.ConditionSpecValid)
		if was == nil || was.Message != is.Message {
			c.Events.Event(f.machine, corev1.EventTypeWarning, eventIgnoredValue, is.Message)
		}
	}
}

// phaseEvent is the Event of a change of phase that a person would ask about.
func phaseEvent(f *facts) (kubeEvent, bool) {
	was, is := f.before.Status.CurrentStatus.Phase, f.machine.Status.CurrentStatus.Phase
	text := f.machine.Status.LastOperation.Description
	if was == is {
		return kubeEvent{}, false
	}
	switch is {
	case machinev1.MachineRunning:
		if was == machinev1.MachinePending {
			return kubeEvent{corev1.EventTypeNormal, eventJoined, fmt.Sprintf("VM %s joined as Node %s", f.machine.Spec.ProviderID,
				f.nodeName)}, true
		}
		return kubeEvent{corev1.EventTypeNormal, eventRecovered, text}, true
	case machinev1.MachineAvailable:
		return kubeEvent{corev1.EventTypeNormal, eventCreated, "VM " + f.machine.Spec.ProviderID + " exists"}, true
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
// reason that is a fault, and says so for the first time.
func newFault(f *facts, kind string) (metav1.Condition, bool) {
	is := findCondition(f.machine.Status.Progress, kind)
	was := findCondition(f.before.Status.Progress, kind)
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
	case machinev1.ReasonVMPending, machinev1.ReasonDraining, machinev1.ReasonDetachingVolumes, machinev1.ReasonDeletingVM, machinev1.ReasonDeletingNode,
		machinev1.ReasonNameInUse,
		machinev1.ReasonOutage: // its pool is told
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

// Durations are told how long steps of a machine's life took.
type Durations interface {
	// Observe is called once per machine and step: create, join, drain, delete.
	Observe(m *machinev1.Machine, instanceType, zone, step string, seconds float64)
	// FailedJoin counts a machine whose node did not join in time.
	FailedJoin(m *machinev1.Machine, instanceType, zone string)
}

// recordDurations tells how long the step took that this pass ended. It reads only what
// was observed: the machine's age, and the time since its deletion was asked for.
func (c *Controller) recordDurations(ctx context.Context, f *facts) {
	if c.Durations == nil {
		return
	}
	step, since := stepEnded(f)
	if step == "" {
		return
	}
	instanceType, zone := c.placement(ctx, f)
	if step == stepFailedJoin {
		c.Durations.FailedJoin(f.machine, instanceType, zone)
		return
	}
	c.Durations.Observe(f.machine, instanceType, zone, step, since)
}

const stepFailedJoin = "failed join"

// stepEnded is the step that this pass ended and how many seconds it took; empty
// if it ended none.
func stepEnded(f *facts) (step string, seconds float64) {
	if f.machine.DeletionTimestamp != nil {
		return deletionStepEnded(f)
	}
	age := f.now.Sub(f.machine.CreationTimestamp.Time).Seconds()
	was, is := f.before.Status.CurrentStatus.Phase, f.machine.Status.CurrentStatus.Phase
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
func deletionStepEnded(f *facts) (step string, seconds float64) {
	going := f.now.Sub(f.machine.DeletionTimestamp.Time).Seconds()
	switch {
	case f.finalizerRemoved && f.machine.Spec.ProviderID != "":
		return "delete", going
	case f.drained != nil && f.drained.done:
		return "drain", going
	}
	return "", 0
}

// placement is where the machine is: as its node says, else its template, else
// its class.
func (c *Controller) placement(ctx context.Context, f *facts) (instanceType, zone string) {
	labels := f.machine.Spec.NodeTemplateSpec.Labels
	if f.node != nil {
		labels = f.node.Labels
	}
	instanceType, zone = labels[corev1.LabelInstanceTypeStable], labels[corev1.LabelTopologyZone]
	if instanceType != "" && zone != "" {
		return instanceType, zone
	}
	class := &machinev1.MachineClass{}
	key := client.ObjectKey{Namespace: f.machine.Namespace, Name: f.machine.Spec.Class.Name}
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
