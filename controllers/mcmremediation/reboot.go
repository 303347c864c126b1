package mcmremediation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/capi"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/outcome"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/patch"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/vm"
)

// transitionCheck is when a VM is looked at again that changes its state.
const transitionCheck = 15 * time.Second

// reboot reboots the VM: first it is looked for, which proves whose it is, then the reboot is
// recorded, then it is asked for.
func (c *Controller) reboot(ctx context.Context, p *pass) (bool, error) {
	account, ref, err := c.account(ctx, p)
	if err != nil {
		return true, c.lookFailed(ctx, p, err)
	}
	found, err := account.Get(ctx, ref)
	if err != nil {
		return true, c.lookFailed(ctx, p, err)
	}
	switch found.State {
	case cloud.StateFailed, cloud.StateDeleting:
		return true, c.giveUp(ctx, p, infrav1.ReasonNotRebootable, vm.StateMessage("The VM is "+found.State.String(), found))
	case cloud.StatePending:
		p.did.requeue = transitionCheck
		p.set(infrav1.RemediationPending, machinev1.ReasonVMPending, "The VM is starting; it is looked at again")
		return true, nil
	case cloud.StateRunning, cloud.StateStopped, cloud.StateUnknown:
	}
	was := p.seen.reboots
	if err := c.record(ctx, p, reboots{was.count + 1, p.seen.now}); err != nil {
		return true, err
	}
	if unchanged, err := c.unchanged(ctx, p); err != nil || !unchanged {
		return true, errors.Join(err, c.record(ctx, p, was))
	}
	return true, c.asked(ctx, p, was, cloud.Reboot(ctx, account, ref))
}

// account returns the account of the VM, and what identifies it there.
func (c *Controller) account(ctx context.Context, p *pass) (cloud.Account, cloud.Ref, error) {
	o := p.seen.infra
	name := o.Annotations[infrav1.MadeFromAnnotation]
	if name == "" {
		name = o.Spec.MachineClassRef.Name
	}
	resolved, err := c.classes.ResolveForClusterAPI(ctx, c.Client, o.Namespace, name)
	if err != nil {
		return nil, cloud.Ref{}, err
	}
	if err := resolved.Err(cloud.BlocksAll); err != nil {
		return nil, cloud.Ref{}, err
	}
	if !resolved.Driver.Traits().Reboots {
		return nil, cloud.Ref{}, cloud.Errorf(cloud.Invalid, "reboot VM", cloud.ReasonRebootUnsupported,
			"the driver of cloud %s cannot reboot VMs", resolved.Driver.Traits().Name)
	}
	account, err := resolved.Account(ctx)
	return account, cloud.Ref{
		Name: o.Name, OwnerID: machinev1.OwnerID(o), ProviderID: o.Spec.ProviderID, Class: resolved.Class,
		State: o.Annotations[infrav1.CloudStateAnnotation], Created: o.CreationTimestamp.Time,
		Scope: o.Annotations[machinev1.CloudScopeAnnotation],
	}, err
}

// record persists the reboots that were asked for. It fails on a stale object, so a process
// that has not seen an earlier record asks for nothing.
func (c *Controller) record(ctx context.Context, p *pass, n reboots) error {
	changed := p.object.DeepCopy()
	machinev1.SetOrRemoveAnnotation(changed, infrav1.RebootsAnnotation, n.String())
	if err := patch.Object(ctx, c.Client, p.object, changed); err != nil {
		return fmt.Errorf("record reboot: %w", err)
	}
	p.object = changed
	p.seen.reboots = rebootsOf(changed)
	return nil
}

// unchanged reports whether Machine and MCMMachine are still as the cache has shown them, and
// nothing is paused: what was deleted, paused or held a moment ago is not rebooted. It is asked
// after the record is written. clusterctl pauses the Cluster before it copies the record to
// another management cluster, so either the copy has it, or the pause is seen.
func (c *Controller) unchanged(ctx context.Context, p *pass) (bool, error) {
	machine, err := machineOf(ctx, c.Live, p.object)
	if err != nil || machine == nil {
		return false, err
	}
	infra, err := infraOf(ctx, c.Live, machine)
	if err != nil || infra == nil {
		return false, err
	}
	cluster, _, err := capi.ClusterOf(ctx, c.Live, machine)
	if err != nil {
		return false, err
	}
	if !same(machine, p.seen.machine) || !same(infra, p.seen.infra) || !unhealthy(machine) ||
		leftAlone(cluster, p.object, machine, infra) {
		p.did.requeue = time.Second
		return false, nil
	}
	return true, nil
}

// leftAlone reports whether one of the objects is paused or has been moved.
func leftAlone(cluster *clusterv1.Cluster, all ...client.Object) bool {
	return slices.ContainsFunc(all, func(o client.Object) bool {
		return capi.Paused(cluster, o) != "" || capi.Moving(o)
	})
}

// same reports whether what decides about a reboot is as it was seen, and the object is not being
// deleted.
func same(live, seen client.Object) bool {
	return live.GetUID() == seen.GetUID() && live.GetDeletionTimestamp().IsZero() &&
		live.GetGeneration() == seen.GetGeneration() && patch.SameMetadata(live, seen)
}

// asked notes what became of the call. An error that proves that the VM was not rebooted takes
// the record back. After any other the reboot counts: the VM may be rebooting.
func (c *Controller) asked(ctx context.Context, p *pass, was reboots, err error) error {
	if e, ok := errors.AsType[*cloud.Error](err); ok && e.Reason == cloud.ReasonVMBusy {
		c.retry(p, err)
		return c.record(ctx, p, was)
	}
	if err != nil {
		switch cloud.CodeOf(err) {
		case cloud.NotFound, cloud.Invalid, cloud.Denied, cloud.Exhausted:
			return errors.Join(c.record(ctx, p, was), c.refused(ctx, p, err))
		case cloud.Throttled, cloud.TokenUsed:
			c.retry(p, err)
			return c.record(ctx, p, was)
		case cloud.Unavailable, cloud.Unknown:
		}
	}
	p.did.event = infrav1.ReasonRebooted
	p.did.requeue = p.object.Spec.Strategy.Timeout()
	p.set(infrav1.RemediationWaiting, infrav1.ReasonRebooted, rebootedMessage(p, p.seen.reboots))
	if err != nil {
		p.did.failed = true
		p.set(infrav1.RemediationWaiting, infrav1.ReasonRebootUncertain, fmt.Sprintf("It is not known whether the VM was "+
			"rebooted: %v. %s", err, rebootedMessage(p, p.seen.reboots)))
	}
	_, err = c.recordCooldown(ctx, p)
	return err
}

// lookFailed hands the Machine over where there is no VM, or where the driver cannot reboot one,
// and waits where nothing is known about the VM: whoever cannot look at it cannot replace it.
func (c *Controller) lookFailed(ctx context.Context, p *pass, err error) error {
	e, ok := errors.AsType[*cloud.Error](err)
	if !ok {
		return err // the API server failed, not the cloud
	}
	if e.Code == cloud.NotFound || e.Reason == cloud.ReasonRebootUnsupported {
		return c.refused(ctx, p, err)
	}
	c.retry(p, err)
	return nil
}

// refused hands the Machine over because its VM cannot be rebooted. That the cloud shows no VM
// once proves nothing: credentials from which a permission was taken may get an empty list. The
// controller of MCMMachines looks several times before it reports the VM as gone.
func (c *Controller) refused(ctx context.Context, p *pass, err error) error {
	if cloud.CodeOf(err) == cloud.NotFound && !reportedGone(p.seen.infra) {
		p.did.requeue, p.did.failed = heldCheck, true
		p.set(infrav1.RemediationPending, machinev1.ReasonVMNotFound, fmt.Sprintf("The VM is not rebooted yet: %v; this is "+
			"tried again until it is found, or the MCMMachine reports that it is gone", err))
		return nil
	}
	return c.giveUp(ctx, p, infrav1.ReasonNotRebootable, fmt.Sprintf("The VM cannot be rebooted: %v", err))
}

// reportedGone reports whether the MCMMachine shows that its VM does not exist any more.
func reportedGone(o *infrav1.MCMMachine) bool {
	is := meta.FindStatusCondition(o.Status.Conditions, infrav1.VMProvisionedCondition)
	return is != nil && is.Status == metav1.ConditionFalse && is.Reason == infrav1.ReasonInstanceNotFound
}

// retry reports that the VM could not be rebooted yet.
func (c *Controller) retry(p *pass, err error) {
	p.did.requeue, p.did.failed = max(outcome.After(err, 0), transitionCheck), true
	p.set(infrav1.RemediationPending, outcome.Reason(err),
		fmt.Sprintf("The VM is not rebooted yet: %v; this is tried again", err))
}
