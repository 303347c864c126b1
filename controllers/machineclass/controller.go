// Package machineclass keeps the classes that machines need, and the Secrets
// that classes need, from vanishing, and tells what is wrong with a class.
//
// Two reconcilers share it: Controller looks after MachineClasses, Secrets after
// the Secrets that they name. Machines learn of a changed class by themselves.
package machineclass

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/class"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/outcome"
)

// Deps are what both reconcilers need; every field is required.
type Deps struct {
	Client  client.Client // reads from a cache with the indexes of package index
	Live    client.Reader // reads from the API server; only before a class is let go
	Classes *class.Resolver
	Events  record.EventRecorder
}

// Controller holds a MachineClass for as long as a Machine needs it.
type Controller struct {
	Deps
	tell *teller
}

// New returns a Controller that has told nobody anything yet.
func New(d Deps) *Controller {
	return &Controller{Deps: d, tell: newTeller(d.Events)}
}

// Reconcile brings the class's finalizer into line with its use, and tells what
// is wrong with it, once for each version of it.
func (c *Controller) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	object := &machinev1.MachineClass{}
	if err := c.Client.Get(ctx, req.NamespacedName, object); err != nil {
		if client.IgnoreNotFound(err) == nil {
			c.tell.forget(req.NamespacedName)
			return reconcile.Result{}, nil
		}
		return outcome.Of(0, fmt.Errorf("read MachineClass: %w", err))
	}
	users, err := c.users(ctx, object)
	if err != nil {
		return outcome.Of(0, err)
	}
	held := c.hold(ctx, object, users)
	told := c.report(ctx, object, users)
	return outcome.Of(0, errors.Join(held, told))
}

// hold adds or removes the finalizer, if it is not as it should be.
func (c *Controller) hold(ctx context.Context, object *machinev1.MachineClass, users users) error {
	changed := object.DeepCopy()
	switch {
	case users.count > 0 && object.DeletionTimestamp.IsZero():
		controllerutil.AddFinalizer(changed, machinev1.Finalizer)
	case users.count == 0:
		controllerutil.RemoveFinalizer(changed, machinev1.Finalizer)
	}
	return patchFinalizers(ctx, c.Client, object, changed)
}

// report tells what is wrong with a class, or what its deletion waits for.
func (c *Controller) report(ctx context.Context, object *machinev1.MachineClass, users users) error {
	if !object.DeletionTimestamp.IsZero() {
		if users.count > 0 {
			c.tell.deletionWaits(object, users)
		}
		return nil
	}
	resolved, err := c.Classes.ResolveObject(ctx, c.Client, object)
	if err != nil {
		return err
	}
	c.tell.problems(object, resolved)
	return nil
}

// patchFinalizers writes the finalizers of changed, if they differ from those of
// object. It fails on a stale object, since a list is replaced as a whole.
func patchFinalizers(ctx context.Context, w client.Writer, object, changed client.Object) error {
	if len(object.GetFinalizers()) == len(changed.GetFinalizers()) {
		return nil
	}
	patch := client.MergeFromWithOptions(object, client.MergeFromWithOptimisticLock{})
	if err := w.Patch(ctx, changed, patch); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write finalizers: %w", err)
	}
	return nil
}
