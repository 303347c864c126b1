package mcmremediation

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/patch"
)

// handOver hands the Machine over to its owner where no reboot is left, or none can help.
func (c *Controller) handOver(ctx context.Context, p *pass) (bool, error) {
	if p.seen.infra == nil { // the cache may be behind
		if there, err := infraOf(ctx, c.Live, p.seen.machine); err != nil || there != nil {
			p.did.requeue = time.Second
			return true, err
		}
	}
	reason, cause := whyReplaced(p)
	if reason != "" {
		return true, c.giveUp(ctx, p, reason, cause)
	}
	if handedOver(p.seen.machine) {
		p.did.failed = true
		reason, cause = lastReason(p)
		p.set(infrav1.RemediationReplacing, reason, cause)
		return true, nil
	}
	return false, nil
}

// lastReason is why the Machine was handed over in an earlier pass.
func lastReason(p *pass) (reason, message string) {
	for _, is := range p.object.Status.Conditions {
		if is.Type == infrav1.RemediatedCondition && p.object.Status.Phase == infrav1.RemediationReplacing {
			return is.Reason, is.Message
		}
	}
	return infrav1.ReasonRetriesUsedUp, "The owner of the Machine was asked to replace it"
}

// whyReplaced returns why the Machine is not rebooted, or not again; empty if it is.
func whyReplaced(p *pass) (reason, cause string) {
	m, done, strategy := p.seen.machine, p.seen.reboots, &p.object.Spec.Strategy
	switch {
	case p.seen.infra == nil:
		return infrav1.ReasonOtherInfra, "The Machine has no MCMMachine"
	case updating(m):
		return infrav1.ReasonUpdateImpossible, "The update in place has failed, which no reboot fixes"
	case done.count >= strategy.Limit():
		return infrav1.ReasonRetriesUsedUp, fmt.Sprintf("The Machine is unhealthy after %d of %d reboots", done.count,
			strategy.Limit())
	case !m.Status.NodeRef.IsDefined() || p.seen.infra.Spec.ProviderID == "":
		return infrav1.ReasonNeverJoined, "The node has never joined, and a reboot runs no boot data"
	case conditionReason(m) == clusterv1.MachineHealthCheckNodeDeletedReason:
		return infrav1.ReasonNodeDeleted, "Node " + m.Status.NodeRef.Name + " was deleted"
	case done.count == 0 && !askedWhileWell(m) &&
		p.seen.now.Before(lastReboot(p.seen.infra).Add(strategy.Cooldown())):
		return infrav1.ReasonCooldown, fmt.Sprintf(
			"The VM was rebooted at %s, and the Machine is unhealthy again within %v",
			lastReboot(p.seen.infra).UTC().Format(time.RFC3339), strategy.Cooldown())
	}
	return "", ""
}

// conditionReason is why the MachineHealthCheck finds the Machine unhealthy.
func conditionReason(m *clusterv1.Machine) string {
	if c := conditions.Get(m, clusterv1.MachineHealthCheckSucceededCondition); c != nil {
		return c.Reason
	}
	return ""
}

// updateFailed reports whether a Machine that is being updated in place is to be replaced for
// that: its own conditions fail the check. Who asks for a remediation does not know of a failure.
func updateFailed(m *clusterv1.Machine) bool {
	return conditionReason(m) == clusterv1.MachineHealthCheckUnhealthyMachineReason
}

// lastReboot is when a remediation last rebooted the VM; zero if none ever has.
func lastReboot(o *infrav1.MCMMachine) time.Time {
	at, err := time.Parse(time.RFC3339, o.Annotations[infrav1.LastRebootAnnotation])
	if err != nil {
		return time.Time{}
	}
	return at
}

// giveUp asks the owner of the Machine, a MachineSet or a control plane, to replace it, as the
// MachineHealthCheck does where there is no external remediation. The owner decides when: it
// keeps to maxInFlight, its preflight checks and the quorum of etcd. A Machine whose node is
// healthy stays, unless its strategy is to replace it without any reboot.
func (c *Controller) giveUp(ctx context.Context, p *pass, reason, cause string) error {
	p.did.failed = true
	if askedWhileWell(p.seen.machine) && !handedOver(p.seen.machine) && p.object.Spec.Strategy.Limit() > 0 {
		p.did.requeue = max(heldCheck, p.object.Spec.Strategy.Timeout())
		p.set(infrav1.RemediationPending, reason, cause+"; the Machine is not replaced, because its node is healthy; "+
			"remove the annotation "+clusterv1.RemediateMachineAnnotation+" or delete the Machine")
		return nil
	}
	message := cause + "; the owner of the Machine is asked to replace it"
	p.set(infrav1.RemediationReplacing, reason, message)
	if handedOver(p.seen.machine) {
		return nil
	}
	return c.setOnMachine(ctx, p, metav1.Condition{
		Type: clusterv1.MachineOwnerRemediatedCondition, Status: metav1.ConditionFalse,
		Reason: clusterv1.MachineOwnerRemediatedWaitingForRemediationReason, Message: message,
	})
}

// setOnMachine sets a condition of the Machine, unless the Machine has changed since it was read.
func (c *Controller) setOnMachine(ctx context.Context, p *pass, is metav1.Condition) error {
	changed := p.seen.machine.DeepCopy()
	conditions.Set(changed, is)
	if err := patch.Status(ctx, c.Client, p.seen.machine, changed); err != nil {
		return fmt.Errorf("set condition %s of the Machine: %w", is.Type, err)
	}
	p.seen.machine = changed
	return nil
}

// recordCooldown records the last reboot on the MCMMachine, which outlives this object.
func (c *Controller) recordCooldown(ctx context.Context, p *pass) (bool, error) {
	if p.seen.infra == nil || !p.seen.reboots.last.After(lastReboot(p.seen.infra)) {
		return false, nil
	}
	changed := p.seen.infra.DeepCopy()
	machinev1.SetAnnotation(changed, infrav1.LastRebootAnnotation, p.seen.reboots.last.UTC().Format(time.RFC3339))
	if err := patch.Object(ctx, c.Client, p.seen.infra, changed); err != nil {
		return false, fmt.Errorf("record reboot on the MCMMachine: %w", err)
	}
	p.seen.infra = changed
	return false, nil
}
