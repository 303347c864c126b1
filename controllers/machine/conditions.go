package machine

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/evidence"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/outcome"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/vm"
)

// progressConditions are what the machine waits for, one condition per concern that
// this pass found something out about. Messages hold no times, so that they change only
// when their meaning does.
func progressConditions(p *pass, failure error, status machinev1.MachineStatus) []metav1.Condition {
	if !p.machine.DeletionTimestamp.IsZero() {
		return deletionConditions(p, failure)
	}
	var found []metav1.Condition
	if len(p.seen.problems) > 0 {
		found = append(found, condition(machinev1.ConditionSpecValid, false, machinev1.ReasonInvalidSpec,
			strings.Join(p.seen.problems, "; ")))
	}
	if warnings := slices.Concat(p.seen.warnings, p.did.warnings); len(p.seen.problems) == 0 && len(warnings) > 0 {
		found = append(found, condition(machinev1.ConditionSpecValid, true, machinev1.ReasonIgnoredValue,
			strings.Join(warnings, "; ")))
	}
	found = append(found, besideConditions(p)...)
	if p.seen.frozen {
		return append(found, condition(machinev1.ConditionNodeReady, false, machinev1.ReasonFrozen,
			cmp.Or(p.seen.cause, "Machines or Nodes cannot be listed")+"; restore the connection, credentials or "+
				"permissions (machines are neither created nor replaced until then)"))
	}
	if c, ok := refusedCondition(p, failure); ok {
		return append(found, c)
	}
	if c, ok := vmCondition(p, status); ok {
		found = append(found, c)
	}
	if c, ok := nodeCondition(p, status); ok {
		found = append(found, withConsole(p, status.CurrentStatus.Phase, c))
	}
	return found
}

// besideConditions are about what goes on beside the VM and the node's health.
func besideConditions(p *pass) []metav1.Condition {
	var found []metav1.Condition
	if p.did.drained != nil {
		found = append(found, drainCondition(p.did.drained))
	}
	for _, u := range p.upkeeps() {
		if u.Reason != "" {
			found = append(found, condition(u.condition, u.Done, u.Reason, u.Message))
		}
	}
	return found
}

// reasonRefused is shown when an API server does not let us do what a machine needs.
const reasonRefused = "RequestRefused"

// refusedCondition is the condition of a failure that lasts until somebody acts.
// Those that pass by themselves would only be writes.
func refusedCondition(p *pass, failure error) (metav1.Condition, bool) {
	kind, reason := machinev1.ConditionNodeReady, reasonRefused
	if wantsVM(p.machine) || outcome.IsCloud(failure) {
		kind = machinev1.ConditionVMReady
	}
	switch {
	case failure == nil:
		return metav1.Condition{}, false
	case outcome.IsCloud(failure):
		reason = outcome.Reason(failure)
	case !apierrors.IsForbidden(failure) && !apierrors.IsUnauthorized(failure) && !apierrors.IsInvalid(failure):
		return metav1.Condition{}, false
	}
	return condition(kind, false, reason, failure.Error()), true
}

// vmCondition reports whether the Machine has its VM.
func vmCondition(p *pass, status machinev1.MachineStatus) (metav1.Condition, bool) {
	const kind = machinev1.ConditionVMReady
	switch {
	case p.did.createErr != nil && status.CurrentStatus.Phase == machinev1.MachineFailed:
		return condition(kind, false, machinev1.ReasonCreationTimedOut,
			fmt.Sprintf("VM not created within %s: %s", p.seen.settings.creation, p.did.createErr)), true
	case p.did.createErr != nil:
		text := p.did.createErr.Error()
		if p.did.otherClasses != "" {
			text += "; other classes: " + p.did.otherClasses
		}
		return condition(kind, false, outcome.Reason(p.did.createErr), text), true
	case p.did.created:
		return condition(kind, true, machinev1.ReasonVMRunning, "The VM exists"), true
	case p.did.waitsFor != nil && wantsVM(p.machine):
		return condition(kind, false, p.did.waitsFor.reason, p.did.waitsFor.message), true
	case status.CurrentStatus.Phase == machinev1.MachineRunning:
		return condition(kind, true, machinev1.ReasonVMRunning, "The VM exists"), true // its node proves it
	case p.did.vm == nil:
		return metav1.Condition{}, false
	}
	return conditionOfVM(p.did.vm, status.CurrentStatus.Phase), true
}

// conditionOfVM is the condition of a VM that the cloud showed.
func conditionOfVM(seen *cloud.VM, phase machinev1.MachinePhase) metav1.Condition {
	const kind = machinev1.ConditionVMReady
	switch {
	case seen.State == cloud.StateStopped:
		return condition(kind, false, machinev1.ReasonVMStopped, vm.StateMessage("VM stopped", *seen))
	case seen.State == cloud.StateFailed:
		return condition(kind, false, machinev1.ReasonVMFailed, vm.StateMessage("VM failed", *seen))
	case seen.State == cloud.StatePending, phase == "":
		return condition(kind, false, machinev1.ReasonVMPending, vm.StateMessage("VM is being created", *seen))
	}
	return condition(kind, true, machinev1.ReasonVMRunning, "The VM exists")
}

// nodeCondition reports whether the Machine's node has joined and is healthy.
func nodeCondition(p *pass, status machinev1.MachineStatus) (metav1.Condition, bool) {
	phase := status.CurrentStatus.Phase
	if hasNoNode(p, phase) {
		return metav1.Condition{}, false
	}
	no := func(reason, message string) (metav1.Condition, bool) {
		return condition(machinev1.ConditionNodeReady, false, reason, message), true
	}
	switch {
	case p.otherClaimant != "":
		return no(machinev1.ReasonNodeShared, fmt.Sprintf(
			"Machine %s claims Node %s too; remove the label %s from the Machine that the node does not belong to",
			p.otherClaimant, p.nodeName, machinev1.NodeLabel))
	case p.did.waitsFor != nil:
		return no(p.did.waitsFor.reason, p.did.waitsFor.message)
	case phase == machinev1.MachinePending && (p.node == nil || justRegistered(p.node, p.seen.now)):
		return no(machinev1.ReasonWaitingForNode, fmt.Sprintf("Node %s has not joined the cluster yet", p.nodeName))
	case p.node == nil && phase != machinev1.MachineRunning:
		return no(machinev1.ReasonNodeNotFound, fmt.Sprintf("Node %s does not exist", p.nodeName))
	case p.node == nil:
		return metav1.Condition{}, false
	}
	return conditionOfNode(p, phase), true
}

// hasNoNode reports whether a Machine in that phase has no node to report.
func hasNoNode(p *pass, phase machinev1.MachinePhase) bool {
	switch phase {
	case "", machinev1.MachineCrashLoopBackOff, machinev1.MachineAvailable:
		return true
	}
	return p.nodeName == "" && p.did.waitsFor == nil
}

// conditionOfNode is the condition of a node that is there.
func conditionOfNode(p *pass, phase machinev1.MachinePhase) metav1.Condition {
	const kind = machinev1.ConditionNodeReady
	unhealthy := unhealthyReason(p.node.Status.Conditions, p.seen.settings.nodeConditions)
	switch {
	case unhealthy != "":
		return condition(kind, false, machinev1.ReasonNodeUnhealthy,
			fmt.Sprintf("Node %s is unhealthy: %s", p.node.Name, unhealthy))
	case phase == machinev1.MachinePending:
		return condition(kind, false, machinev1.ReasonWaitingForComponents,
			fmt.Sprintf("Node %s waits for its critical components, see its taint %s", p.node.Name,
				machinev1.CriticalComponentsNotReadyTaint))
	case machinev1.IsNodeDeletionHeld(p.node):
		return condition(kind, true, machinev1.ReasonNodeDeletionHeld, fmt.Sprintf("Node %s is healthy and is being deleted "+
			"together with many others: the machine is kept; delete the Machine, or set annotation %s: %s on the node, to "+
			"delete it now", p.node.Name, machinev1.NodeDeletionAnnotation, machinev1.NodeDeletionApproved))
	}
	return condition(kind, true, machinev1.ReasonNodeHealthy, "The node has joined and is healthy")
}

// deletionConditions are what the deletion waits for.
func deletionConditions(p *pass, failure error) []metav1.Condition {
	var found []metav1.Condition
	if p.did.drained != nil {
		found = append(found, drainCondition(p.did.drained))
	}
	switch {
	case failure != nil && outcome.IsCloud(failure):
		found = append(found, condition(machinev1.ConditionDeleted, false, outcome.Reason(failure), failure.Error()))
	case p.did.deletionWaitsFor != nil:
		found = append(found, condition(machinev1.ConditionDeleted, false, p.did.deletionWaitsFor.reason,
			p.did.deletionWaitsFor.message))
	}
	return found
}

// obsoleteConditions returns the conditions that do not apply any more.
func obsoleteConditions(p *pass, status machinev1.MachineStatus) []string {
	var done []string
	if len(p.seen.problems) == 0 && len(p.seen.warnings)+len(p.did.warnings) == 0 {
		done = append(done, machinev1.ConditionSpecValid)
	}
	done = append(done, obsoleteBeside(p)...)
	if !p.machine.DeletionTimestamp.IsZero() || freezeIsOver(p, status) {
		done = append(done, machinev1.ConditionNodeReady)
	}
	if p.machine.DeletionTimestamp.IsZero() && p.did.drained == nil && status.CurrentStatus.PreserveExpiryTime == nil {
		done = append(done, machinev1.ConditionDrained)
	}
	return done
}

// obsoleteBeside returns those of besideConditions about VMs that do not apply any more.
func obsoleteBeside(p *pass) []string {
	var done []string
	going := !p.machine.DeletionTimestamp.IsZero()
	for _, u := range p.upkeeps() {
		if going || u.None {
			done = append(done, u.condition)
		}
	}
	return done
}

// freezeIsOver reports whether the condition still shows a freeze that is over,
// because nothing else replaces it.
func freezeIsOver(p *pass, status machinev1.MachineStatus) bool {
	was := findCondition(p.machine.Status.Progress, machinev1.ConditionNodeReady)
	_, said := nodeCondition(p, status)
	return !p.seen.frozen && !said && was != nil && was.Reason == machinev1.ReasonFrozen
}

func drainCondition(d *drainState) metav1.Condition {
	return condition(machinev1.ConditionDrained, d.done, d.reason, d.message)
}

func condition(kind string, ok bool, reason, message string) metav1.Condition {
	status := metav1.ConditionFalse
	if ok {
		status = metav1.ConditionTrue
	}
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
}

// withConsole adds to the condition of a machine that did not join what its console says. The
// passes after the one that read it leave that as it is.
func withConsole(p *pass, phase machinev1.MachinePhase, c metav1.Condition) metav1.Condition {
	if phase != machinev1.MachineFailed || c.Status == metav1.ConditionTrue {
		return c
	}
	if p.did.console != nil {
		c.Message += evidence.Suffix(*p.did.console)
		return c
	}
	was := findCondition(p.machine.Status.Progress, c.Type)
	if was != nil && was.Reason == c.Reason && strings.HasPrefix(was.Message, c.Message+evidence.Mark) {
		c.Message = was.Message
	}
	return c
}
