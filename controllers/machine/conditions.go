package machine

import (
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/outcome"
)

// progressConditions says what the machine waits for, one condition per concern that this
// pass learnt something about. Messages hold no times, so that they change only
// when their meaning does.
func progressConditions(f *facts, failure error, status machinev1.MachineStatus) []metav1.Condition {
	if !f.machine.DeletionTimestamp.IsZero() {
		return deletionConditions(f, failure)
	}
	var found []metav1.Condition
	if len(f.problems) > 0 {
		found = append(found, condition(machinev1.ConditionSpecValid, false, machinev1.ReasonInvalidSpec,
			strings.Join(f.problems, "; ")))
	}
	if len(f.problems) == 0 && len(f.warnings) > 0 {
		found = append(found, condition(machinev1.ConditionSpecValid, true, machinev1.ReasonIgnoredValue,
			strings.Join(f.warnings, "; ")))
	}
	if f.drained != nil {
		found = append(found, condition(machinev1.ConditionDrained, f.drained.done, f.drained.reason, f.drained.message))
	}
	if f.frozen {
		return append(found, condition(machinev1.ConditionNodeReady, false, machinev1.ReasonFrozen,
			"An API server was unreachable for too long, nothing is decided until it answers again"))
	}
	if c, ok := refusedCondition(f, failure); ok {
		return append(found, c)
	}
	if c, ok := vmCondition(f, status); ok {
		found = append(found, c)
	}
	if c, ok := nodeCondition(f, status); ok {
		found = append(found, c)
	}
	return found
}

// reasonRefused is shown when an API server does not let us do what a machine needs.
const reasonRefused = "RequestRefused"

// refusedCondition tells of a failure that lasts until somebody does something about it.
// Those that pass by themselves would only be writes.
func refusedCondition(f *facts, failure error) (metav1.Condition, bool) {
	kind, reason := machinev1.ConditionNodeReady, reasonRefused
	if wantsVM(f.machine) || isCloud(failure) {
		kind = machinev1.ConditionVMReady
	}
	switch {
	case failure == nil:
		return metav1.Condition{}, false
	case isCloud(failure):
		reason = reasonOf(failure)
	case !apierrors.IsForbidden(failure) && !apierrors.IsUnauthorized(failure) && !apierrors.IsInvalid(failure):
		return metav1.Condition{}, false
	}
	return condition(kind, false, reason, failure.Error()), true
}

// vmCondition reports whether the Machine has its VM.
func vmCondition(f *facts, status machinev1.MachineStatus) (metav1.Condition, bool) {
	const kind = machinev1.ConditionVMReady
	switch {
	case f.createErr != nil && status.CurrentStatus.Phase == machinev1.MachineFailed:
		return condition(kind, false, machinev1.ReasonCreationTimedOut,
			fmt.Sprintf("No VM came into being within %s: %s", f.settings.creation, f.createErr)), true
	case f.createErr != nil:
		return condition(kind, false, reasonOf(f.createErr), f.createErr.Error()), true
	case f.created:
		return condition(kind, true, machinev1.ReasonVMRunning, "The VM exists"), true
	case f.waitsFor != nil && wantsVM(f.machine):
		return condition(kind, false, f.waitsFor.reason, f.waitsFor.message), true
	case status.CurrentStatus.Phase == machinev1.MachineRunning:
		return condition(kind, true, machinev1.ReasonVMRunning, "The VM exists"), true // its node says so
	case f.vm == nil:
		return metav1.Condition{}, false
	}
	return conditionOfVM(f.vm, status.CurrentStatus.Phase), true
}

// conditionOfVM is the condition of a VM that the cloud showed.
func conditionOfVM(vm *cloud.VM, phase machinev1.MachinePhase) metav1.Condition {
	const kind = machinev1.ConditionVMReady
	switch {
	case vm.State == cloud.StateStopped:
		return condition(kind, false, machinev1.ReasonVMStopped, vmText("The VM does not run", vm))
	case vm.State == cloud.StateFailed:
		return condition(kind, false, machinev1.ReasonVMFailed, vmText("The VM cannot run", vm))
	case vm.State == cloud.StatePending, phase == "":
		return condition(kind, false, machinev1.ReasonVMPending, vmText("The VM is being made", vm))
	}
	return condition(kind, true, machinev1.ReasonVMRunning, "The VM exists")
}

func vmText(text string, vm *cloud.VM) string {
	for _, more := range []string{vm.Reason, vm.Message} {
		if more != "" {
			text += ": " + more
		}
	}
	return text
}

// nodeCondition reports whether the Machine's node has joined and is healthy.
func nodeCondition(f *facts, status machinev1.MachineStatus) (metav1.Condition, bool) {
	phase := status.CurrentStatus.Phase
	if hasNoNode(f, phase) {
		return metav1.Condition{}, false
	}
	no := func(reason, message string) (metav1.Condition, bool) {
		return condition(machinev1.ConditionNodeReady, false, reason, message), true
	}
	switch {
	case f.otherClaimant != "":
		return no(machinev1.ReasonNodeShared, fmt.Sprintf(
			"Machine %s claims Node %s too; remove the label %s from the Machine that the node does not belong to", f.otherClaimant, f.nodeName, machinev1.NodeLabel))
	case f.waitsFor != nil:
		return no(f.waitsFor.reason, f.waitsFor.message)
	case phase == machinev1.MachinePending && (f.node == nil || justRegistered(f.node, f.now)):
		return no(machinev1.ReasonWaitingForNode, fmt.Sprintf("Node %s has not joined the cluster yet", f.nodeName))
	case f.node == nil && phase != machinev1.MachineRunning:
		return no(machinev1.ReasonNodeNotFound, fmt.Sprintf("Node %s does not exist", f.nodeName))
	case f.node == nil:
		return metav1.Condition{}, false
	}
	return conditionOfNode(f, phase), true
}

// hasNoNode reports whether a Machine in that phase has no node to tell of.
func hasNoNode(f *facts, phase machinev1.MachinePhase) bool {
	switch phase {
	case "", machinev1.MachineCrashLoopBackOff, machinev1.MachineAvailable:
		return true
	}
	return f.nodeName == "" && f.waitsFor == nil
}

// conditionOfNode is the condition of a node that is there.
func conditionOfNode(f *facts, phase machinev1.MachinePhase) metav1.Condition {
	const kind = machinev1.ConditionNodeReady
	unhealthy := unhealthyReason(f.node.Status.Conditions, f.settings.nodeConditions)
	switch {
	case unhealthy != "":
		return condition(kind, false, machinev1.ReasonNodeUnhealthy,
			fmt.Sprintf("Node %s is unhealthy: %s", f.node.Name, unhealthy))
	case phase == machinev1.MachinePending:
		return condition(kind, false, machinev1.ReasonWaitingForComponents,
			fmt.Sprintf("Node %s waits for its critical components, see its taint %s", f.node.Name,
				machinev1.CriticalComponentsNotReadyTaint))
	}
	return condition(kind, true, machinev1.ReasonNodeHealthy, "The node has joined and is healthy")
}

// deletionConditions says what the deletion waits for.
func deletionConditions(f *facts, failure error) []metav1.Condition {
	var found []metav1.Condition
	if f.drained != nil {
		found = append(found, condition(machinev1.ConditionDrained, f.drained.done, f.drained.reason, f.drained.message))
	}
	switch {
	case failure != nil && isCloud(failure):
		found = append(found, condition(machinev1.ConditionDeleted, false, reasonOf(failure), failure.Error()))
	case f.deletionWaitsFor != nil:
		found = append(found, condition(machinev1.ConditionDeleted, false, f.deletionWaitsFor.reason, f.deletionWaitsFor.message))
	}
	return found
}

// obsoleteConditions returns the conditions that do not apply any more.
func obsoleteConditions(f *facts, status machinev1.MachineStatus) []string {
	var done []string
	if len(f.problems) == 0 && len(f.warnings) == 0 {
		done = append(done, machinev1.ConditionSpecValid)
	}
	if !f.machine.DeletionTimestamp.IsZero() || freezeIsOver(f, status) {
		done = append(done, machinev1.ConditionNodeReady)
	}
	if f.machine.DeletionTimestamp.IsZero() && f.drained == nil && status.CurrentStatus.PreserveExpiryTime == nil {
		done = append(done, machinev1.ConditionDrained)
	}
	return done
}

// freezeIsOver reports whether the word about a freeze that is over stands there still,
// because nothing else is to be said about the node.
func freezeIsOver(f *facts, status machinev1.MachineStatus) bool {
	was := findCondition(f.machine.Status.Progress, machinev1.ConditionNodeReady)
	_, said := nodeCondition(f, status)
	return !f.frozen && !said && was != nil && was.Reason == machinev1.ReasonFrozen
}

// reasonOf is the condition reason for a failed call: what the resolver of the
// class found, else what the cloud's code means.
func reasonOf(err error) string {
	e, ok := errors.AsType[*cloud.Error](err)
	if ok && e.Code == cloud.Invalid {
		switch e.Reason {
		case machinev1.ReasonClassNotFound, machinev1.ReasonClassDeleting, machinev1.ReasonSecretNotFound,
			machinev1.ReasonInvalidSecret, machinev1.ReasonInvalidUserData:
			return e.Reason
		}
	}
	return outcome.Reason(err)
}

func condition(kind string, ok bool, reason, message string) metav1.Condition {
	status := metav1.ConditionFalse
	if ok {
		status = metav1.ConditionTrue
	}
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
}
