package machine

import (
	"cmp"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// Reasons of Events on Machines. A healthy machine has none until its deletion: phase, lastOperation
// and conditions say when it joined, and an Event would be one more request for each machine.
const (
	eventCreated      = "Created"
	eventCreateFailed = "CreateFailed"
	eventUnhealthy    = "Unhealthy"
	eventRecovered    = "Recovered"
	eventFailed       = "Failed"
	eventConsole      = "ConsoleRead" // what the console of a machine says that did not join
	eventUpdated      = "InPlaceUpdate"
	eventDrainBlocked = "DrainBlocked"
	// The VM has not got the tags of its class.
	eventTagsNotUpdated = "TagsNotUpdated"
	eventBootDataKept   = "BootDataNotRemoved"
	eventDrainSkipped   = "DrainSkipped" // the deletion is one by force
	eventDeleteFailed   = "DeleteFailed"
	eventDeleted        = "Deleted"
	eventReleased       = "ReleasedWithoutVM" // asked for by annotation
	eventIgnoredValue   = "IgnoredValue"
	eventOutage         = "Outage" // about the pool
	eventOutageOver     = "OutageOver"
	eventNotRegistered  = "NotRegistered" // with a load balancer
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
		{machinev1.ConditionTagsUpdated, eventTagsNotUpdated},
		{machinev1.ConditionBootDataRemoved, eventBootDataKept},
		{machinev1.ConditionLoadBalancerRegistered, eventNotRegistered},
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
			return kubeEvent{}, false
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
	case machinev1.ReasonVMPending, machinev1.ReasonRegistering, machinev1.ReasonDeregistering,
		machinev1.ReasonDraining, machinev1.ReasonDetachingVolumes,
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
	// Observe is called once per machine and step: create, initialize, join and delete; drain
	// once per drain.
	Observe(m *machinev1.Machine, instanceType, zone, step string, seconds float64)
	// FailedJoin counts a machine whose node did not join in time.
	FailedJoin(m *machinev1.Machine, instanceType, zone string)
}

// recordDurations records how long the steps took that this pass ended.
func (c *Controller) recordDurations(p *pass) {
	if c.Durations == nil {
		return
	}
	instanceType, zone := placement(p)
	was, is := p.seen.before.Status.CurrentStatus.Phase, p.machine.Status.CurrentStatus.Phase
	if was == machinev1.MachinePending && is == machinev1.MachineFailed {
		c.Durations.FailedJoin(p.machine, instanceType, zone)
	}
	if p.seen.class.Object == nil {
		return // the place without the class would be a series of its own
	}
	for _, s := range stepsEnded(p) {
		c.Durations.Observe(p.machine, instanceType, zone, s.step, s.took.Seconds())
	}
}

// A stepDuration is how long a step took.
type stepDuration struct {
	step string
	took time.Duration
}

// stepsEnded are the steps that this pass ended: of a drain its own time, of the others
// the machine's age, or the time since its deletion was asked for.
func stepsEnded(p *pass) []stepDuration {
	var ended []stepDuration
	if drainEnded(p) {
		ended = append(ended, stepDuration{"drain", p.did.drained.took})
	}
	if gone := p.machine.DeletionTimestamp; gone != nil {
		if p.did.finalizerRemoved && p.machine.Spec.ProviderID != "" {
			ended = append(ended, stepDuration{"delete", p.seen.now.Sub(gone.Time)})
		}
		return ended
	}
	age := p.seen.now.Sub(p.machine.CreationTimestamp.Time)
	was, is := p.seen.before.Status.CurrentStatus.Phase, p.machine.Status.CurrentStatus.Phase
	switch {
	case was == is:
	case is == machinev1.MachinePending, is == machinev1.MachineAvailable:
		ended = append(ended, stepDuration{"create", age})
		if took, ok := initialization(p); ok {
			ended = append(ended, stepDuration{"initialize", took})
		}
	case was == machinev1.MachinePending && is == machinev1.MachineRunning:
		ended = append(ended, stepDuration{"join", age})
	}
	return ended
}

// drainEnded reports whether this pass ended a drain: for a deletion, a preservation or
// an update in place.
func drainEnded(p *pass) bool {
	if p.did.drained == nil || !p.did.drained.done {
		return false
	}
	shown := findCondition(p.seen.before.Status.Progress, machinev1.ConditionDrained)
	return shown == nil || shown.Status != metav1.ConditionTrue
}

// initialization is how long the VM took from its creation until it was complete; ok is
// false if it was complete when it was first seen, or the cloud does not tell when it
// was created.
func initialization(p *pass) (took time.Duration, ok bool) {
	vm := p.did.vm
	if p.seen.before.Spec.ProviderID == "" || vm == nil || vm.Created.IsZero() {
		return 0, false
	}
	return max(p.seen.now.Sub(vm.Created), 0), true
}

// placement is where the machine is, as MCM has it: the instance type of its class, and
// the zone of its node template, else of the class. It is the same for all steps of a
// machine's life, so that they are one series.
func placement(p *pass) (instanceType, zone string) {
	labels := p.machine.Spec.NodeTemplateSpec.Labels
	instanceType, zone = labels[corev1.LabelInstanceTypeStable], labels[corev1.LabelTopologyZone]
	if p.seen.class.Object == nil || p.seen.class.Object.NodeTemplate == nil {
		return instanceType, zone
	}
	template := p.seen.class.Object.NodeTemplate
	return cmp.Or(template.InstanceType, instanceType), cmp.Or(zone, template.Zone)
}
