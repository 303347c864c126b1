package mcmremediation

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/capi"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/patch"
)

// report is the status that follows from p. It is pure, and the only code that builds an
// MCMRemediationStatus. A paused object reports only that it is paused.
func report(p *pass) infrav1.MCMRemediationStatus {
	status := *p.object.Status.DeepCopy()
	set := func(c metav1.Condition) { capi.SetCondition(&status.Conditions, c, p.object.Generation, p.seen.now) }
	set(capi.PausedCondition(p.seen.paused))
	status.Reboots, status.LastReboot = nil, metav1.Time{}
	if n := p.seen.reboots; n.count > 0 {
		status.Reboots, status.LastReboot = new(int32(n.count)), metav1.NewTime(n.last) //nolint:gosec // at most 10
	}
	if p.did.status == "" {
		return status
	}
	status.Phase = p.did.phase
	set(metav1.Condition{
		Type: infrav1.RemediatedCondition, Status: p.did.status, Reason: p.did.reason, Message: p.did.message,
	})
	return status
}

// reportTime is how long a MachineHealthCheck has for its write to the Machine, after it has made
// the object.
const reportTime = time.Minute

// markMachine shows on the Machine how far the remediation is, in the condition that the
// MachineHealthCheck sets at its beginning and leaves to this controller. After clusterctl move
// the condition is set again: changes of Machines without it go unseen, and it is its removal that
// wakes the MachineHealthCheck after the object. Not at once, though: between the object and the
// condition, a write to the Machine would have the MachineHealthCheck's own fail, which it never
// repeats.
func (c *Controller) markMachine(ctx context.Context, p *pass) error {
	m := p.seen.machine
	if p.did.status == "" || m == nil || !m.DeletionTimestamp.IsZero() {
		return nil
	}
	is := conditions.Get(m, clusterv1.MachineExternallyRemediatedCondition)
	if is != nil && is.Status == p.did.status && is.Reason == p.did.reason && is.Message == p.did.message {
		return nil
	}
	if is == nil && p.mayBeReported() {
		return nil
	}
	return c.setOnMachine(ctx, p, metav1.Condition{
		Type: clusterv1.MachineExternallyRemediatedCondition, Status: p.did.status, Reason: p.did.reason,
		Message: p.did.message,
	})
}

// mayBeReported reports whether the MachineHealthCheck may not have written to the Machine yet,
// and looks again when it has had its time.
func (p *pass) mayBeReported() bool {
	left := p.object.CreationTimestamp.Add(reportTime).Sub(p.seen.now)
	if left <= 0 {
		return false
	}
	if p.did.requeue == 0 || p.did.requeue > left {
		p.did.requeue = left
	}
	return true
}

// reasons are those that this controller gives ExternallyRemediated of a Machine.
func reasons() []string {
	return []string{
		infrav1.ReasonMachineHealthy, infrav1.ReasonWaitingForHealthCheck, infrav1.ReasonMachineDeleting,
		infrav1.ReasonRebooted, infrav1.ReasonRebootUncertain,
		infrav1.ReasonRemediationHeld, infrav1.ReasonOutage, infrav1.ReasonNotReachable, infrav1.ReasonRetriesUsedUp,
		infrav1.ReasonCooldown, infrav1.ReasonNeverJoined, infrav1.ReasonNodeDeleted, infrav1.ReasonNotRebootable,
		infrav1.ReasonOtherInfra, infrav1.ReasonUpdateImpossible, machinev1.ReasonVMPending, machinev1.ReasonVMNotFound,
		machinev1.ReasonCloudUnavailable, machinev1.ReasonCloudThrottled, machinev1.ReasonCloudError,
		machinev1.ReasonCredentialsRefused, machinev1.ReasonInvalidSpec, machinev1.ReasonClassNotFound,
		machinev1.ReasonSecretNotFound, machinev1.ReasonInvalidSecret, machinev1.ReasonVMOfAnotherOwner,
		cloud.ReasonWrongScope, cloud.ReasonUnprovenScope,
	}
}

// clearMachine removes the condition of a Machine whose remediation is over. The
// MachineHealthCheck does not.
func (c *Controller) clearMachine(ctx context.Context, key types.NamespacedName) error {
	m := &clusterv1.Machine{}
	err := c.Client.Get(ctx, key, m)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read Machine %s: %w", key.Name, err)
	}
	is := conditions.Get(m, clusterv1.MachineExternallyRemediatedCondition)
	if is == nil || !slices.Contains(reasons(), is.Reason) || !m.DeletionTimestamp.IsZero() || capi.Moving(m) {
		return nil
	}
	changed := m.DeepCopy()
	conditions.Delete(changed, clusterv1.MachineExternallyRemediatedCondition)
	if err := patch.Status(ctx, c.Client, m, changed); err != nil {
		return fmt.Errorf("remove condition of Machine %s: %w", key.Name, err)
	}
	return nil
}
