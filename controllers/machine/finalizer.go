package machine

import (
	"cmp"
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/outcome"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/patch"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/vm"
	"github.com/capmcm/cluster-api-provider-mcm/internal/naming"
)

// lostIDRetry is when a cloud that gives no hint is asked again whose VM a Machine's is.
const lostIDRetry = time.Minute

// ensureFinalizer puts finalizer and owner id onto a Machine before anything is
// created for it. A MachineSet creates its Machines with both. An owner id that was lost is
// read back: from the name, where a MachineSet gave it, or from the VM.
func (c *Controller) ensureFinalizer(ctx context.Context, p *pass) error {
	id, err := c.ownerIDGivenBySet(ctx, p.machine)
	if err != nil {
		return err
	}
	if mayHaveUnknownVM(p.machine) && id == "" {
		if err := c.engine.Recall(ctx, c.vm(p)); err != nil {
			p.did.waitsFor = &waiting{outcome.Reason(err), err.Error()}
			return err
		}
	}
	// The UID that would stand in for an owner id would be taken for a real one in a copy of the Machine. A cloud
	// that does not answer is asked again later.
	keepsLooking := false
	if stripped(p.machine) && p.machine.Spec.ProviderID != "" && id == "" {
		if err := c.engine.Recall(ctx, c.vm(p)); err != nil {
			keepsLooking = true
			requeueAfter(p, cmp.Or(outcome.After(err, c.Options.ResourceExhaustedRetry), lostIDRetry))
		}
	}
	return c.patchMachine(ctx, p, func(m *machinev1.Machine) {
		if mayHaveUnknownVM(p.seen.before) {
			defaultAnnotation(m, machinev1.CreateAttemptAnnotation, vm.AttemptUnknown)
		}
		controllerutil.AddFinalizer(m, machinev1.Finalizer)
		if !keepsLooking {
			defaultAnnotation(m, machinev1.OwnerIDAnnotation, cmp.Or(id, string(m.UID)))
		}
		defaultAnnotation(m, machinev1.PriorityAnnotation, machinev1.DefaultPriority)
	})
}

// nameOwnerID gives a Machine that is being deleted, and has lost its owner id, the one that follows from its name. Any
// other one is read back when the VM is looked for.
func (c *Controller) nameOwnerID(ctx context.Context, p *pass) error {
	id, err := c.ownerIDGivenBySet(ctx, p.machine)
	if err != nil || id == "" {
		return err
	}
	return c.patchMachine(ctx, p, func(m *machinev1.Machine) {
		machinev1.SetAnnotation(m, machinev1.OwnerIDAnnotation, id)
	})
}

// mayHaveUnknownVM reports whether a VM may have been created for m although m knows neither its providerID nor
// its owner id: by MCM, which adds its finalizer first and knows no owner ids, or before somebody stripped m.
func mayHaveUnknownVM(m *machinev1.Machine) bool {
	return m.Annotations[machinev1.OwnerIDAnnotation] == "" && m.Spec.ProviderID == "" &&
		(controllerutil.ContainsFinalizer(m, machinev1.Finalizer) || m.Status.LastOperation.Type != "")
}

// stripped reports whether a Machine has a finalizer and no owner id: MCM's, or one that somebody has stripped.
func stripped(m *machinev1.Machine) bool {
	return m.Annotations[machinev1.OwnerIDAnnotation] == "" && controllerutil.ContainsFinalizer(m, machinev1.Finalizer)
}

// ownerIDGivenBySet returns the owner id that its MachineSet gave a Machine that has none any more: it follows
// from the name. Empty for a Machine that has one, and for one that its set did not name.
func (c *Controller) ownerIDGivenBySet(ctx context.Context, m *machinev1.Machine) (string, error) {
	owner := metav1.GetControllerOf(m)
	if m.Annotations[machinev1.OwnerIDAnnotation] != "" || owner == nil || owner.Kind != machinev1.MachineSetKind {
		return "", nil
	}
	set := &machinev1.MachineSet{}
	err := c.Client.Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: owner.Name}, set)
	if err != nil || set.UID != owner.UID {
		return "", client.IgnoreNotFound(err)
	}
	id, _ := naming.OwnerIDOf(set, m)
	return id, nil
}

// waitForName keeps a Machine while a request that creates another one of its name
// may be in flight, of a former leader or of this process: only the name makes that
// request fail. Usually there is none: the MachineSet's controller closes its
// reservation as soon as all of its requests were answered.
func (c *Controller) waitForName(ctx context.Context, p *pass) (bool, error) {
	owner := metav1.GetControllerOf(p.machine)
	left := c.Fence.InFlight()
	if owner == nil || owner.Kind != machinev1.MachineSetKind || forceDeletion(p.machine) || left <= 0 {
		return true, nil
	}
	set := &machinev1.MachineSet{}
	err := c.Live.Get(ctx, client.ObjectKey{Namespace: p.machine.Namespace, Name: owner.Name}, set)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("read MachineSet %s on the API server: %w", owner.Name, err)
	}
	if set.UID != owner.UID || !set.DeletionTimestamp.IsZero() || !naming.NameReserved(set, p.machine) {
		return true, nil
	}
	p.did.deletionWaitsFor = &waiting{machinev1.ReasonNameInUse, fmt.Sprintf(
		"VM and Node deleted; name kept until %s: a former leader may still create a Machine of it",
		p.seen.now.Add(left).UTC().Format(time.RFC3339))}
	requeueAfter(p, left)
	return false, nil
}

// removeFinalizer ends what this controller does for the Machine: the API server
// deletes it then, unless others have finalizers on it.
func (c *Controller) removeFinalizer(ctx context.Context, p *pass) (bool, error) {
	if err := patch.RemoveFinalizer(ctx, c.Client, p.machine.DeepCopy(), machinev1.Finalizer); err != nil {
		return false, err
	}
	p.did.finalizerRemoved = true
	p.did.events = append(p.did.events, kubeEvent{
		corev1.EventTypeNormal, eventDeleted, deletedMessage(p, c.engine.Deleting(machinev1.OwnerID(p.machine))),
	})
	return true, nil
}

// deletedMessage says what has gone with a Machine. seen is set if this process has seen the VM go.
func deletedMessage(p *pass, seen bool) string {
	switch {
	case p.did.vmRetained:
		return "Machine deleted without its VM"
	case p.machine.Spec.ProviderID == "" && !seen:
		return "Machine deleted, it had no VM"
	case p.machine.Spec.ProviderID == "":
		return "VM that was being created, and the Machine, deleted"
	case !seen:
		return fmt.Sprintf("Machine and its Node deleted; the cloud does not show VM %s any more", p.machine.Spec.ProviderID)
	}
	return fmt.Sprintf("VM %s and its Node deleted", p.machine.Spec.ProviderID)
}

func defaultAnnotation(o metav1.Object, key, value string) {
	if o.GetAnnotations()[key] == "" {
		machinev1.SetAnnotation(o, key, value)
	}
}
