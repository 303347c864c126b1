package mcmremediation

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
)

// finish ends the pass for a Machine that is healthy. The MachineHealthCheck deletes the object,
// unless a person has asked for the remediation of a Machine whose node is well: it is done
// with the reboot, and replacing the Machine would be more than was asked for.
func (c *Controller) finish(ctx context.Context, p *pass) (bool, error) {
	m := p.seen.machine
	switch {
	case handedOver(m), conditionReason(m) == "" && waiting(p):
		return false, nil
	case conditionReason(m) == "":
		p.set(infrav1.RemediationPending, infrav1.ReasonWaitingForHealthCheck,
			"No MachineHealthCheck reports about the Machine; the remediation goes on when one finds it unhealthy")
		return true, c.beginAnew(ctx, p)
	case !unhealthy(m):
		p.healthy("The Machine passes its health check; the MachineHealthCheck deletes this object")
		return true, c.beginAnew(ctx, p)
	case p.seen.reboots.count > 0 && (annotations.HasRemediateMachine(m) && wellSince(m, p.seen.reboots.last) ||
		askedWhileWell(m) && !waiting(p)):
		p.healthy("The node is healthy after the reboot; remove the annotation " + clusterv1.RemediateMachineAnnotation +
			" from the Machine, so that the MachineHealthCheck deletes this object")
		return true, nil
	}
	return false, nil
}

// askedWhileWell reports whether a person has asked for the remediation of a Machine whose node
// is healthy. Such a Machine is not replaced.
func askedWhileWell(m *clusterv1.Machine) bool {
	return conditionReason(m) == clusterv1.MachineHealthCheckHasRemediateAnnotationReason &&
		conditions.IsTrue(m, clusterv1.MachineNodeHealthyCondition)
}

// wellSince reports whether the node has become healthy after that time. A node that has rebooted
// so fast that it was never seen unhealthy has not.
func wellSince(m *clusterv1.Machine, at time.Time) bool {
	c := conditions.Get(m, clusterv1.MachineNodeHealthyCondition)
	return c != nil && c.Status == metav1.ConditionTrue && c.LastTransitionTime.After(at)
}

func (p *pass) healthy(message string) {
	p.set(infrav1.RemediationHealthy, infrav1.ReasonMachineHealthy, message)
	p.did.status = metav1.ConditionTrue
}

// wait gives the node its time after a reboot.
func (c *Controller) wait(_ context.Context, p *pass) (bool, error) {
	if handedOver(p.seen.machine) || !waiting(p) {
		return false, nil
	}
	p.did.requeue = waitsUntil(p).Sub(p.seen.now)
	p.set(infrav1.RemediationWaiting, infrav1.ReasonRebooted, rebootedMessage(p, p.seen.reboots))
	return true, nil
}

// waiting reports whether the time of the node after a reboot has not passed.
func waiting(p *pass) bool { return p.seen.reboots.count > 0 && p.seen.now.Before(waitsUntil(p)) }

// waitsUntil is when the time of the node after the last reboot ends.
func waitsUntil(p *pass) time.Time { return p.seen.reboots.last.Add(p.object.Spec.Strategy.Timeout()) }

// rebootedMessage says what the remediation waits for after a reboot, and what comes then. It
// names no time that changes from pass to pass.
func rebootedMessage(p *pass, done reboots) string {
	strategy := &p.object.Spec.Strategy
	next := "the VM is rebooted again"
	if done.count >= strategy.Limit() {
		next = "the Machine is replaced"
	}
	return fmt.Sprintf("Reboot %d of %d was asked for at %s; if the Machine is not healthy %v later, %s", done.count,
		strategy.Limit(), done.last.UTC().Format(time.RFC3339), strategy.Timeout(), next)
}
