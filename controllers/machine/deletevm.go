package machine

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/outcome"
)

// deleteVM removes the VM and everything that was created with it, once it has left its load balancers. A Machine goes
// without that where it cannot have a VM: none is made from a class without finalizer, so a class that does not exist
// never made one for a Machine without providerID. Where class or credentials are missing, and no other class provably
// reaches the VM, it waits, visibly, or the user releases it.
func (c *Controller) deleteVM(ctx context.Context, p *pass) (bool, error) {
	if p.seen.classErr != nil {
		return false, p.seen.classErr
	}
	if p.machine.Spec.ProviderID == "" && p.seen.class.Object == nil && !mayReleaseWithoutVM(p.machine) {
		if never, err := c.classNeverExisted(ctx, p.machine); err != nil || never {
			return never, err
		}
	}
	left, err := c.engine.Delete(ctx, c.vm(p))
	code := cloud.CodeOf(err)
	switch {
	case err == nil && left.Done:
		return true, nil
	case err == nil:
		p.did.deletionWaitsFor = &waiting{left.Reason, left.Message}
		requeueAfter(p, left.RetryAfter)
		return false, nil
	case (code == cloud.Invalid || code == cloud.Denied) && releaseWithoutVM(p):
		return true, nil
	case code == cloud.Invalid, outcome.Reason(err) == machinev1.ReasonVMOfAnotherOwner:
		waitForRelease(p, err)
		return false, nil
	}
	p.did.deletionWaitsFor = &waiting{machinev1.ReasonDeletingVM, "The VM could not be deleted"}
	return false, err
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
