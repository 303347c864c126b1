package machine

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/class"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/outcome"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/vm"
)

// deleteVM removes the VM and everything that was created with it. It needs
// credentials and region; where these are missing it waits, visibly.
func (c *Controller) deleteVM(ctx context.Context, p *pass) (bool, error) {
	if p.seen.classErr != nil {
		return false, p.seen.classErr
	}
	if _, _, err := c.engine.Account(ctx, c.owner(p)); err != nil {
		return c.deleteWithoutAccount(ctx, p, err)
	}
	d, err := c.engine.Remove(ctx, c.owner(p))
	return c.vmRemoved(p, d, err)
}

// vmRemoved reports whether the VM is gone, or is to stay, and else what it waits for.
func (c *Controller) vmRemoved(p *pass, d cloud.Deletion, err error) (bool, error) {
	if cloud.CodeOf(err) == cloud.Denied && releaseWithoutVM(p) {
		return true, nil
	}
	if outcome.Reason(err) == machinev1.ReasonVMOfAnotherOwner {
		waitForRelease(p, err)
		return false, nil
	}
	if err != nil {
		p.did.deletionWaitsFor = &waiting{machinev1.ReasonDeletingVM, "The VM could not be deleted"}
		return false, err
	}
	if d.Done {
		return true, nil
	}
	p.did.deletionWaitsFor = &waiting{machinev1.ReasonDeletingVM, vm.DeletionMessage(d)}
	requeueAfter(p, d.RetryAfter)
	return false, nil
}

// deleteWithoutAccount decides about a Machine whose class cannot be used because it or its
// credentials are missing. The Machine goes if it cannot have a VM: none is made from
// a class without finalizer, so a class that does not exist never made one for a
// Machine without providerID. Else its VM is deleted with another class that provably reaches
// it. Without one it waits, or the user releases it.
func (c *Controller) deleteWithoutAccount(ctx context.Context, p *pass, cause error) (bool, error) {
	if !outcome.IsCloud(cause) {
		return false, cause
	}
	if releaseWithoutVM(p) {
		return true, nil
	}
	if p.machine.Spec.ProviderID == "" && p.seen.class.Object == nil {
		never, err := c.classNeverExisted(ctx, p.machine)
		if err != nil || never {
			return never, err
		}
	}
	if invalid, ok := errors.AsType[*cloud.Error](cause); ok && invalid.Code == cloud.Invalid {
		d, err := c.engine.RemoveAbandoned(ctx, c.owner(p), invalid)
		if cloud.CodeOf(err) != cloud.Invalid {
			return c.vmRemoved(p, d, err)
		}
		cause = err
	}
	waitForRelease(p, cause)
	return false, nil
}

// waitForRelease notes what a deletion waits for until a person resolves it, or releases the Machine.
func waitForRelease(p *pass, cause error) {
	p.did.deletionBlocked = true
	p.did.deletionWaitsFor = &waiting{outcome.Reason(cause), fmt.Sprintf("%s; the VM cannot be deleted until this is "+
		"resolved. To remove the Machine and leave the VM, set the annotation %s=true",
		cause.Error(), machinev1.ReleaseAnnotation)}
	requeueAfter(p, longRetry) // class and Secret are watched
}

// mayReleaseWithoutVM reports whether the user accepts that the VM of m stays.
func mayReleaseWithoutVM(m *machinev1.Machine) bool {
	return m.Annotations[machinev1.ReleaseAnnotation] == "true"
}

// releaseWithoutVM reports whether the user wants the Machine removed without its
// VM, and emits an Event about it.
func releaseWithoutVM(p *pass) bool {
	if !mayReleaseWithoutVM(p.machine) {
		return false
	}
	p.did.vmRetained = true
	p.did.events = append(p.did.events, kubeEvent{
		corev1.EventTypeWarning, eventReleased,
		fmt.Sprintf("Released by annotation %s; VM %q may still exist", machinev1.ReleaseAnnotation,
			p.machine.Spec.ProviderID),
	})
	return true
}

// classNeverExisted confirms with the API server that the class does not exist.
func (c *Controller) classNeverExisted(ctx context.Context, m *machinev1.Machine) (bool, error) {
	if m.Spec.Class.Name == "" {
		return true, nil
	}
	err := c.Live.Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: m.Spec.Class.Name}, &machinev1.MachineClass{})
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	return false, err
}

// Substitutes are the classes of the namespace that may reach the VM.
func (o vmOwner) Substitutes(ctx context.Context) ([]class.Resolved, error) {
	m := o.p.machine
	recorded, _ := o.Substitute()
	return class.Substitutes(ctx, o.Client, class.Search{
		Resolve: o.classes.Resolve, Namespace: m.Namespace, ProviderID: m.Spec.ProviderID, First: recorded,
		Own: m.Spec.Class.Name,
	})
}
