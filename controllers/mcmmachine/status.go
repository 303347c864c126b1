package mcmmachine

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/capi"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/evidence"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/vm"
)

// report is the status that follows from p. It is pure, and the only code that
// builds an MCMMachineStatus: equal passes give equal bytes. What
// nothing was found out about stays. A paused object reports only that it is paused.
func report(p *pass) infrav1.MCMMachineStatus {
	status := *p.object.Status.DeepCopy()
	set := func(c metav1.Condition) { capi.SetCondition(&status.Conditions, c, p.object.Generation, p.seen.now) }
	set(capi.PausedCondition(p.seen.paused))
	if p.seen.paused != "" {
		return status
	}
	reportVM(p, &status)
	setIf := func(kind string, w *condition) {
		if w != nil {
			set(metav1.Condition{Type: kind, Status: w.status, Reason: w.reason, Message: w.message})
		}
	}
	status.MachineClassName = madeFrom(p.object)
	setIf(infrav1.VMProvisionedCondition, p.did.vmCondition)
	setIf(infrav1.IPAddressesClaimedCondition, p.did.addressCondition)
	setIf(infrav1.CloudReachableCondition, stable(status.Conditions, infrav1.CloudReachableCondition,
		p.did.cloudCondition))
	setIf(infrav1.CredentialsAvailableCondition, stable(status.Conditions, infrav1.CredentialsAvailableCondition,
		p.did.credentialsCondition))
	setIf(infrav1.NodeSyncedCondition, p.did.nodeCondition)
	if p.did.nodeConditionObsolete {
		meta.RemoveStatusCondition(&status.Conditions, infrav1.NodeSyncedCondition)
	}
	for _, condition := range vm.UpkeepConditions {
		u := p.did.upkeep[condition]
		setIf(condition, stable(status.Conditions, condition, shown(u)))
		if u.None {
			meta.RemoveStatusCondition(&status.Conditions, condition)
		}
	}
	if !p.object.DeletionTimestamp.IsZero() {
		set(deleting(p))
	}
	set(ready(p, status))
	observeGeneration(&status, p)
	return status
}

// reportVM fills in what the cloud showed of the VM.
func reportVM(p *pass, status *infrav1.MCMMachineStatus) {
	if p.did.vm == nil || !p.object.DeletionTimestamp.IsZero() {
		return
	}
	if found := addresses(p.did.vm.Addresses); len(found) > 0 {
		status.Addresses = found
	}
	if p.did.vm.Zone != "" {
		status.FailureDomain = p.did.vm.Zone
	}
	status.Interruptible = interruptible(p.seen.class)
	ready := p.did.vmCondition != nil && p.did.vmCondition.status == metav1.ConditionTrue
	if p.did.complete && p.object.Spec.ProviderID != "" && ready {
		status.Initialization.Provisioned = new(true)
	}
}

// ready is the summary: it follows the VM and nothing else, so that neither a
// throttled API nor credentials that have expired make a running machine unready.
func ready(p *pass, status infrav1.MCMMachineStatus) metav1.Condition {
	c := metav1.Condition{Type: clusterv1.ReadyCondition}
	if !p.object.DeletionTimestamp.IsZero() {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, infrav1.ReasonDeleting, deleting(p).Message
		return c
	}
	vm := meta.FindStatusCondition(status.Conditions, infrav1.VMProvisionedCondition)
	switch {
	case vm == nil:
		c.Status, c.Reason = metav1.ConditionUnknown, machinev1.ReasonVMPending
	case vm.Status == metav1.ConditionTrue:
		c.Status, c.Reason = vm.Status, infrav1.ReasonReady
	default:
		c.Status, c.Reason, c.Message = vm.Status, vm.Reason, vm.Message
	}
	return c
}

// deleting is what the deletion waits for.
func deleting(p *pass) metav1.Condition {
	c := metav1.Condition{Type: clusterv1.DeletingCondition, Status: metav1.ConditionTrue, Reason: infrav1.ReasonDeleting}
	if p.did.deletionWaitsFor != nil {
		c.Reason, c.Message = p.did.deletionWaitsFor.reason, p.did.deletionWaitsFor.message
	}
	if p.did.console != nil {
		c.Message += evidence.Suffix(*p.did.console)
	}
	return c
}

// stable keeps the message of a condition whose reason has not changed, where the
// cloud wrote it: that differs from call to call, and each change is a write.
// What is wrong with class or Secret is always shown as it is now.
func stable(conditions []metav1.Condition, kind string, w *condition) *condition {
	was := meta.FindStatusCondition(conditions, kind)
	if w == nil || was == nil || was.Status != w.status || was.Reason != w.reason || !messageFromCloud(w.reason) {
		return w
	}
	return &condition{w.status, w.reason, was.Message}
}

func messageFromCloud(reason string) bool {
	switch reason {
	case machinev1.ReasonCloudThrottled, machinev1.ReasonCloudUnavailable, machinev1.ReasonCloudError,
		machinev1.ReasonCredentialsRefused:
		return true
	}
	return false
}

// observeGeneration notes of every condition that it holds for the object as it is now.
func observeGeneration(status *infrav1.MCMMachineStatus, p *pass) {
	for i := range status.Conditions {
		status.Conditions[i].ObservedGeneration = p.object.Generation
	}
}

var addressTypes = []clusterv1.MachineAddressType{
	clusterv1.MachineHostName, clusterv1.MachineInternalIP, clusterv1.MachineExternalIP, clusterv1.MachineInternalDNS,
	clusterv1.MachineExternalDNS,
}

// addresses are those of the VM as Cluster API knows them, each once, sorted.
func addresses(of []cloud.Address) clusterv1.MachineAddresses {
	var out clusterv1.MachineAddresses
	for _, a := range of {
		if a.Value == "" || !slices.Contains(addressTypes, clusterv1.MachineAddressType(a.Kind)) {
			continue // the API server would refuse the whole status
		}
		found := clusterv1.MachineAddress{Type: clusterv1.MachineAddressType(a.Kind), Address: a.Value}
		if !slices.Contains(out, found) {
			out = append(out, found)
		}
	}
	slices.SortFunc(out, func(a, b clusterv1.MachineAddress) int {
		return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.Address, b.Address))
	})
	return out
}

// Reasons of Events on MCMMachines, besides the reasons of conditions.
const (
	eventCreated   = "Created"
	eventDeleted   = "Deleted"
	eventReleased  = "ReleasedWithoutVM"
	eventRetained  = "RetainedVM"
	eventRewritten = "ProviderIDRewritten"
	eventNodeLeft  = "NodeLeft"
	// What the console of a machine says that did not join. The native API has the same.
	eventConsole = "ConsoleRead"
	// The VM stays, and with it its address.
	eventClaimRetained = "RetainedIPAddressClaim"
	// The native API has the same.
	eventInvalidNote = "InvalidAnnotation"
)

// emitEvents emits Events about what happened in this pass, once for each fault.
func (c *Controller) emitEvents(p *pass) {
	for _, e := range p.did.events {
		c.Events.Event(p.object, e.kind, e.reason, e.message)
	}
	if p.did.finalizerRemoved || p.seen.paused != "" {
		return
	}
	for _, kind := range eventConditions(p) {
		was := meta.FindStatusCondition(p.seen.before.Status.Conditions, kind)
		is := meta.FindStatusCondition(p.object.Status.Conditions, kind)
		if is == nil || expected(*is) || was != nil && was.Reason == is.Reason && was.Message == is.Message {
			continue
		}
		c.Events.Event(p.object, corev1.EventTypeWarning, is.Reason, is.Message)
	}
}

// eventConditions are the conditions whose faults are Events. What both the VM and its
// addresses wait for makes one Event.
func eventConditions(p *pass) []string {
	kinds := []string{
		infrav1.VMProvisionedCondition, infrav1.CloudReachableCondition, infrav1.CredentialsAvailableCondition,
		infrav1.NodeSyncedCondition, infrav1.TagsUpdatedCondition, infrav1.BootDataRemovedCondition,
		infrav1.LoadBalancerRegisteredCondition,
		clusterv1.DeletingCondition,
	}
	if p.did.vmCondition != p.did.addressCondition {
		kinds = append(kinds, infrav1.IPAddressesClaimedCondition)
	}
	return kinds
}

// expected reports whether a condition shows the normal course of things.
func expected(c metav1.Condition) bool {
	if c.Status == metav1.ConditionTrue && c.Type != clusterv1.DeletingCondition {
		return true
	}
	switch c.Reason {
	case infrav1.ReasonWaitingForMachine, infrav1.ReasonWaitingForCluster, infrav1.ReasonWaitingForInfra,
		infrav1.ReasonWaitingForBootstrap,
		infrav1.ReasonWaitingForAddresses, infrav1.ReasonWaitingForIPAddresses, infrav1.ReasonDeleting,
		infrav1.ReasonClassChanged, machinev1.ReasonVMPending,
		machinev1.ReasonVMNotFound,
		machinev1.ReasonRegistering, machinev1.ReasonDeregistering,
		machinev1.ReasonDeletingVM, machinev1.ReasonDeletingNode, machinev1.ReasonTokenUsed:
		return true
	}
	return false
}
