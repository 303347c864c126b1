package machine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/evidence"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/joining"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/message"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/outcome"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/vm"
)

// report is the status that follows from p; failure is why the pass ended
// early, nil if it did not. It is pure, and the only code that builds a
// MachineStatus: equal facts give equal bytes, so an unchanged Machine is not
// written. Times move only with what they belong to.
func report(p *pass, failure error) machinev1.MachineStatus {
	prev := p.machine.Status
	status := *prev.DeepCopy()
	if !p.machine.DeletionTimestamp.IsZero() {
		reportDeletion(p, failure, &status)
	} else {
		reportCreation(p, &status)
	}
	reportNode(p, prev, &status)
	reportJoined(p, &status)
	reportFailure(&status)
	reportPreservation(p, &status)
	conditions := []metav1.Condition{}
	if status.Progress != nil {
		conditions = status.Progress.Conditions
	}
	for _, c := range progressConditions(p, failure, status) {
		c.ObservedGeneration = p.machine.Generation
		c.LastTransitionTime = metav1.NewTime(p.seen.now)
		c.Message = message.Truncate(c.Message, message.Limit)
		meta.SetStatusCondition(&conditions, c)
	}
	for _, kind := range obsoleteConditions(p, status) {
		meta.RemoveStatusCondition(&conditions, kind)
	}
	status.Progress = nil
	if len(conditions) > 0 {
		status.Progress = &machinev1.Progress{Conditions: conditions}
	}
	if !p.seen.settings.recordsJoin && !equality.Semantic.DeepEqual(prev, status) {
		status.Conditions = joining.OfNode(status.Conditions) // no write only for that
	}
	stamp(prev, &status, p.seen.now)
	if p.did.restartHealthTimeout {
		status.CurrentStatus.LastUpdateTime = metav1.NewTime(p.seen.now.Truncate(time.Second))
	}
	return status
}

// reportCreation sets phase and operation of a Machine that is to be there.
func reportCreation(p *pass, status *machinev1.MachineStatus) {
	if p.did.createErr != nil {
		reportCreateError(p, status)
		return
	}
	if p.did.transition == nil {
		return
	}
	status.CurrentStatus.Phase = p.did.transition.phase
	status.CurrentStatus.TimeoutActive = p.did.transition.phase == machinev1.MachinePending
	status.LastOperation.Description = p.did.transition.description
	status.LastOperation.ErrorCode = p.did.transition.errorCode
	status.LastOperation.State = p.did.transition.state
	status.LastOperation.Type = p.did.transition.operation
	if p.did.created {
		status.LastKnownState = ""
	}
	if p.did.transition.phase == machinev1.MachineAvailable && p.did.vm != nil {
		status.Addresses = addresses(p.did.vm)
	}
}

// reportCreateError shows a failed create as MCM does: CrashLoopBackOff, and
// Failed once the creation timeout has passed. A class that is missing is not
// the machine's fault, so that never fails it.
func reportCreateError(p *pass, status *machinev1.MachineStatus) {
	phase := machinev1.MachineCrashLoopBackOff
	late := p.seen.now.Sub(p.machine.CreationTimestamp.Time) >= p.seen.settings.creation
	if late && !classOrSecretMissing(p.did.createErr) {
		phase = machinev1.MachineFailed
	}
	status.CurrentStatus.Phase = phase
	status.CurrentStatus.TimeoutActive = false
	status.LastOperation.Description = message.Truncate("Cloud provider message - "+p.did.createErr.Error(), message.Limit)
	status.LastOperation.ErrorCode = outcome.MCMCode(p.did.createErr)
	status.LastOperation.State = machinev1.MachineStateFailed
	status.LastOperation.Type = machinev1.MachineOperationCreate
}

// reportFailure shows the upstream autoscaler a VM that will not come soon: it
// takes the machine back and tries another pool.
func reportFailure(status *machinev1.MachineStatus) {
	op := status.LastOperation
	status.Phase, status.FailureMessage = "", nil
	if op.Type != machinev1.MachineOperationCreate || op.State != machinev1.MachineStateFailed || status.NodeRef != nil {
		return
	}
	if op.ErrorCode == outcome.ResourceExhausted || status.CurrentStatus.Phase == machinev1.MachineFailed {
		status.Phase, status.FailureMessage = string(machinev1.MachineFailed), &op.Description
	}
}

// classOrSecretMissing reports whether err only means that something does not exist yet.
func classOrSecretMissing(err error) bool {
	switch outcome.Reason(err) {
	case machinev1.ReasonClassNotFound, machinev1.ReasonClassDeleting, machinev1.ReasonSecretNotFound:
		return true
	}
	return false
}

// reportDeletion sets phase and operation of a Machine that is being deleted.
func reportDeletion(p *pass, failure error, status *machinev1.MachineStatus) {
	status.CurrentStatus.Phase = machinev1.MachineTerminating
	status.CurrentStatus.TimeoutActive = false
	status.CurrentStatus.PreserveExpiryTime = nil
	status.LastOperation.Type = machinev1.MachineOperationDelete
	status.LastOperation.ErrorCode = ""
	switch {
	case failure != nil:
		status.LastOperation.State = machinev1.MachineStateFailed
		status.LastOperation.Description = withStep(failure.Error(), p)
		if outcome.IsCloud(failure) {
			status.LastOperation.ErrorCode = outcome.MCMCode(failure)
		}
	case p.did.deletionWaitsFor != nil:
		status.LastOperation.State = machinev1.MachineStateProcessing
		if p.did.deletionBlocked {
			status.LastOperation.State = machinev1.MachineStateFailed
		}
		status.LastOperation.Description = withStep(p.did.deletionWaitsFor.message, p)
	}
}

// withStep adds MCM's name of the step that p ended in to a text, for observers
// and for an MCM that takes over: it continues with the step that it finds
// there, so naming a later one would make it skip what has not been done.
func withStep(text string, p *pass) string {
	return message.Truncate(text, message.Limit) + ". " + p.did.step
}

// reportNode copies the node's conditions when one of their statuses changed,
// as MCM does, and names the node once it has registered.
func reportNode(p *pass, prev machinev1.MachineStatus, status *machinev1.MachineStatus) {
	if p.node == nil || p.otherClaimant != "" {
		return
	}
	quiet := status.CurrentStatus.Phase == machinev1.MachinePending && justRegistered(p.node, p.seen.now)
	if quiet || status.CurrentStatus.Phase == "" {
		return
	}
	status.NodeRef = &machinev1.NodeReference{Kind: "Node", Name: p.node.Name}
	if conditionsChanged(joining.OfNode(prev.Conditions), p.node.Status.Conditions) {
		status.Conditions = p.node.DeepCopy().Status.Conditions
		if joined := joining.Recorded(p.machine); joined != nil {
			status.Conditions = joining.Record(status.Conditions, *joined)
		}
	}
}

// reportJoined records that the machine has joined, or has not in time: its
// MachineDeployment adapts the creation timeout to that. While none does, the conditions are
// those of the node alone, as in MCM.
func reportJoined(p *pass, status *machinev1.MachineStatus) {
	t := p.did.transition
	if !p.seen.settings.recordsJoin || t == nil || t.joined == "" || p.did.createErr != nil {
		return
	}
	c := corev1.NodeCondition{
		Status: t.joined, Reason: machinev1.ReasonJoined, Message: t.description,
		LastTransitionTime: metav1.NewTime(p.seen.now), LastHeartbeatTime: metav1.NewTime(p.seen.now),
	}
	if t.joined == corev1.ConditionFalse {
		c.Reason = machinev1.ReasonFailedJoin
	}
	status.Conditions = joining.Record(status.Conditions, c)
}

// conditionsChanged reports whether a type came or went or a status changed; of
// the in-place condition also the reason counts. Heartbeats do not.
func conditionsChanged(old, current []corev1.NodeCondition) bool {
	if len(old) != len(current) {
		return true
	}
	seen := map[corev1.NodeConditionType]corev1.NodeCondition{}
	for _, c := range old {
		seen[c.Type] = c
	}
	for _, c := range current {
		was, ok := seen[c.Type]
		if !ok || was.Status != c.Status || (c.Type == machinev1.NodeInPlaceUpdate && was.Reason != c.Reason) {
			return true
		}
	}
	return false
}

// addresses are those of the VM, with the node's name as host name, each once,
// by type and address as MCM sorts them.
func addresses(vm *cloud.VM) []corev1.NodeAddress {
	all := []cloud.Address{}
	if vm.NodeName != "" {
		all = append(all, cloud.Address{Kind: string(corev1.NodeHostName), Value: vm.NodeName})
	}
	seen := map[cloud.Address]bool{}
	var out []corev1.NodeAddress
	for _, a := range append(all, vm.Addresses...) {
		if !seen[a] {
			seen[a] = true
			out = append(out, corev1.NodeAddress{Type: corev1.NodeAddressType(a.Kind), Address: a.Value})
		}
	}
	slices.SortFunc(out, func(a, b corev1.NodeAddress) int {
		return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.Address, b.Address))
	})
	return out
}

// stamp moves the times of what changed, and only those.
func stamp(prev machinev1.MachineStatus, status *machinev1.MachineStatus, now time.Time) {
	at := metav1.NewTime(now.Truncate(time.Second))
	was, is := prev.LastOperation, status.LastOperation
	was.LastUpdateTime, is.LastUpdateTime = metav1.Time{}, metav1.Time{}
	if was != is {
		status.LastOperation.LastUpdateTime = at
	}
	expiry := !prev.CurrentStatus.PreserveExpiryTime.Equal(status.CurrentStatus.PreserveExpiryTime)
	if prev.CurrentStatus.Phase != status.CurrentStatus.Phase || expiry {
		status.CurrentStatus.LastUpdateTime = at
	}
}

// prunedFields is what this project adds to a Machine's status, and what an API
// server with MCM's own CRDs drops.
type prunedFields struct {
	nodeRef        *machinev1.NodeReference
	progress       *machinev1.Progress
	phase          string
	failureMessage *string
}

// restorePruned puts back into m what the API server dropped.
func (c *Controller) restorePruned(m *machinev1.Machine) {
	if c.pruned.Known() && m.Status.Progress == nil && m.Status.NodeRef == nil {
		c.pruned.Get(m.UID).applyTo(&m.Status)
	}
}

// omitPruned removes from both sides of a patch what the API server is known to drop.
func (c *Controller) omitPruned(before, after *machinev1.Machine) {
	if c.pruned.Known() {
		prunedFields{}.applyTo(&before.Status)
		prunedFields{}.applyTo(&after.Status)
	}
}

// rememberPruned compares the change from before to wanted, which was sent, with what
// the API server made of it in m, and restores what it dropped.
func (c *Controller) rememberPruned(ctx context.Context, m *machinev1.Machine, before, wanted machinev1.MachineStatus) {
	sent := wanted.Progress != nil && !equality.Semantic.DeepEqual(before.Progress, wanted.Progress)
	if sent && m.Status.Progress == nil && !c.pruned.Known() {
		c.pruned.Learn(ctx, machinev1.MachineKind, "status.progress", "status.nodeRef", "status.phase",
			"status.failureMessage")
	}
	if c.pruned.Known() {
		c.pruned.Keep(m.UID, prunedFieldsOf(wanted))
		c.restorePruned(m)
	}
}

// changesOnlyPruned reports whether status differs from that of m only in what the API
// server prunes. Then there is nothing to write, and status is remembered.
func (c *Controller) changesOnlyPruned(m *machinev1.Machine, status machinev1.MachineStatus) bool {
	if !c.pruned.Known() {
		return false
	}
	was, is := m.Status, status
	prunedFields{}.applyTo(&was)
	prunedFields{}.applyTo(&is)
	if !equality.Semantic.DeepEqual(was, is) {
		return false
	}
	c.pruned.Keep(m.UID, prunedFieldsOf(status))
	return true
}

func prunedFieldsOf(s machinev1.MachineStatus) prunedFields {
	return prunedFields{
		nodeRef: s.NodeRef.DeepCopy(), progress: s.Progress.DeepCopy(), phase: s.Phase,
		failureMessage: s.FailureMessage,
	}
}

// applyTo makes a the additions of s.
func (a prunedFields) applyTo(s *machinev1.MachineStatus) {
	s.NodeRef, s.Progress = a.nodeRef.DeepCopy(), a.progress.DeepCopy()
	s.Phase, s.FailureMessage = a.phase, a.failureMessage
}

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
	for _, kind := range vm.UpkeepConditions {
		if u := p.did.upkeep[kind]; u.Reason != "" {
			found = append(found, condition(kind, u.Done, u.Reason, u.Message))
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
	for _, kind := range vm.UpkeepConditions {
		if going || p.did.upkeep[kind].None {
			done = append(done, kind)
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
