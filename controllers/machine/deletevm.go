package machine

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/class"
)

// deleteVM removes the VM and everything that was made with it. It needs
// credentials and region; where these are gone it waits, visibly.
func (c *Controller) deleteVM(ctx context.Context, f *facts) (bool, error) {
	resolved, err := c.classes.Resolve(ctx, c.Client, f.machine.Namespace, f.machine.Spec.Class.Name)
	if err != nil {
		return false, err
	}
	account, err := resolved.Account(ctx)
	if err != nil {
		return c.deleteWithoutAccount(ctx, f, resolved, err)
	}
	d, err := c.engine.Remove(ctx, account, resolved.Driver.Traits(), c.ref(f.machine, resolved))
	if cloud.CodeOf(err) == cloud.Denied && releaseWithoutVM(f) {
		return true, nil
	}
	if err != nil {
		f.deletionWaitsFor = &waiting{machinev1.ReasonDeletingVM, "The VM could not be deleted"}
		return false, err
	}
	if d.Done {
		return true, nil
	}
	text := "The VM is being deleted"
	if len(d.Remaining) > 0 {
		text += ", there is still " + strings.Join(d.Remaining, ", ")
	}
	f.deletionWaitsFor = &waiting{machinev1.ReasonDeletingVM, text}
	requeueAfter(f, d.RetryAfter)
	return false, nil
}

// deleteWithoutAccount decides about a Machine whose VM cannot be reached because class
// or credentials are missing. It goes if it cannot have a VM: none is made from
// a class without finalizer, so a class that does not exist never made one for a
// Machine without providerID. Else it waits, or the user releases it.
func (c *Controller) deleteWithoutAccount(ctx context.Context, f *facts, r class.Resolved, cause error) (bool, error) {
	if !isCloud(cause) {
		return false, cause
	}
	if releaseWithoutVM(f) {
		return true, nil
	}
	if f.machine.Spec.ProviderID == "" && r.Object == nil {
		never, err := c.classNeverExisted(ctx, f.machine)
		if err != nil || never {
			return never, err
		}
	}
	f.deletionWaitsFor = &waiting{reasonOf(cause), fmt.Sprintf("%s. Without it the VM cannot be deleted; restore it, or set the "+
		"annotation %s=true to let the Machine go without its VM",
		cause.Error(), machinev1.ReleaseAnnotation)}
	requeueAfter(f, longRetry) // class and Secret are watched
	return false, nil
}

// mayReleaseWithoutVM reports whether the user lets m go without its VM if that cannot be removed.
func mayReleaseWithoutVM(m *machinev1.Machine) bool {
	return m.Annotations[machinev1.ReleaseAnnotation] == "true"
}

// releaseWithoutVM lets the Machine go without its VM if the user wants it, and tells it.
func releaseWithoutVM(f *facts) bool {
	if !mayReleaseWithoutVM(f.machine) {
		return false
	}
	f.vmRetained = true
	f.events = append(f.events, kubeEvent{
		corev1.EventTypeWarning, "ReleasedWithoutVM",
		fmt.Sprintf("Released by annotation %s; VM %q may still exist", machinev1.ReleaseAnnotation,
			f.machine.Spec.ProviderID),
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
