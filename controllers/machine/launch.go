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
	frozenRetry   = 5 * time.Second // a thaw wakes nobody, and such a pass only reads the cache
	nodeNameRetry = 5 * time.Second // a cloud that names its nodes does so within seconds
	shortRetry    = 5 * time.Second // MCM's short retry, after errors that pass
	longRetry     = 3 * time.Minute // MCM's medium retry

	// most waits that nobody is to blame for are over by then; before, a word would be a write
	quietGrace = 10 * time.Second
)

// reasonUnprotected is why no VM is made from a class yet.
const reasonUnprotected = "ClassUnprotected"

// launch gives a Machine its VM, unless it has one that is complete.
func (c *Controller) launch(ctx context.Context, f *facts) error {
	if !wantsVM(f.machine) {
		return c.recoverProviderID(ctx, f)
	}
	made, err := c.ensure(ctx, f)
	if err != nil {
		return c.launchFailed(f, err)
	}
	f.vm = &made
	stale, err := c.nodeNameTaken(ctx, f, made)
	if err != nil {
		return err
	}
	if stale {
		return c.discardVM(ctx, f, made)
	}
	if err := c.record(ctx, f, made); err != nil {
		return fmt.Errorf("record VM %s: %w", made.ProviderID, err)
	}
	switch {
	case made.RetryAfter > 0:
		waitForVM(f, made.RetryAfter)
	case made.NodeName == "" && c.Target != nil:
		waitForVM(f, nodeNameRetry)
	default:
		f.created = true
	}
	return nil
}

// waitForVM waits for a VM that is not complete, for as long as a creation may take.
func waitForVM(f *facts, wait time.Duration) {
	left := f.settings.creation - f.now.Sub(f.machine.CreationTimestamp.Time)
	if left <= 0 {
		f.transition = &transition{
			phase: machinev1.MachineFailed, operation: machinev1.MachineOperationCreate, state: machinev1.MachineStateFailed,
			description: fmt.Sprintf("VM of Machine %s was not complete in %s", f.machine.Name, f.settings.creation),
		}
		return
	}
	requeueAfter(f, wait)
	requeueAfter(f, left)
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

// ensure asks the engine for the VM of the Machine.
func (c *Controller) ensure(ctx context.Context, f *facts) (cloud.VM, error) {
	if err := c.gate.Confirm(ctx, f.machine); err != nil {
		return cloud.VM{}, err
	}
	resolved, err := c.classes.Resolve(ctx, c.Client, f.machine.Namespace, f.machine.Spec.Class.Name)
	if err != nil {
		return cloud.VM{}, err
	}
	if err := resolved.Err(blockingSeverity(f.machine)); err != nil {
		return cloud.VM{}, err
	}
	if !resolved.Protected {
		return cloud.VM{}, unprotected(resolved.Object.Name)
	}
	account, err := resolved.Account(ctx)
	if err != nil {
		return cloud.VM{}, err
	}
	want := vm.Want{Attempt: attemptOf(f.machine), Next: c.nextAttempt(f)}
	want.Request = cloud.CreateRequest{
		Ref: c.ref(f.machine, resolved), Annotations: f.machine.Spec.NodeTemplateSpec.Annotations,
		Checkpoint: c.checkpoint(f),
	}
	switch {
	case f.machine.Spec.ProviderID != "":
	case f.machine.Annotations[machinev1.CreateAttemptAnnotation] == attemptOfMCM:
		want.Spent = true // there may be a VM that knows nothing of our tokens
	default:
		// A bootstrap token costs requests, and again each time that it is asked for.
		if err := c.engine.Admit(ctx, account, want); err != nil {
			return cloud.VM{}, err
		}
		want.Request.UserData, want.Spent, err = c.userData(ctx, f, resolved)
		if err != nil {
			return cloud.VM{}, err
		}
	}
	return c.engine.Ensure(ctx, account, resolved.Driver.Traits(), want)
}

// unprotected says that the class may still vanish at any moment. No VM is made
// from such a class, so that a Machine whose class does not exist and that has
// no providerID has no VM either.
func unprotected(name string) error {
	return &cloud.Error{
		Code: cloud.Unavailable, Op: "create VM", Reason: reasonUnprotected, RetryAfter: shortRetry,
		Err: fmt.Errorf("MachineClass %q has no finalizer yet, the machineclass controller puts it there", name),
	}
}

// blockingSeverity is the severity of problems that keep m from its VM: one that exists
// already only needs to be found.
func blockingSeverity(m *machinev1.Machine) cloud.Severity {
	if m.Spec.ProviderID != "" {
		return cloud.BlocksAll
	}
	return cloud.BlocksCreate
}

// launchFailed notes why there is no VM yet and when it is worth trying again.
func (c *Controller) launchFailed(f *facts, err error) error {
	if apierrors.IsConflict(err) || !isCloud(err) {
		return err // the API server's fault, not the cloud's: nothing to tell about the machine
	}
	if e, ok := errors.AsType[*cloud.Error](err); ok && c.queued(f, e) {
		requeueAfter(f, e.RetryAfter) // where it waits for its class, the class's update wakes the machine at once
		if f.now.Sub(f.machine.CreationTimestamp.Time) > quietGrace {
			f.waitsFor = &waiting{waitReason(e), err.Error()}
		}
		return nil
	}
	f.createErr = err
	wait := outcome.After(err, c.Options.ResourceExhaustedRetry)
	if wait == 0 {
		wait = backoff(f.now.Sub(f.machine.CreationTimestamp.Time))
	}
	requeueAfter(f, wait)
	requeueAfter(f, f.settings.creation-f.now.Sub(f.machine.CreationTimestamp.Time))
	return nil
}

// queued reports whether a machine has to wait although nothing is wrong: for its
// class's finalizer, or for its turn at the cloud's rate, of which a thousand
// machines that are made at once use up more than there is. To call each of them
// failed would be a write and two Events a machine, and wrong.
func (c *Controller) queued(f *facts, e *cloud.Error) bool {
	late := f.now.Sub(f.machine.CreationTimestamp.Time) >= f.settings.creation
	return e.Reason == reasonUnprotected || e.Reason == cloud.ReasonRateBudget && !late
}

// waitReason is how conditions name what awaitsTurn is true for.
func waitReason(e *cloud.Error) string {
	if e.Code == cloud.Throttled {
		return machinev1.ReasonCloudThrottled
	}
	return e.Reason
}

// backoff is the wait before the next try of a machine of that age: it grows
// with the time that trying has taken, without anything to remember.
func backoff(age time.Duration) time.Duration {
	return min(max(age/4, shortRetry), longRetry)
}

// nodeNameTaken reports whether the name of the VM's node belongs to an older node that
// is still registered. Such a VM could never join.
func (c *Controller) nodeNameTaken(ctx context.Context, f *facts, made cloud.VM) (bool, error) {
	if c.Target == nil || made.NodeName == "" || made.NodeName == f.machine.Name || f.machine.Spec.ProviderID != "" {
		return false, nil
	}
	node := &corev1.Node{}
	err := c.Target.Client.Get(ctx, client.ObjectKey{Name: made.NodeName}, node)
	if err != nil {
		return false, client.IgnoreNotFound(err)
	}
	return node.CreationTimestamp.Time.Before(f.machine.CreationTimestamp.Time), nil
}

// discardVM removes a VM whose node name is taken, and fails the Machine, so that
// its set makes another.
func (c *Controller) discardVM(ctx context.Context, f *facts, made cloud.VM) error {
	resolved, err := c.classes.Resolve(ctx, c.Client, f.machine.Namespace, f.machine.Spec.Class.Name)
	if err != nil {
		return err
	}
	account, err := resolved.Account(ctx)
	if err != nil {
		return err
	}
	ref := c.ref(f.machine, resolved)
	ref.ProviderID = made.ProviderID
	d, err := c.engine.Remove(ctx, account, resolved.Driver.Traits(), ref)
	if err != nil {
		return err
	}
	if !d.Done {
		requeueAfter(f, d.RetryAfter)
	}
	f.transition = &transition{
		phase: machinev1.MachineFailed, operation: machinev1.MachineOperationCreate, state: machinev1.MachineStateFailed,
		description: "VM using old node obj", errorCode: "Internal",
	}
	return nil
}
