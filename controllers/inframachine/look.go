package inframachine

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/capi"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/class"
)

// When a VM that the cloud does not show counts as gone: after that many looks
// for it, over at least that time, or the cloud's settle time if that is longer.
const (
	missesUntilGone = 3
	missingFor   = time.Minute
	missingVMCheck  = 20 * time.Second
	unhealthyNodeCheck  = time.Minute     // while the Node is away or unhealthy
	addressGrace = 5 * time.Minute // a VM that runs for longer without an address has none
)

// checkVM asks the cloud what became of the VM, and never makes another.
func (c *Controller) checkVM(ctx context.Context, f *facts) error {
	resolved, err := c.resolve(ctx, f)
	if err != nil {
		return err
	}
	if err := resolved.Err(cloud.BlocksAll); err != nil {
		requeueAfter(f, c.Options.LookPeriod)
		return c.callFailed(f, err)
	}
	found, due, err := c.find(ctx, f, resolved)
	if cloud.CodeOf(err) == cloud.NotFound {
		c.callSucceeded(f)
		return c.vmNotFound(f, resolved.Driver.Traits().Settle, err)
	}
	if err != nil {
		requeueAfter(f, c.Options.LookPeriod)
		return c.callFailed(f, err)
	}
	c.callSucceeded(f)
	c.updateLookups(f.object, func(n *lookups) { n.missing, n.misses = time.Time{}, 0 })
	f.vm, f.complete = &found, true
	f.interruptible = interruptible(resolved)
	if err := c.recordIdentity(ctx, f, found); err != nil {
		return err
	}
	c.reportVMState(f, found)
	requeueAfter(f, due)
	return nil
}

// find returns the VM and when to look again: from the listing that all machines
// of the account share, else from the cloud's word about this one VM.
func (c *Controller) find(ctx context.Context, f *facts, r class.Resolved) (cloud.VM, time.Duration, error) {
	period := c.period(f)
	id, ok := r.Driver.DecodeProviderID(f.object.Spec.ProviderID)
	if !ok && f.object.Spec.ProviderID != "" {
		return cloud.VM{}, 0, cloud.Worst("find VM", []cloud.Problem{{
			Severity: cloud.BlocksAll, Field: "spec.providerID",
			Message: fmt.Sprintf("%q is no providerID of cloud %s; make a MCMMachine with the right one, or none",
				f.object.Spec.ProviderID, r.Driver.Traits().Name),
		}}, cloud.BlocksAll)
	}
	born := c.updateLookups(f.object, func(*lookups) {}).born
	if ok {
		l, err := c.listings.look(ctx, r, f.now.Add(-period+time.Nanosecond), born)
		if err != nil {
			return cloud.VM{}, 0, err
		}
		if found, there := l.vms[id]; there {
			return found, max(l.read.Add(period).Sub(f.now), time.Second), nil
		}
	}
	account, err := r.Account(ctx)
	if err != nil {
		return cloud.VM{}, 0, err
	}
	found, err := account.Get(ctx, ref(f, r))
	return found, period, err
}

// period is how often the VM is looked at: seldom while its Node is well, which
// proves more than the cloud's word.
func (c *Controller) period(f *facts) time.Duration {
	switch {
	case !provisioned(f.object):
		return pendingVMCheck
	case nodeUnhealthy(f.machine):
		return min(unhealthyNodeCheck, c.Options.LookPeriod)
	}
	return c.Options.LookPeriod
}

// nodeUnhealthy reports whether the Node has not joined, or is not known to be healthy.
func nodeUnhealthy(m *clusterv1.Machine) bool {
	if !m.Status.NodeRef.IsDefined() {
		return true
	}
	healthy := conditions.Get(m, clusterv1.MachineNodeHealthyCondition)
	return healthy != nil && healthy.Status == metav1.ConditionFalse
}

// recordIdentity records of which class an adopted VM is, and what was learnt about the
// VM's id: one that was lost, or that
// was written in a form that its Node does not carry, while nobody else knows it.
func (c *Controller) recordIdentity(ctx context.Context, f *facts, found cloud.VM) error {
	if f.object.Annotations[infrav1.MadeFromAnnotation] == "" {
		err := c.patch(ctx, f, func(o *infrav1.MCMMachine) {
			capi.SetAnnotation(o, infrav1.MadeFromAnnotation, className(o))
		})
		if err != nil {
			return fmt.Errorf("record class: %w", err)
		}
	}
	was, is := f.object.Spec.ProviderID, found.NodeProviderID
	if is == "" || was == is || !rewritable(f, is) {
		return nil
	}
	if err := c.patch(ctx, f, func(o *infrav1.MCMMachine) { o.Spec.ProviderID = is }); err != nil {
		return fmt.Errorf("record VM %s: %w", is, err)
	}
	if was != "" {
		warn(f, eventRewritten, fmt.Sprintf("spec.providerID was %s and is now %s, the form that the Node carries", was, is))
	}
	return nil
}

// rewritable reports whether nobody relies on what spec.providerID says, if anything.
func rewritable(f *facts, is string) bool {
	if provisioned(f.object) && f.object.Spec.ProviderID != "" {
		return false
	}
	return f.machine.Spec.ProviderID == "" || f.machine.Spec.ProviderID == is
}

// vmNotFound notes that the cloud shows no VM. It counts as gone only when it was
// looked for several times over some time.
func (c *Controller) vmNotFound(f *facts, settle time.Duration, cause error) error {
	n := c.updateLookups(f.object, func(n *lookups) {
		if n.missing.IsZero() {
			n.missing = f.now
		}
		n.misses++
	})
	if n.misses < missesUntilGone || f.now.Sub(n.missing) < max(missingFor, settle) {
		requeueAfter(f, missingVMCheck)
		// A process that has just begun to look knows less than the status does.
		if !provisioned(f.object) && !reportedGone(f.object) {
			f.vmCondition = conditionFalse(machinev1.ReasonVMNotFound, "The VM is looked for: "+cause.Error())
		}
		return nil
	}
	f.vmCondition = conditionFalse(infrav1.ReasonInstanceNotFound, fmt.Sprintf(
		"VM %s does not exist any more. It is not made again; delete the Machine, or let a MachineHealthCheck replace it", f.object.Spec.ProviderID))
	requeueAfter(f, c.Options.LookPeriod)
	return nil
}

// reportedGone reports whether the VM was found to be gone before.
func reportedGone(o *infrav1.MCMMachine) bool {
	c := meta.FindStatusCondition(o.Status.Conditions, infrav1.VMProvisionedCondition)
	return c != nil && c.Status == metav1.ConditionFalse && c.Reason == infrav1.ReasonInstanceNotFound
}

// reportVMState says what state the VM is in, and when to look again while it is not final.
func (c *Controller) reportVMState(f *facts, found cloud.VM) {
	switch found.State {
	case cloud.StateStopped:
		f.vmCondition = conditionFalse(machinev1.ReasonVMStopped, text("The VM does not run", found))
	case cloud.StateFailed:
		f.vmCondition = conditionFalse(machinev1.ReasonVMFailed, text("The VM cannot run", found))
	case cloud.StateDeleting:
		f.vmCondition = conditionFalse(infrav1.ReasonInstanceDeleting, text("The VM is being deleted, and not by this controller", found))
	case cloud.StatePending, cloud.StateRunning, cloud.StateUnknown:
		if !provisioned(f.object) && !hasAddresses(f) {
			f.vmCondition = conditionFalse(infrav1.ReasonWaitingForAddresses, "The VM has no address yet")
			requeueAfter(f, pendingVMCheck)
			return
		}
		f.vmCondition = conditionTrue(infrav1.ReasonProvisioned)
	}
	requeueAfter(f, c.period(f))
}

// hasAddresses reports whether the VM can be told to core: its addresses are known, or
// it has been running for so long that it will not get any.
func hasAddresses(f *facts) bool {
	if len(f.vm.Addresses) > 0 {
		return true
	}
	return f.vm.State == cloud.StateRunning && !f.vm.Created.IsZero() && f.now.Sub(f.vm.Created) > addressGrace
}

func text(s string, found cloud.VM) string {
	for _, more := range []string{found.Reason, found.Message} {
		if more != "" {
			s += ": " + more
		}
	}
	return s
}
