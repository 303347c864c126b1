package inframachine

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

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
