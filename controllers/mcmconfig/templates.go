package mcmconfig

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	bootstrapv1 "github.com/capmcm/cluster-api-provider-mcm/api/bootstrap/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/capi"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/fresh"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/outcome"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/watch"
)

// Templates has clusterctl move what MCMConfigTemplates name: a MachineDeployment
// of no Machines has no MCMConfig that would, and still needs it after the move. It
// also reports templates that were edited in place.
type Templates struct{ Deps }

// NewTemplates returns a Templates.
func NewTemplates(d Deps) *Templates { return &Templates{d} }

// Reconcile labels the class and the Secret that an MCMConfigTemplate names, where
// they exist. It does nothing for a template that is paused, or is being moved or
// deleted, or that a ClusterClass makes templates from: its names are placeholders.
func (t *Templates) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	object := &bootstrapv1.MCMConfigTemplate{}
	if err := t.Client.Get(ctx, req.NamespacedName, object); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !object.DeletionTimestamp.IsZero() || !capi.Watched(object, t.WatchFilter) || capi.Moving(object) ||
		capi.OwnedByClusterClass(object) {
		return reconcile.Result{}, nil
	}
	cluster, _, err := capi.ClusterOf(ctx, t.Client, object)
	if err != nil || capi.Paused(cluster, object) != "" {
		return outcome.Of(0, err)
	}
	if err := t.reportEdits(ctx, object); err != nil {
		return outcome.Of(0, client.IgnoreNotFound(err))
	}
	spec := object.Spec.Template.Spec
	if err := t.labelNamed(ctx, object.Namespace, nameOf(spec.MachineClassRef), &machinev1.MachineClass{}); err != nil {
		return outcome.Of(0, err)
	}
	return outcome.Of(0, t.labelNamed(ctx, object.Namespace, nameOf(spec.UserDataSecretRef), &corev1.Secret{}))
}

// labelNamed labels the object of that name to be moved, if there is one; it is read
// into o.
func (t *Templates) labelNamed(ctx context.Context, namespace, name string, o client.Object) error {
	if name == "" {
		return nil
	}
	switch err := t.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, o); {
	case apierrors.IsNotFound(err):
		return nil // whoever needs it says that it is missing
	case err != nil:
		return fmt.Errorf("read %T %s: %w", o, name, err)
	}
	return capi.EnsureMoveLabel(ctx, t.Client, o)
}

// setupWithManager starts the reconciler with mgr.
func (t *Templates) setupWithManager(mgr ctrl.Manager, workers int) error {
	return ctrl.NewControllerManagedBy(mgr).Named(controllerName+"template").
		WithOptions(controller.Options{MaxConcurrentReconciles: workers, SkipNameValidation: new(true)}).
		For(&bootstrapv1.MCMConfigTemplate{}, builder.WithPredicates(watch.ExceptStatus())).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(t.ofCluster),
			builder.WithPredicates(capi.ClusterChanged())).
		WatchesMetadata(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(t.naming(bySource)),
			builder.WithPredicates(withoutMoveLabel())).
		Watches(&machinev1.MachineClass{}, handler.EnqueueRequestsFromMapFunc(t.naming(byClass)),
			builder.WithPredicates(withoutMoveLabel())).
		Complete(fresh.Recheck(t))
}

// withoutMoveLabel passes objects that clusterctl does not move: they may be new, or
// have lost their label.
func withoutMoveLabel() predicate.Predicate {
	return predicate.And(predicate.NewPredicateFuncs(func(o client.Object) bool {
		_, labelled := o.GetLabels()[capi.MoveLabel]
		return !labelled
	}), predicate.LabelChangedPredicate{})
}

// ofCluster returns the templates of a Cluster that was paused or resumed, and of
// the others in its namespace, which are few.
func (t *Templates) ofCluster(ctx context.Context, o client.Object) []reconcile.Request {
	return t.found(ctx, client.InNamespace(o.GetNamespace()))
}

// naming returns the templates that name an object, by an index.
func (t *Templates) naming(field string) handler.MapFunc {
	return func(ctx context.Context, o client.Object) []reconcile.Request {
		return t.found(ctx, client.InNamespace(o.GetNamespace()), client.MatchingFields{field: o.GetName()})
	}
}

func (t *Templates) found(ctx context.Context, which ...client.ListOption) []reconcile.Request {
	return watch.Requests(ctx, t.Client, &bootstrapv1.MCMConfigTemplateList{}, which...)
}
