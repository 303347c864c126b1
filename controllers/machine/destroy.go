package machine

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/bootstrap/token"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/class"
)

// destroy removes the VM and everything that was made with it. It needs
// credentials and region; where these are gone it waits, visibly.
func (c *Controller) destroy(ctx context.Context, f *facts) (bool, error) {
	resolved, err := c.classes.Resolve(ctx, c.Client, f.machine.Namespace, f.machine.Spec.Class.Name)
	if err != nil {
		return false, err
	}
	account, err := resolved.Account(ctx)
	if err != nil {
		return c.withoutCloud(ctx, f, resolved, err)
	}
	d, err := c.engine.Remove(ctx, account, resolved.Driver.Traits(), c.ref(f.machine, resolved))
	if cloud.CodeOf(err) == cloud.Denied && letGo(f) {
		return true, nil
	}
	if err != nil {
		f.leaving = &waiting{machinev1.ReasonDeletingVM, "The VM could not be deleted"}
		return false, err
	}
	if d.Done {
		return true, nil
	}
	text := "The VM is being deleted"
	if len(d.Remaining) > 0 {
		text += ", there is still " + strings.Join(d.Remaining, ", ")
	}
	f.leaving = &waiting{machinev1.ReasonDeletingVM, text}
	sooner(f, d.RetryAfter)
	return false, nil
}

// withoutCloud decides about a Machine whose VM cannot be reached because class
// or credentials are missing. It goes if it cannot have a VM: none is made from
// a class without finalizer, so a class that does not exist never made one for a
// Machine without providerID. Else it waits, or the user releases it.
func (c *Controller) withoutCloud(ctx context.Context, f *facts, r class.Resolved, cause error) (bool, error) {
	if !isCloud(cause) {
		return false, cause
	}
	if letGo(f) {
		return true, nil
	}
	if f.machine.Spec.ProviderID == "" && r.Object == nil {
		never, err := c.classNeverWas(ctx, f.machine)
		if err != nil || never {
			return never, err
		}
	}
	f.leaving = &waiting{reasonOf(cause), fmt.Sprintf("%s. Without it the VM cannot be deleted; restore it, or set the "+
		"annotation %s=true to let the Machine go without its VM",
		cause.Error(), machinev1.ReleaseAnnotation)}
	sooner(f, slowestRetry) // class and Secret are watched
	return false, nil
}

// mayGo reports whether the user lets m go without its VM if that cannot be removed.
func mayGo(m *machinev1.Machine) bool {
	return m.Annotations[machinev1.ReleaseAnnotation] == "true"
}

// letGo lets the Machine go without its VM if the user wants it, and tells it.
func letGo(f *facts) bool {
	if !mayGo(f.machine) {
		return false
	}
	f.vmLeft = true
	f.events = append(f.events, notice{
		corev1.EventTypeWarning, "ReleasedWithoutVM",
		fmt.Sprintf("Released by annotation %s; VM %q may still exist", machinev1.ReleaseAnnotation,
			f.machine.Spec.ProviderID),
	})
	return true
}

// classNeverWas confirms with the API server that the class does not exist.
func (c *Controller) classNeverWas(ctx context.Context, m *machinev1.Machine) (bool, error) {
	if m.Spec.Class.Name == "" {
		return true, nil
	}
	err := c.Live.Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: m.Spec.Class.Name}, &machinev1.MachineClass{})
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	return false, err
}

// release lets go of the node and then of the Machine itself.
func (c *Controller) release(ctx context.Context, f *facts) (bool, error) {
	if f.node != nil && ownsNode(f) {
		if err := c.releaseNode(ctx, f); err != nil {
			f.leaving = &waiting{machinev1.ReasonDeletingNode, fmt.Sprintf("Node %s could not be deleted", f.node.Name)}
			return false, err
		}
	}
	if c.Target != nil && f.machine.Status.NodeRef == nil &&
		f.machine.Status.CurrentStatus.Phase != machinev1.MachineRunning {
		if err := token.DeleteOwned(ctx, c.tokens(), c.tokenRequest(f)); err != nil && !apierrors.IsForbidden(err) {
			return false, err // one that we may not remove is left to its expiry
		}
	}
	if free, err := c.nameIsFree(ctx, f); err != nil || !free {
		return false, err
	}
	if err := dropFinalizer(ctx, c.Client, f.machine.DeepCopy(), machinev1.Finalizer); err != nil {
		return false, fmt.Errorf("remove finalizer: %w", err)
	}
	f.released = true
	f.events = append(f.events, notice{corev1.EventTypeNormal, eventDeleted, deletedText(f)})
	return true, nil
}

// releaseNode takes our finalizer, which kept the node until now, off it and
// deletes it, unless somebody has deleted it already.
func (c *Controller) releaseNode(ctx context.Context, f *facts) error {
	node := f.node.DeepCopy()
	if err := dropFinalizer(ctx, c.Target.Client, node, machinev1.NodeFinalizer); err != nil {
		return fmt.Errorf("remove finalizer of Node %s: %w", node.Name, err)
	}
	if !node.DeletionTimestamp.IsZero() { // as the answer says
		return nil
	}
	opts := &client.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &f.node.UID}}
	if err := c.Target.Client.Delete(ctx, node, opts); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete Node %s: %w", node.Name, err)
	}
	return nil
}

func deletedText(f *facts) string {
	switch {
	case f.vmLeft:
		return "The machine is gone, its VM was left behind"
	case f.machine.Spec.ProviderID == "":
		return "The machine is gone, it had no VM"
	}
	return fmt.Sprintf("VM %s and its node are gone", f.machine.Spec.ProviderID)
}
