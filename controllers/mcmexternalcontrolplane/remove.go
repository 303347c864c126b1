package mcmexternalcontrolplane

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

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
func (c *Controller) leave(ctx context.Context, s *scope) (reconcile.Result, error) {
	err := s.recordOutcome(c.remove(ctx, s))
	if s.problem != nil {
		err = errors.Join(err, c.report(ctx, s))
	}
	return outcome.Of(s.wait, err)
}

// remove deletes what was created for the object, and then the finalizer. The garbage
// collector deletes the kubeconfig Secret.
func (c *Controller) remove(ctx context.Context, s *scope) error {
	if !slices.Contains(s.cp.Finalizers, machinev1.MCMExternalControlPlaneFinalizer) {
		return nil
	}
	if s.cp.Annotations[controlplanev1.HomeAnnotation] != "" {
		if err := c.removeIdentity(ctx, s); err != nil {
			return err
		}
	}
	return patch.RemoveFinalizer(ctx, c.Client, s.cp.DeepCopy(), machinev1.MCMExternalControlPlaneFinalizer)
}

// removeIdentity deletes the bindings of the ServiceAccount, and then the ServiceAccount.
// Where they are in another cluster, it emits an Event that names them.
//
// The deletion of a namespace takes the manager's permissions in it first, and no user can give
// them again. By then the bindings outside are gone, and the ServiceAccount has no permissions
// but to its own token, so what is forbidden in the namespace is left.
func (c *Controller) removeIdentity(ctx context.Context, s *scope) error {
	here, err := c.here(ctx)
	if err != nil {
		return err
	}
	all := c.identity(s.cp)
	slices.Reverse(all)
	if here != s.cp.Annotations[controlplanev1.HomeAnnotation] {
		c.Events.Eventf(s.cp, corev1.EventTypeWarning, controlplanev1.ReasonMovedAway,
			"Nothing was removed from the workload cluster: this object was moved here; delete there what has the "+
				"annotation %s=%s: %s, and what is bound to it",
			controlplanev1.MadeForAnnotation, madeFor(s.cp), nameOf(all[len(all)-1]))
		return nil
	}
	var left []string
	for _, o := range all {
		err := c.removeOne(ctx, s, o)
		if apierrors.IsForbidden(err) && o.GetNamespace() == s.cp.Namespace {
			left = append(left, nameOf(o))
			continue
		}
		if err != nil {
			return err
		}
	}
	if len(left) > 0 {
		c.Events.Eventf(s.cp, corev1.EventTypeWarning, controlplanev1.ReasonForbidden,
			"Removed the bindings outside of namespace %s, but not what is in it: this manager lacks permissions; delete "+
				"what there is of %s (not tried again)", s.cp.Namespace, strings.Join(left, ", "))
	}
	return nil
}

// removeOne deletes one object of the identity, if it was created for this one.
func (c *Controller) removeOne(ctx context.Context, s *scope, o client.Object) error {
	err := c.Live.Get(ctx, client.ObjectKeyFromObject(o), o)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", nameOf(o), err)
	}
	if o.GetAnnotations()[controlplanev1.MadeForAnnotation] != madeFor(s.cp) {
		return nil
	}
	return c.drop(ctx, o)
}
