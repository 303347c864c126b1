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
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/fallback"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/outcome"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/vm"
)

// How long the steps wait where nothing wakes them.
const (
	frozenRetry   = 5 * time.Second // no event ends a freeze, and such a pass only reads the cache
	nodeNameRetry = 5 * time.Second // a cloud that names its nodes does so within seconds
	shortRetry    = 5 * time.Second // MCM's short retry, after errors that pass
	longRetry     = 3 * time.Minute // MCM's medium retry

	// Most waits without a fault are over by then; reporting them earlier would be a write.
	quietGrace = 10 * time.Second
	// A wait for the account's rate limit that is longer than this is reported at once. A shorter one
	// takes no longer than a VM takes to boot.
	longRateWait = 2 * time.Minute
	// So old is a Machine that is replaced because its VM ended before it ran. A fault that meets each VM, such as a
	// key that may not be used, then makes one a minute for each replica, and not as many as the rate limit lets through.
	shortestLife = time.Minute
)

// errNodeNameTaken is why a VM is not recorded but removed: an older node is still
// registered under its node name, so it could never join.
var errNodeNameTaken = fmt.Errorf("%w: its node name belongs to an older node", vm.ErrNotAccepted)

// launch gives a Machine its VM, unless it has one that is complete.
func (c *Controller) launch(ctx context.Context, p *pass) error {
	if !wantsVM(p.machine) {
		return c.recoverProviderID(ctx, p)
	}
	if switches(p.machine) {
		return c.switchClass(ctx, p)
	}
	made, err := c.engine.Ensure(ctx, c.vm(p))
	if err == nil || made.ProviderID != "" {
		p.did.vm = &made
	}
	if errors.Is(err, errNodeNameTaken) {
		return c.discardVM(ctx, p, made)
	}
	if err != nil {
		return c.createFailed(ctx, p, err)
	}
	if made.State == cloud.StateDeleting {
		return c.endedEarly(p, made)
	}
	c.launched(p, made)
	return nil
}

// endedEarly fails a Machine whose VM goes before it ran: it never joins, and the Machine gets no other. The cause is
// shown at once. Its set replaces the Machine when it is old enough: what ends this VM may end the next one, too.
func (c *Controller) endedEarly(p *pass, made cloud.VM) error {
	text := vm.StateMessage(fmt.Sprintf("VM %s ended before it ran", made.ProviderID), made)
	left := shortestLife - p.seen.now.Sub(p.machine.CreationTimestamp.Time)
	if left > 0 {
		p.did.createErr = cloud.Errorf(cloud.Unknown, "create VM", made.Reason, "%s", text)
		requeueAfter(p, left)
		return nil
	}
	p.did.transition = &transition{
		phase: machinev1.MachineFailed, operation: machinev1.MachineOperationCreate, state: machinev1.MachineStateFailed,
		description: text, errorCode: "Internal",
	}
	return nil
}

// createFailed goes on with another class, if the cloud has no capacity for this one, or
// refuses this one and it is not the first, and the pool has another. Else it notes why there
// is no VM.
func (c *Controller) createFailed(ctx context.Context, p *pass, failure error) error {
	message, goesOn, err := c.engine.FallBack(ctx, c.vm(p), failure)
	switch {
	case err != nil:
		return err
	case !goesOn:
		p.did.otherClasses = message
		return c.launchFailed(p, failure)
	}
	p.did.waitsFor = &waiting{reasonClassFallback, message}
	requeueAfter(p, time.Millisecond)
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
	waitForCreation(p, wait, "VM of Machine %s was not complete in %s")
}

// waitForCreation waits, for as long as a creation may take. Then the Machine fails, with a
// description that takes its name and that time.
func waitForCreation(p *pass, wait time.Duration, late string) {
	left := p.seen.settings.creation - p.seen.now.Sub(p.machine.CreationTimestamp.Time)
	if left <= 0 {
		p.did.transition = &transition{
			phase: machinev1.MachineFailed, operation: machinev1.MachineOperationCreate, state: machinev1.MachineStateFailed,
			description: fmt.Sprintf(late, p.machine.Name, p.seen.settings.creation), joined: corev1.ConditionFalse,
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
		if e.RetryAfter > longRateWait || p.seen.now.Sub(p.machine.CreationTimestamp.Time) > quietGrace {
			// The message has no time in it: each further refusal would be another write.
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

// waitReason returns the condition reason of a wait for which queued is true.
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
	d, err := c.engine.Discard(ctx, c.vm(p), made)
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

// switchLate describes a Machine that has not changed its class in time: its set replaces it,
// and its deletion goes on with the class that it has.
const switchLate = "VM of Machine %s that was refused could not be removed in %s"

// reasonClassFallback is shown while a Machine changes from a class that the cloud refuses to another one.
const reasonClassFallback = "ClassFallback"

// switchClass gives the Machine the class that createFailed has recorded, once nothing is left of
// the VM that was requested from the present one.
func (c *Controller) switchClass(ctx context.Context, p *pass) error {
	was, next := p.machine.Spec.Class.Name, p.machine.Annotations[machinev1.NextClassAnnotation]
	switched, err := c.engine.SwitchClass(ctx, c.vm(p), next, true)
	switch {
	case err == nil && switched.Done:
		requeueAfter(p, switched.RetryAfter)
		return nil
	case apierrors.IsConflict(err) || err != nil && !outcome.IsCloud(err):
		return err
	}
	p.did.waitsFor = &waiting{reasonClassFallback, fallback.SwitchMessage(was, next)}
	if err != nil { // nothing could be found out about the VM of the present class
		p.did.waitsFor.message += ": " + err.Error()
		switched.RetryAfter = max(outcome.After(err, 0), shortRetry)
	}
	waitForCreation(p, switched.RetryAfter, switchLate)
	return nil
}

// switches reports whether the Machine changes its class. A VM that is known ends that.
func switches(m *machinev1.Machine) bool {
	return m.Spec.ProviderID == "" && m.Annotations[machinev1.NextClassAnnotation] != ""
}
