// Package inframachineclass keeps the MachineClasses that MCMMachines use, and the
// Secrets that these classes name, from being removed, and has clusterctl move
// them together with their Cluster. What Machines of the native API use is
// protected by package class, with other finalizers.
package inframachineclass

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/capi"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/fresh"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/outcome"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/patch"
)

const eventDeletionWaits = "DeletionWaits"

// nativeUsers is why clusterctl may not move a class: Machines of the native API
// do not move along.
const nativeUsers = "machines of machine.sapcloud.io use this class"

// Deps are what both reconcilers need; every field is required.
type Deps struct {
	Client client.Client // reads from a cache with the indexes of index.Infrastructure, and index.ClassBySecret
	Live   client.Reader // reads from the API server; only before a class loses its finalizer
	Events record.EventRecorder
}

// Controller keeps the finalizer on a MachineClass for as long as an MCMMachine
// uses it.
type Controller struct{ Deps }

// New returns a Controller.
func New(d Deps) *Controller { return &Controller{d} }

// Reconcile adds or removes the finalizer and the move label of a class.
func (c *Controller) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	object := &machinev1.MachineClass{}
	if err := c.Client.Get(ctx, req.NamespacedName, object); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if capi.Moving(object) {
		return reconcile.Result{}, nil
	}
	machines, err := users(c.Deps).Find(ctx, object)
	if err != nil {
		return outcome.Of(0, err)
	}
	moves := machines.Count > 0
	if !moves {
		if moves, err = c.templated(ctx, object); err != nil {
			return outcome.Of(0, err)
		}
	}
	if !object.DeletionTimestamp.IsZero() && machines.Count > 0 {
		c.Events.Eventf(object, corev1.EventTypeWarning, eventDeletionWaits,
			"Deletion waits for %d MCMMachines, which need this class to remove their VMs, e.g. %s; delete them, or wait",
			machines.Count, machines.First)
	}
	return outcome.Of(0, c.syncMetadata(ctx, object, machines.Count > 0, moves))
}

// syncMetadata writes finalizer, label and annotation of a class, where they are
// not as they should be. It never removes the label, which may be the user's.
func (c *Controller) syncMetadata(ctx context.Context, object *machinev1.MachineClass, used, moves bool) error {
	changed := object.DeepCopy()
	setFinalizer(changed, used)
	_, marked := object.Labels[capi.MoveLabel]
	if moves {
		machinev1.SetLabel(changed, capi.MoveLabel, label(changed))
	}
	moves = moves || marked // the bootstrap provider marks what its templates name
	native := slices.Contains(object.Finalizers, machinev1.Finalizer)
	switch blocked := object.Annotations[capi.BlockMoveAnnotation]; {
	case native && moves && blocked == "":
		machinev1.SetAnnotation(changed, capi.BlockMoveAnnotation, nativeUsers)
	case !native && blocked == nativeUsers:
		delete(changed.Annotations, capi.BlockMoveAnnotation)
	}
	return write(ctx, c.Client, object, changed)
}

// templated reports whether a template names the class.
func (c *Controller) templated(ctx context.Context, object *machinev1.MachineClass) (bool, error) {
	var list infrav1.MCMMachineTemplateList
	err := c.Client.List(ctx, &list, client.InNamespace(object.Namespace),
		client.MatchingFields{index.TemplateByClass: object.Name}, client.Limit(1))
	if err != nil {
		return false, fmt.Errorf("look up MCMMachineTemplates of MachineClass %s: %w", object.Name, err)
	}
	return len(list.Items) > 0, nil
}

// setFinalizer adds the finalizer to o, or removes it, in memory.
func setFinalizer(o client.Object, used bool) {
	switch {
	case used && o.GetDeletionTimestamp().IsZero():
		controllerutil.AddFinalizer(o, machinev1.InUseFinalizer)
	case !used:
		controllerutil.RemoveFinalizer(o, machinev1.InUseFinalizer)
	}
}

// label is the value that the move label has. clusterctl does not read it, so it
// stays.
func label(o client.Object) string { return o.GetLabels()[capi.MoveLabel] }

// write writes what differs in metadata. An object that is gone needs nothing.
func write(ctx context.Context, w client.Writer, object, changed client.Object) error {
	wrote, err := patch.Metadata(ctx, w, object, changed)
	if wrote {
		fresh.NoteWrite(ctx, err)
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write metadata: %w", err)
	}
	return nil
}
