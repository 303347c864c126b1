package machine

import (
	"cmp"
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/joining"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/message"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/outcome"
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
