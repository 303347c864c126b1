// Package class keeps the MachineClasses that Machines use, and the
// Secrets that these classes name, from being removed, and reports what is wrong
// with a class.
//
// It has two reconcilers: Controller for MachineClasses, and Secrets for the
// Secrets that they name. Machines notice a changed class by themselves.
package class

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
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/fresh"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/outcome"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/patch"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/usage"
)

// Deps are what both reconcilers need; every field is required.
type Deps struct {
	Client  client.Client // reads from a cache with the indexes of package index
	Live    client.Reader // reads from the API server; only before a class loses its finalizer
	Classes *class.Resolver
	Events  record.EventRecorder
}

// Controller keeps the finalizer on a MachineClass for as long as a Machine uses it.
type Controller struct {
	Deps
	reporter *reporter
}

// New returns a Controller that has not reported anything yet.
func New(d Deps) *Controller {
	return &Controller{Deps: d, reporter: newReporter(d.Events)}
}

// Reconcile adds or removes the finalizer of a class, and reports what is wrong
// with the class, once for each version of it.
func (c *Controller) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	object := &machinev1.MachineClass{}
	if err := c.Client.Get(ctx, req.NamespacedName, object); err != nil {
		if client.IgnoreNotFound(err) == nil {
			c.reporter.forget(req.NamespacedName)
			return reconcile.Result{}, nil
		}
		return outcome.Of(0, fmt.Errorf("read MachineClass: %w", err))
	}
	found, err := users(c.Deps).Find(ctx, object)
	if err != nil {
		return outcome.Of(0, err)
	}
	return outcome.Of(0, errors.Join(c.syncFinalizer(ctx, object, found), c.report(ctx, object, found)))
}

// syncFinalizer adds or removes the finalizer, where it is not as it should be.
func (c *Controller) syncFinalizer(ctx context.Context, object *machinev1.MachineClass, found usage.Users) error {
	changed := object.DeepCopy()
	switch {
	case found.Count > 0 && object.DeletionTimestamp.IsZero():
		controllerutil.AddFinalizer(changed, machinev1.Finalizer)
	case found.Count == 0:
		controllerutil.RemoveFinalizer(changed, machinev1.Finalizer)
	}
	return patchFinalizers(ctx, c.Client, object, changed)
}

// report reports what is wrong with a class, or what its deletion waits for.
func (c *Controller) report(ctx context.Context, object *machinev1.MachineClass, found usage.Users) error {
	if !object.DeletionTimestamp.IsZero() {
		if found.Count > 0 {
			c.reporter.deletionWaits(object, found)
		}
		return nil
	}
	resolved, err := c.Classes.ResolveObject(ctx, c.Client, object)
	if err != nil {
		return err
	}
	c.reporter.problems(object, resolved)
	return nil
}

// patchFinalizers writes the finalizers of changed, if they differ from those of
// object. An object that is gone needs none.
func patchFinalizers(ctx context.Context, w client.Writer, object, changed client.Object) error {
	wrote, err := patch.Metadata(ctx, w, object, changed)
	if wrote {
		fresh.NoteWrite(ctx, err)
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write finalizers: %w", err)
	}
	return nil
}
