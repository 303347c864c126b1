package machine

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

// announce tells about what changed in this pass. What did not change was told
// before.
func (c *Controller) announce(f *facts) {
	for _, e := range f.events {
		c.Events.Event(f.machine, e.kind, e.reason, e.message)
	}
	if f.released {
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
		if changed, ok := worsened(f, kind.condition); ok {
			c.Events.Event(f.machine, corev1.EventTypeWarning, kind.reason, changed.Message)
		}
	}
	if is := find(f.machine.Status.Progress, machinev1.ConditionSpecValid); is != nil &&
		is.Reason == machinev1.ReasonIgnoredValue {
		was := find(f.before.Status.Progress, machinev1.ConditionSpecValid)
		if was == nil || was.Message != is.Message {
			c.Events.Event(f.machine, corev1.EventTypeWarning, eventIgnoredValue, is.Message)
		}
	}
}

// phaseEvent is the Event of a change of phase that a person would ask about.
func phaseEvent(f *facts) (notice, bool) {
	was, is := f.before.Status.CurrentStatus.Phase, f.machine.Status.CurrentStatus.Phase
	text := f.machine.Status.LastOperation.Description
	if was == is {
		return notice{}, false
	}
	switch is {
	case machinev1.MachineRunning:
		if was == machinev1.MachinePending {
			return notice{corev1.EventTypeNormal, eventJoined, fmt.Sprintf("VM %s joined as Node %s", f.machine.Spec.ProviderID,
				f.nodeName)}, true
		}
		return notice{corev1.EventTypeNormal, eventRecovered, text}, true
	case machinev1.MachineAvailable:
		return notice{corev1.EventTypeNormal, eventCreated, "VM " + f.machine.Spec.ProviderID + " exists"}, true
	case machinev1.MachineUnknown:
		return notice{corev1.EventTypeWarning, eventUnhealthy, text}, true
	case machinev1.MachineFailed:
		return notice{corev1.EventTypeWarning, eventFailed, text}, true
	case machinev1.MachineInPlaceUpdating, machinev1.MachineInPlaceUpdateSuccessful:
		return notice{corev1.EventTypeNormal, eventUpdated, text}, true
	case machinev1.MachineInPlaceUpdateFailed:
		return notice{corev1.EventTypeWarning, eventUpdated, text}, true
	case "", machinev1.MachinePending, machinev1.MachineTerminating, machinev1.MachineCrashLoopBackOff:
		return notice{}, false
	}
	return notice{}, false
}

// worsened returns the condition of that type if this pass made it False for a
// reason that is a fault, and says so for the first time.
func worsened(f *facts, kind string) (metav1.Condition, bool) {
	is := find(f.machine.Status.Progress, kind)
	was := find(f.before.Status.Progress, kind)
	if is == nil || is.Status != metav1.ConditionFalse || ordinary(is.Reason) {
		return metav1.Condition{}, false
	}
	if was != nil && was.Status == is.Status && was.Reason == is.Reason && was.Message == is.Message {
		return metav1.Condition{}, false
	}
	return *is, true
}

// ordinary reports whether waiting for that reason is the normal course of things.
func ordinary(reason string) bool {
	switch reason {
	case machinev1.ReasonVMPending, machinev1.ReasonDraining, machinev1.ReasonDetachingVolumes, machinev1.ReasonDeletingVM, machinev1.ReasonDeletingNode,
		machinev1.ReasonNameInUse,
		machinev1.ReasonOutage: // its pool is told
		return true
	}
	return false
}

func find(p *machinev1.Progress, kind string) *metav1.Condition {
	if p == nil {
		return nil
	}
	return meta.FindStatusCondition(p.Conditions, kind)
}
