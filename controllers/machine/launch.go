package machine

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/outcome"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/vm"
)

// How long the steps wait where nothing wakes them.
const (
	staleRetry    = time.Second     // the newer version arrives by watch; this only guards against a lost event
	frozenRetry   = 5 * time.Second // no event ends a freeze, and such a pass only reads the cache
	nodeNameRetry = 5 * time.Second // a cloud that names its nodes does so within seconds
	shortRetry    = 5 * time.Second // MCM's short retry, after errors that pass
	longRetry     = 3 * time.Minute // MCM's medium retry

	// Most waits without a fault are over by then; reporting them earlier would be a write.
	quietGrace = 10 * time.Second
)

// errNodeNameTaken is why a VM is not recorded but removed: an older node is still
// registered under its node name, so it could never join.
var errNodeNameTaken = errors.New("its node name belongs to an older node")

// launch gives a Machine its VM, unless it has one that is complete.
func (c *Controller) launch(ctx context.Context, p *pass) error {
	if !wantsVM(p.machine) {
		return c.recoverProviderID(ctx, p)
	}
	made, err := c.engine.Ensure(ctx, c.owner(p))
	if err == nil || made.ProviderID != "" {
		p.did.vm = &made
	}
	if errors.Is(err, errNodeNameTaken) {
		return c.discardVM(ctx, p, made)
	}
	if err != nil {
		return c.launchFailed(p, err)
	}
	c.launched(p, made)
	return nil
}

// launched records whether the VM is complete, or when to look again.
func (c *Controller) launched(p *pass, made cloud.VM) {
	switch {
	case made.RetryAfter > 0:
		waitForVM(p, made.RetryAfter)
	case made.NodeName == "" && c.Target != nil:
		waitForVM(p, nodeNameRetry)
	default:
		p.did.created = true
	}
}

// waitForVM waits for a VM that is not complete, for as long as a creation may take.
func waitForVM(p *pass, wait time.Duration) {
	left := p.seen.settings.creation - p.seen.now.Sub(p.machine.CreationTimestamp.Time)
	if left <= 0 {
		p.did.transition = &transition{
			phase: machinev1.MachineFailed, operation: machinev1.MachineOperationCreate, state: machinev1.MachineStateFailed,
			description: fmt.Sprintf("VM of Machine %s was not complete in %s", p.machine.Name, p.seen.settings.creation),
			joined:      corev1.ConditionFalse,
		}
		return
	}
	requeueAfter(p, wait)
	requeueAfter(p, left)
}

// wantsVM reports whether m has no VM, or one that is not known to be complete. A
// Failed machine of a MachineSet gets none any more: the set replaces it.
func wantsVM(m *machinev1.Machine) bool {
	switch m.Status.CurrentStatus.Phase {
	case "", machinev1.MachineCrashLoopBackOff:
		return true
	case machinev1.MachineFailed:
		return m.Spec.ProviderID == "" && metav1.GetControllerOf(m) == nil
	default:
		return false
	}
}

// launchFailed notes why there is no VM yet and when it is worth trying again.
func (c *Controller) launchFailed(p *pass, err error) error {
	if apierrors.IsConflict(err) || !outcome.IsCloud(err) {
		return err // the API server failed, not the cloud: nothing to report about the machine
	}
	if e, ok := errors.AsType[*cloud.Error](err); ok && c.queued(p, e) {
		requeueAfter(p, e.RetryAfter) // where it waits for its class, the class's update wakes the machine at once
		if p.seen.now.Sub(p.machine.CreationTimestamp.Time) > quietGrace {
			p.did.waitsFor = &waiting{waitReason(e), err.Error()}
		}
		return nil
	}
	p.did.createErr = err
	wait := outcome.After(err, c.Options.ResourceExhaustedRetry)
	if wait == 0 {
		wait = outcome.Backoff(p.seen.now.Sub(p.machine.CreationTimestamp.Time))
	}
	requeueAfter(p, wait)
	requeueAfter(p, p.seen.settings.creation-p.seen.now.Sub(p.machine.CreationTimestamp.Time))
	return nil
}

// queued reports whether a machine has to wait although nothing is wrong: for its
// class's finalizer, or for its turn at the cloud's rate, of which a thousand
// machines that are made at once use up more than there is. To call each of them
// failed would be a write and two Events a machine, and wrong.
func (c *Controller) queued(p *pass, e *cloud.Error) bool {
	late := p.seen.now.Sub(p.machine.CreationTimestamp.Time) >= p.seen.settings.creation
	return e.Reason == vm.ReasonUnprotected || e.Reason == cloud.ReasonRateBudget && !late
}

// waitReason is how conditions name what awaitsTurn is true for.
func waitReason(e *cloud.Error) string {
	if e.Code == cloud.Throttled {
		return machinev1.ReasonCloudThrottled
	}
	return e.Reason
}

// nodeNameTaken reports whether the name of the VM's node belongs to an older node that
// is still registered. Such a VM could never join. A VM that is older than the Machine has
// that node itself, if nothing says otherwise.
func (c *Controller) nodeNameTaken(ctx context.Context, p *pass, made cloud.VM) (bool, error) {
	if c.Target == nil || made.NodeName == "" || made.NodeName == p.machine.Name || p.machine.Spec.ProviderID != "" {
		return false, nil
	}
	node := &corev1.Node{}
	err := c.Target.Client.Get(ctx, client.ObjectKey{Name: made.NodeName}, node)
	if err != nil {
		return false, client.IgnoreNotFound(err)
	}
	return node.CreationTimestamp.Time.Before(p.machine.CreationTimestamp.Time) && !mayRunOn(node, p.machine, made), nil
}

// mayRunOn reports whether an older node may be that of the VM: a restore of the control
// cluster has lost the Machine that had the VM, and m was made in its place.
func mayRunOn(node *corev1.Node, m *machinev1.Machine, made cloud.VM) bool {
	if id := node.Spec.ProviderID; id != "" {
		return id == made.NodeProviderID || id == made.ProviderID
	}
	return !made.Created.IsZero() && made.Created.Add(time.Minute).Before(m.CreationTimestamp.Time)
}

// discardVM removes a VM whose node name is taken, and fails the Machine, so that
// its set creates another.
func (c *Controller) discardVM(ctx context.Context, p *pass, made cloud.VM) error {
	d, err := c.engine.Discard(ctx, c.owner(p), made)
	if err != nil {
		return err
	}
	if !d.Done {
		requeueAfter(p, d.RetryAfter)
	}
	p.did.transition = &transition{
		phase: machinev1.MachineFailed, operation: machinev1.MachineOperationCreate, state: machinev1.MachineStateFailed,
		description: "VM using old node obj", errorCode: "Internal",
	}
	return nil
}
