package explain

import (
	"cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
)

// capiMachine adds the steps of a Machine of Cluster API, with those of its MCMConfig and
// MCMMachine.
func (c *chain) capiMachine(o *Object) {
	infra, boot := c.facts.child(o, KindMCMMachine), c.facts.child(o, KindMCMConfig)
	if infra != nil && o.Class == "" {
		o.Class = infra.Class
	}
	c.done(stepAsked, o, c.asked(o), o.Created)
	owner := c.facts.named(KindCluster, o.Namespace, o.Cluster)
	for _, held := range []*Object{owner, o, infra} {
		if held != nil && c.missing() == nil {
			c.mustNot(held, conditionPaused, conditionHeld)
		}
	}
	if o.Deleting != nil {
		c.capiDeletion(o, infra)
		return
	}
	if owner != nil && !provisioned(infra) {
		c.clusterReady(owner)
	}
	c.bootData(o, boot)
	c.capiVM(o, infra)
	c.registered(infra, o.Joined)
	c.capiNode(o, boot)
	c.upkeep(infra)
}

// provisioned reports whether there is a VM, so that what comes before it is over.
func provisioned(infra *Object) bool {
	if infra == nil {
		return false
	}
	cond := infra.condition(infrav1.VMProvisionedCondition)
	return cond != nil && cond.Status == metav1.ConditionTrue
}

// clusterReady adds the steps of a Cluster that come before any machine. What the
// objects behind a condition report is more exact than the Cluster's summary of it.
func (c *chain) clusterReady(o *Object) {
	c.clusterPart(stepCluster, o, clusterv1.ClusterInfrastructureReadyCondition, c.part(o, KindMCMCluster))
	c.clusterPart(stepPlane, o, clusterv1.ClusterControlPlaneInitializedCondition, c.part(o, KindControlPlane))
}

// part is the object of a kind that belongs to a Cluster; nil if there is none.
func (c *chain) part(o *Object, kind string) *Object {
	if found := c.facts.child(o, kind); found != nil {
		return found
	}
	for _, other := range c.facts.Objects {
		if other.Kind == kind && other.Namespace == o.Namespace && other.Cluster == o.Name {
			return other
		}
	}
	return nil
}

func (c *chain) clusterPart(name string, o *Object, kind string, behind *Object) {
	cond := o.condition(kind)
	if behind != nil && (cond == nil || cond.Status != metav1.ConditionTrue) {
		ready := behind.condition(clusterv1.ReadyCondition)
		if ready != nil && ready.Status != metav1.ConditionTrue {
			c.lacks(name, behind, *ready)
			return
		}
	}
	c.must(name, o, kind)
}

// bootData adds the step of the bootstrap provider; boot is nil for another provider's.
func (c *chain) bootData(o, boot *Object) {
	if boot == nil {
		if o.condition(clusterv1.MachineBootstrapConfigReadyCondition) != nil {
			c.must(stepBoot, o, clusterv1.MachineBootstrapConfigReadyCondition)
		}
		return
	}
	c.must(stepBoot, boot, clusterv1.ReadyCondition)
}

// capiVM adds the step of the VM; infra is nil for another provider's.
func (c *chain) capiVM(o, infra *Object) {
	if infra == nil {
		c.must(stepVM, o, clusterv1.MachineInfrastructureReadyCondition)
		return
	}
	cond := infra.condition(infrav1.VMProvisionedCondition)
	if cond != nil && cond.Status == metav1.ConditionTrue {
		c.done(stepVM, infra, infra.ProviderID, cond.Since)
		return
	}
	c.must(stepVM, infra, infrav1.VMProvisionedCondition)
}

// capiNode adds the steps of the node: it joins, and it is healthy.
func (c *chain) capiNode(o, boot *Object) {
	cond := o.condition(clusterv1.MachineNodeHealthyCondition)
	if o.Joined {
		c.done(stepJoin, o, "Node "+o.Node, o.PhaseSince)
		c.must(stepHealth, o, cmp.Or(kindOf(cond), clusterv1.MachineNodeReadyCondition))
		return
	}
	waits := Condition{
		Type: clusterv1.MachineNodeHealthyCondition, Reason: clusterv1.MachineNodeDoesNotExistReason, Since: o.PhaseSince,
		Message: "the Machine has no Node yet",
	}
	if cond != nil && cond.Reason != clusterv1.MachineNodeInspectionFailedReason && cond.Message != "" {
		waits.Reason, waits.Message, waits.Since = cond.Reason, cond.Message, cond.Since
	}
	if boot != nil && waits.Reason == clusterv1.MachineNodeDoesNotExistReason {
		looked := *o
		looked.OwnerID, looked.Attempt = boot.OwnerID, boot.Attempt
		waits = c.facts.join(&looked, waits)
	}
	c.lacks(stepJoin, o, waits)
	c.done(stepHealth, o, "", o.PhaseSince)
}

func kindOf(c *Condition) string {
	if c == nil {
		return ""
	}
	return c.Type
}

// capiDeletion adds the steps of a Machine that is being deleted: Cluster API drains it,
// then the MCMMachine deletes its VM.
func (c *chain) capiDeletion(o, infra *Object) {
	cond := o.condition(clusterv1.MachineDeletingCondition)
	if cond == nil || cond.Status != metav1.ConditionTrue {
		cond = &Condition{
			Type: clusterv1.MachineDeletingCondition, Reason: clusterv1.MachineDeletingReason, Since: *o.Deleting,
		}
	}
	switch cond.Reason {
	case clusterv1.MachineDeletingDrainingNodeReason, clusterv1.MachineDeletingWaitingForVolumeDetachReason,
		clusterv1.MachineDeletingWaitingForPreDrainHookReason:
		c.lacks(stepDrain, o, *cond)
	case clusterv1.MachineDeletingWaitingForInfrastructureDeletionReason:
		c.done(stepDrain, o, "", cond.Since)
		c.infraDeletion(o, infra, *cond)
		return
	}
	c.lacks(stepDelete, o, *cond)
}

// infraDeletion adds what the MCMMachine reports about the VM, which is more exact.
func (c *chain) infraDeletion(o, infra *Object, cond Condition) {
	if infra != nil {
		if own := infra.condition(clusterv1.DeletingCondition); own != nil && own.Status == metav1.ConditionTrue {
			c.lacks(stepDelete, infra, *own)
			return
		}
	}
	c.lacks(stepDelete, o, cond)
}
