// Package inframachineclass holds the MachineClasses that MCMMachines need, and
// the Secrets that these name, with the finalizer of Cluster API's door, and has
// clusterctl move them together with their Cluster. What the native door needs is
// held by that door, with finalizers of its own.
package inframachineclass

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/capi"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/outcome"
)

const eventDeletionWaits = "DeletionWaits"

// nativeUsers is why clusterctl may not move a class: the machines of the native
// door do not move along.
const nativeUsers = "machines of machine.sapcloud.io use this class"

// Deps are what both reconcilers need; every field is required.
type Deps struct {
	Client client.Client // reads from a cache with the indexes of index.Infrastructure, and index.ClassBySecret
	Live   client.Reader // reads from the API server; only before a class is let go
	Events record.EventRecorder
}

// Controller holds a MachineClass for as long as a MCMMachine needs it.
type Controller struct{ Deps }

// New returns a Controller.
func New(d Deps) *Controller { return &Controller{d} }

// Reconcile brings finalizer and marks of a class into line with its use.
func (c *Controller) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	object := &machinev1.MachineClass{}
	if err := c.Client.Get(ctx, req.NamespacedName, object); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if capi.Moving(object) {
		return reconcile.Result{}, nil
	}
	machines, err := c.users(ctx, object)
	if err != nil {
		return outcome.Of(0, err)
	}
	moves := machines.count > 0
	if !moves {
		if moves, err = c.templated(ctx, object); err != nil {
			return outcome.Of(0, err)
		}
	}
	if !object.DeletionTimestamp.IsZero() && machines.count > 0 {
		c.Events.Eventf(object, corev1.EventTypeWarning, eventDeletionWaits,
			"Deletion waits for %d MCMMachines, which need this class to remove their VMs, e.g. %s", machines.count, machines.first)
	}
	return outcome.Of(0, c.mark(ctx, object, machines.count > 0, moves))
}

// mark writes finalizer, label and annotation of a class, if they are not as
// they should be. A label that is there stays: its user may have put it there.
func (c *Controller) mark(ctx context.Context, object *machinev1.MachineClass, used, moves bool) error {
	changed := object.DeepCopy()
	hold(changed, used)
	_, marked := object.Labels[capi.MoveLabel]
	if moves {
		capi.SetLabel(changed, capi.MoveLabel, label(changed))
	}
	moves = moves || marked // the bootstrap provider marks what its templates name
	native := slices.Contains(object.Finalizers, machinev1.Finalizer)
	switch blocked := object.Annotations[capi.BlockMoveAnnotation]; {
	case native && moves && blocked == "":
		capi.SetAnnotation(changed, capi.BlockMoveAnnotation, nativeUsers)
	case !native && blocked == nativeUsers:
		capi.SetAnnotation(changed, capi.BlockMoveAnnotation, "")
	}
	return patch(ctx, c.Client, object, changed)
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

// hold puts the finalizer onto o or takes it away, in memory.
func hold(o client.Object, used bool) {
	switch {
	case used && o.GetDeletionTimestamp().IsZero():
		controllerutil.AddFinalizer(o, machinev1.InUseFinalizer)
	case !used:
		controllerutil.RemoveFinalizer(o, machinev1.InUseFinalizer)
	}
}

// label is the value of the move label: what stands there, which clusterctl does not read.
func label(o client.Object) string { return o.GetLabels()[capi.MoveLabel] }

// patch writes what differs in metadata. It fails on a stale object, since a list
// is replaced as a whole.
func patch(ctx context.Context, w client.Writer, object, changed client.Object) error {
	if slices.Equal(object.GetFinalizers(), changed.GetFinalizers()) &&
		equality.Semantic.DeepEqual(object.GetLabels(), changed.GetLabels()) &&
		equality.Semantic.DeepEqual(object.GetAnnotations(), changed.GetAnnotations()) {
		return nil
	}
	err := w.Patch(ctx, changed, client.MergeFromWithOptions(object, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write metadata: %w", err)
	}
	return nil
}
