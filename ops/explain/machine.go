package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// Names of steps, for people.
const (
	stepAsked   = "asked"
	stepHold    = "not held"
	stepSpec    = "spec"
	stepVM      = "VM"
	stepBalance = "load balancer"
	stepJoin    = "join"
	stepHealth  = "health"
	stepDrain   = "drain"
	stepDelete  = "delete"
	stepCluster = "cluster"
	stepPlane   = "control plane"
	stepBoot    = "boot data"
	stepTags    = "tags"
	stepCleanup = "boot data removed"
	stepRollout = "rollout"
	stepCount   = "machines"
)

// nativeMachine adds the steps of a Machine of the native API.
func (c *chain) nativeMachine(o *Object) {
	c.done(stepAsked, o, c.asked(o), o.Created)
	c.mustNot(o, conditionHeld)
	if o.Deleting != nil {
		c.nativeDeletion(o)
		return
	}
	if cond := o.condition(machinev1.ConditionSpecValid); cond != nil && cond.Status == metav1.ConditionFalse {
		c.lacks(stepSpec, o, *cond)
	}
	c.nativeVM(o)
	c.registered(o, o.Joined)
	c.nativeNode(o)
	c.upkeep(o)
}

// registered adds the step of the load balancers that the class of a machine names. A node that
// has to reach the API server through them joins after it; one that has joined needs them no more.
func (c *chain) registered(o *Object, joined bool) {
	cond := o.condition(machinev1.ConditionLoadBalancerRegistered)
	switch {
	case cond == nil:
	case cond.Status == metav1.ConditionTrue:
		c.done(stepBalance, o, cond.Message, cond.Since)
	case joined:
		c.lacksBeside(stepBalance, o, *cond)
	default:
		c.lacks(stepBalance, o, *cond)
	}
}

// upkeep adds what is missing beside a machine that works: its conditions exist only then.
func (c *chain) upkeep(o *Object) {
	steps := []struct{ name, kind string }{
		{stepCleanup, machinev1.ConditionBootDataRemoved}, {stepTags, machinev1.ConditionTagsUpdated},
	}
	for _, s := range steps {
		if cond := o.condition(s.kind); cond != nil && cond.Status == metav1.ConditionFalse {
			c.lacksBeside(s.name, o, *cond)
		}
	}
}

// asked tells who wants the machine.
func (c *chain) asked(o *Object) string {
	text := "it was created without a MachineSet"
	if owner := c.facts.owner(o); owner != nil {
		text = fmt.Sprintf("%s %s asks for it", owner.Kind, owner.Name)
	}
	if o.Class != "" {
		text += ", from MachineClass " + o.Class
	}
	return text
}

// nativeVM adds the step of the VM. Where the API server prunes conditions, as MCM's own
// CRDs make it, phase and operation have to do.
func (c *chain) nativeVM(o *Object) {
	cond := o.condition(machinev1.ConditionVMReady)
	frozen := o.condition(machinev1.ConditionNodeReady)
	failed := o.Operation.Type == string(machinev1.MachineOperationCreate) &&
		o.Operation.State == string(machinev1.MachineStateFailed)
	switch {
	case cond != nil && cond.Status == metav1.ConditionTrue, cond == nil && o.ProviderID != "":
		c.done(stepVM, o, o.ProviderID, sinceOf(cond))
	case cond != nil:
		c.lacks(stepVM, o, *cond)
	case frozen != nil && frozen.Reason == machinev1.ReasonFrozen:
		c.lacks(stepVM, o, *frozen) // nothing else is reported meanwhile
	case failed:
		c.lacks(stepVM, o, Condition{
			Type: machinev1.ConditionVMReady, Reason: reasonCreateFailed, Message: o.Operation.Description,
			Since: o.Operation.Since,
		})
	default:
		c.must(stepVM, o, machinev1.ConditionVMReady)
	}
}

// nativeNode adds the steps of the node: it joins, and it is healthy.
func (c *chain) nativeNode(o *Object) {
	cond := o.condition(machinev1.ConditionNodeReady)
	healthy := cond != nil && cond.Status == metav1.ConditionTrue ||
		cond == nil && o.Phase == string(machinev1.MachineRunning)
	switch {
	case o.Phase == string(machinev1.MachineAvailable):
		c.done(stepJoin, o, "there is no target cluster to join", o.PhaseSince)
	case healthy:
		c.done(stepJoin, o, "Node "+o.Node, o.PhaseSince)
		c.healthy(o)
	case cond == nil:
		c.waitsForNode(o, Condition{
			Type: machinev1.ConditionNodeReady, Reason: machinev1.ReasonWaitingForNode, Message: o.Operation.Description,
			Since: o.PhaseSince,
		})
	case cond.Reason == machinev1.ReasonWaitingForNode, cond.Reason == machinev1.ReasonFrozen && !o.Joined:
		c.waitsForNode(o, *cond)
	default:
		c.done(stepJoin, o, "Node "+o.Node, o.PhaseSince)
		c.lacks(stepHealth, o, *cond)
	}
}

// healthy adds the step of a node that was healthy when the manager last reported about it.
func (c *chain) healthy(o *Object) {
	if c.facts.TargetError == "" {
		c.done(stepHealth, o, "the node is healthy", o.PhaseSince)
		return
	}
	c.lacks(stepHealth, o, Condition{
		Reason: reasonTargetError, Message: "Nodes cannot be read: " + c.facts.TargetError,
	})
}

// waitsForNode adds the steps of a machine whose node has not joined.
func (c *chain) waitsForNode(o *Object, cond Condition) {
	if cond.Reason != machinev1.ReasonFrozen {
		cond = c.facts.join(o, cond)
	}
	c.lacks(stepJoin, o, cond)
	c.done(stepHealth, o, "", o.PhaseSince)
}

// drainReasons are those of Deleted that belong to the drain.
var drainReasons = []string{
	machinev1.ReasonDraining, machinev1.ReasonEvictionDenied, machinev1.ReasonDrainTimedOut,
	machinev1.ReasonDetachingVolumes, machinev1.ReasonOutage, "PodDisruptionBudgetMisconfigured", "EvictionFailed",
	"PodOverdue", "ReattachingVolumes",
}

// nativeDeletion adds the steps of a Machine that is being deleted: its drain, then its VM and Node.
func (c *chain) nativeDeletion(o *Object) {
	drained, deleted := o.condition(machinev1.ConditionDrained), o.condition(machinev1.ConditionDeleted)
	waits := deleted != nil && deleted.Status != metav1.ConditionTrue
	switch {
	case waits && slices.Contains(drainReasons, deleted.Reason):
		c.lacks(stepDrain, o, *deleted)
	case !waits && drained != nil && drained.Status != metav1.ConditionTrue:
		c.lacks(stepDrain, o, *drained)
	case drained != nil:
		c.done(stepDrain, o, drained.Message, drained.Since)
	}
	if waits && !slices.Contains(drainReasons, deleted.Reason) {
		c.lacks(stepDelete, o, *deleted)
		return
	}
	c.lacks(stepDelete, o, Condition{
		Type: machinev1.ConditionDeleted, Reason: reasonTerminating, Since: *o.Deleting,
		Message: strings.TrimSpace(o.Operation.Description),
	})
}

// sinceOf is when a condition changed; zero if there is none.
func sinceOf(c *Condition) time.Time {
	if c == nil {
		return time.Time{}
	}
	return c.Since
}
