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
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/class"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/outcome"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/vm"
)

// How long the steps wait where nothing wakes them.
const (
	staleRetry    = time.Second     // the newer version arrives by watch; this only guards against a lost event
	frozenRetry   = 5 * time.Second // a thaw wakes nobody, and such a pass only reads the cache
	nodeNameRetry = 5 * time.Second // a cloud that names its nodes does so within seconds
	failedRetry   = 5 * time.Second // MCM's short retry, after errors that pass
	slowestRetry  = 3 * time.Minute // MCM's medium retry

	// most waits that nobody is to blame for are over by then; before, a word would be a write
	quietGrace = 10 * time.Second
)

// reasonUnprotected is why no VM is made from a class yet.
const reasonUnprotected = "ClassUnprotected"

// launch gives a Machine its VM, unless it has one that is complete.
func (c *Controller) launch(ctx context.Context, f *facts) error {
	if !wantsVM(f.machine) {
		return c.relearn(ctx, f)
	}
	made, err := c.ensure(ctx, f)
	if err != nil {
		return c.failLaunch(f, err)
	}
	f.vm = &made
	stale, err := c.staleNode(ctx, f, made)
	if err != nil {
		return err
	}
	if stale {
		return c.discard(ctx, f, made)
	}
	if err := c.record(ctx, f, made); err != nil {
		return fmt.Errorf("record VM %s: %w", made.ProviderID, err)
	}
	switch {
	case made.RetryAfter > 0:
		unfinished(f, made.RetryAfter)
	case made.NodeName == "" && c.Target != nil:
		unfinished(f, nodeNameRetry)
	default:
		f.created = true
	}
	return nil
}

// unfinished waits for a VM that is not complete, for as long as a creation may take.
func unfinished(f *facts, wait time.Duration) {
	left := f.settings.creation - f.now.Sub(f.machine.CreationTimestamp.Time)
	if left <= 0 {
		f.next = &transition{
			phase: machinev1.MachineFailed, operation: machinev1.MachineOperationCreate, state: machinev1.MachineStateFailed,
			description: fmt.Sprintf("VM of Machine %s was not complete in %s", f.machine.Name, f.settings.creation),
		}
		return
	}
	sooner(f, wait)
	sooner(f, left)
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
	if err := resolved.Err(blocking(f.machine)); err != nil {
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
		Code: cloud.Unavailable, Op: "create VM", Reason: reasonUnprotected, RetryAfter: failedRetry,
		Err: fmt.Errorf("MachineClass %q has no finalizer yet, the machineclass controller puts it there", name),
	}
}

// blocking is the severity of problems that keep m from its VM: one that exists
// already only needs to be found.
func blocking(m *machinev1.Machine) cloud.Severity {
	if m.Spec.ProviderID != "" {
		return cloud.BlocksAll
	}
	return cloud.BlocksCreate
}

// ref says which VM is the Machine's.
func (c *Controller) ref(m *machinev1.Machine, r class.Resolved) cloud.Ref {
	return cloud.Ref{
		Name: m.Name, OwnerID: machinev1.OwnerID(m), ProviderID: m.Spec.ProviderID, Class: r.Class,
		State: m.Status.LastKnownState, Created: m.CreationTimestamp.Time,
	}
}

// nextAttempt records the number of the next attempt before it begins.
func (c *Controller) nextAttempt(f *facts) func(context.Context, int) error {
	return func(ctx context.Context, attempt int) error {
		return c.patchMachine(ctx, f, func(m *machinev1.Machine) {
			setAnnotation(m, machinev1.CreateAttemptAnnotation, fmt.Sprint(attempt))
		})
	}
}

// checkpoint persists the driver's note to itself, where MCM keeps it.
func (c *Controller) checkpoint(f *facts) func(context.Context, string) error {
	return func(ctx context.Context, state string) error {
		if f.machine.Status.LastKnownState == state {
			return nil
		}
		changed := f.machine.DeepCopy()
		changed.Status.LastKnownState = state
		if err := c.Client.Status().Patch(ctx, changed, client.MergeFrom(f.machine)); err != nil {
			return fmt.Errorf("checkpoint: %w", err)
		}
		c.marks.Wrote(changed)
		f.machine = changed
		return nil
	}
}

// record persists what identifies the VM, in one write: from then on this
// Machine never makes another.
func (c *Controller) record(ctx context.Context, f *facts, made cloud.VM) error {
	err := c.patchMachine(ctx, f, func(m *machinev1.Machine) {
		if m.Spec.ProviderID == "" {
			m.Spec.ProviderID = formed(m, made)
		}
		if c.Target != nil && made.NodeName != "" {
			setLabel(m, machinev1.NodeLabel, made.NodeName)
		}
	})
	f.nodeName = f.machine.Labels[machinev1.NodeLabel]
	return err
}

// failLaunch notes why there is no VM yet and when it is worth trying again.
func (c *Controller) failLaunch(f *facts, err error) error {
	if apierrors.IsConflict(err) || !isCloud(err) {
		return err // the API server's fault, not the cloud's: nothing to tell about the machine
	}
	if e, ok := errors.AsType[*cloud.Error](err); ok && c.awaitsTurn(f, e) {
		sooner(f, e.RetryAfter) // where it waits for its class, the class's update wakes the machine at once
		if f.now.Sub(f.machine.CreationTimestamp.Time) > quietGrace {
			f.waiting = &waiting{waitReason(e), err.Error()}
		}
		return nil
	}
	f.createErr = err
	wait := outcome.After(err, c.Options.ResourceExhaustedRetry)
	if wait == 0 {
		wait = backoff(f.now.Sub(f.machine.CreationTimestamp.Time))
	}
	sooner(f, wait)
	sooner(f, f.settings.creation-f.now.Sub(f.machine.CreationTimestamp.Time))
	return nil
}

// awaitsTurn reports whether a machine has to wait although nothing is wrong: for its
// class's finalizer, or for its turn at the cloud's rate, of which a thousand
// machines that are made at once use up more than there is. To call each of them
// failed would be a write and two Events a machine, and wrong.
func (c *Controller) awaitsTurn(f *facts, e *cloud.Error) bool {
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
	return min(max(age/4, failedRetry), slowestRetry)
}

// staleNode reports whether the name of the VM's node belongs to an older node that
// is still registered. Such a VM could never join.
func (c *Controller) staleNode(ctx context.Context, f *facts, made cloud.VM) (bool, error) {
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

// discard removes a VM whose node name is taken, and fails the Machine, so that
// its set makes another.
func (c *Controller) discard(ctx context.Context, f *facts, made cloud.VM) error {
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
		sooner(f, d.RetryAfter)
	}
	f.next = &transition{
		phase: machinev1.MachineFailed, operation: machinev1.MachineOperationCreate, state: machinev1.MachineStateFailed,
		description: "VM using old node obj", errorCode: "Internal",
	}
	return nil
}
