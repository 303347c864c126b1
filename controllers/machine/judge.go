package machine

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// judge decides the phase of a Machine that has its VM, and carries out what
// becoming Running or Failed asks for.
func (c *Controller) judge(ctx context.Context, f *facts) error {
	if f.created {
		f.next = c.launched()
		if c.Target != nil {
			sooner(f, f.settings.creation-f.now.Sub(f.machine.CreationTimestamp.Time))
		}
		return nil
	}
	if f.next != nil || c.Target == nil || f.rival != "" {
		return nil // a node that two machines claim says nothing about either
	}
	v := judge(f.machine, f.node, f.settings, f.now)
	if f.createErr != nil && v.next == nil {
		return nil
	}
	f.createErr = nil // a healthy node runs on a VM, whatever the cloud says
	sooner(f, v.wait)
	return c.follow(ctx, f, v)
}

// follow carries out the verdict, unless an outage keeps the machine.
func (c *Controller) follow(ctx context.Context, f *facts, v verdict) error {
	v, err := c.withstand(ctx, f, v)
	switch {
	case err != nil || f.outage:
		return err
	case v.next == nil:
		return c.lookIfSlow(ctx, f)
	}
	return c.become(ctx, f, v)
}

// become carries out what the verdict's phase asks for.
func (c *Controller) become(ctx context.Context, f *facts, v verdict) error {
	if v.replaces {
		return c.replace(ctx, f, v.next)
	}
	if v.next.phase == machinev1.MachineRunning && v.next.operation == machinev1.MachineOperationCreate {
		if err := c.dropToken(ctx, f); err != nil && !apierrors.IsForbidden(err) {
			return err // one that we may not remove is left to its expiry
		}
	}
	f.next = v.next
	return nil
}

// launched is the phase of a machine whose VM is complete.
func (c *Controller) launched() *transition {
	if c.Target == nil {
		return &transition{
			phase: machinev1.MachineAvailable, operation: machinev1.MachineOperationCreate,
			state:       machinev1.MachineStateSuccessful,
			description: "Created machine on cloud provider",
		}
	}
	return &transition{
		phase: machinev1.MachinePending, operation: machinev1.MachineOperationCreate, state: machinev1.MachineStateProcessing,
		description: "Creating machine on cloud provider",
	}
}

// replace fails an unhealthy machine if it is its turn.
func (c *Controller) replace(ctx context.Context, f *facts, next *transition) error {
	ok, busy, err := c.permits.take(ctx, f.machine)
	if err != nil {
		return fmt.Errorf("look for machines being replaced: %w", err)
	}
	if ok {
		f.next = next
		return nil
	}
	f.waiting = &waiting{machinev1.ReasonWaitingForTurn, fmt.Sprintf("Machine %s of the same pool is being replaced",
		busy)}
	sooner(f, failedRetry)
	return nil
}

// slowJoin is how long a node usually takes at most to appear; from then on the
// cloud is asked, once a minute, what became of the VM.
const (
	slowJoin = 3 * time.Minute
	lookAt   = time.Minute
)

// lookIfSlow asks the cloud about the VM of a machine that takes long to join,
// so that its condition can say why.
func (c *Controller) lookIfSlow(ctx context.Context, f *facts) error {
	if f.machine.Status.CurrentStatus.Phase != machinev1.MachinePending {
		return nil
	}
	if justRegistered(f.node, f.now) {
		sooner(f, nodeGrace-f.now.Sub(f.node.CreationTimestamp.Time)) // then it is worth a word
	}
	since := f.now.Sub(f.machine.Status.CurrentStatus.LastUpdateTime.Time)
	if since < slowJoin {
		sooner(f, slowJoin-since)
		return nil
	}
	sooner(f, lookAt)
	r, err := c.classes.Resolve(ctx, c.Client, f.machine.Namespace, f.machine.Spec.Class.Name)
	if err != nil {
		return err
	}
	account, err := r.Account(ctx)
	if err != nil {
		return nil //nolint:nilerr // the class is told about elsewhere; here it only means that nobody can be asked
	}
	found, err := account.Get(ctx, c.ref(f.machine, r))
	if err != nil {
		f.waiting = &waiting{machinev1.ReasonWaitingForNode, "The VM cannot be seen: " + err.Error()}
		return nil //nolint:nilerr // a look that fails changes nothing
	}
	f.vm = &found
	return nil
}

// nodeGrace is how long a registered node may be unhealthy before a machine
// that waits for it says so: kubelets register first and get ready then, and
// each word about it would be a write.
const nodeGrace = 30 * time.Second

// justRegistered reports whether node is so young that being unhealthy is normal.
func justRegistered(node *corev1.Node, now time.Time) bool {
	return node != nil && now.Sub(node.CreationTimestamp.Time) < nodeGrace
}
