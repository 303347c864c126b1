package externalcontrolplane

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	controlplanev1 "github.com/capmcm/cluster-api-provider-mcm/api/controlplane/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/outcome"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/patch"
)

// leave removes the finalizer, or reports what keeps the object.
func (c *Controller) leave(ctx context.Context, f *facts) (reconcile.Result, error) {
	err := f.recordOutcome(c.remove(ctx, f))
	if f.problem != nil {
		err = errors.Join(err, c.report(ctx, f))
	}
	return outcome.Of(f.wait, err)
}

// remove deletes what was created for the object, and then the finalizer. The garbage
// collector deletes the kubeconfig Secret.
func (c *Controller) remove(ctx context.Context, f *facts) error {
	if !slices.Contains(f.cp.Finalizers, machinev1.MCMExternalControlPlaneFinalizer) {
		return nil
	}
	if f.cp.Annotations[controlplanev1.HomeAnnotation] != "" {
		if err := c.removeIdentity(ctx, f); err != nil {
			return err
		}
	}
	return patch.RemoveFinalizer(ctx, c.Client, f.cp.DeepCopy(), machinev1.MCMExternalControlPlaneFinalizer)
}

// removeIdentity deletes the bindings of the ServiceAccount, and then the ServiceAccount.
// Where they are in another cluster, it emits an Event that names them.
func (c *Controller) removeIdentity(ctx context.Context, f *facts) error {
	here, err := c.here(ctx)
	if err != nil {
		return err
	}
	all := c.identity(f.cp)
	slices.Reverse(all)
	if here != f.cp.Annotations[controlplanev1.HomeAnnotation] {
		c.Events.Eventf(f.cp, corev1.EventTypeWarning, controlplanev1.ReasonMovedAway,
			"This object was moved here. In its workload cluster, delete what has the annotation %s=%s: %s, and what is "+
				"bound to it",
			controlplanev1.MadeForAnnotation, madeFor(f.cp), nameOf(all[len(all)-1]))
		return nil
	}
	for _, o := range all {
		err := c.Live.Get(ctx, client.ObjectKeyFromObject(o), o)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", nameOf(o), err)
		}
		if o.GetAnnotations()[controlplanev1.MadeForAnnotation] != madeFor(f.cp) {
			continue
		}
		if err := c.drop(ctx, o); err != nil {
			return err
		}
	}
	return nil
}
