package mcmconfig

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/outcome"
)

// Templates has clusterctl move what MCMConfigTemplates name: a pool of no
// machines has no MCMConfig that would, and yet needs it where it moves to. And it
// tells of templates that were edited in place.
type Templates struct{ Deps }

// NewTemplates returns a Templates.
func NewTemplates(d Deps) *Templates { return &Templates{d} }

// Reconcile marks the class and the Secret that a MCMConfigTemplate names, where
// they exist. One that is paused, or being moved or deleted, marks nothing; nor
// does what a ClusterClass makes templates from, whose names are placeholders.
func (t *Templates) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	object := &bootstrapv1.MCMConfigTemplate{}
	if err := t.Client.Get(ctx, req.NamespacedName, object); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !object.DeletionTimestamp.IsZero() || !capi.Watched(object, t.WatchFilter) || capi.Moving(object) ||
		ofClusterClass(object) {
		return reconcile.Result{}, nil
	}
	cluster, _, err := capi.ClusterOf(ctx, t.Client, object)
	if err != nil || capi.Paused(cluster, object) != "" {
		return outcome.Of(0, err)
	}
	if err := t.tellEdits(ctx, object); err != nil {
		return outcome.Of(0, client.IgnoreNotFound(err))
	}
	spec := object.Spec.Template.Spec
	if err := t.markNamed(ctx, object.Namespace, nameOf(spec.MachineClassRef), &machinev1.MachineClass{}); err != nil {
		return outcome.Of(0, err)
	}
	return outcome.Of(0, t.markNamed(ctx, object.Namespace, nameOf(spec.UserDataSecretRef), &corev1.Secret{}))
}

// ofClusterClass reports whether object is what a ClusterClass makes templates from.
func ofClusterClass(object *bootstrapv1.MCMConfigTemplate) bool {
	return slices.ContainsFunc(object.OwnerReferences, func(r metav1.OwnerReference) bool {
		return r.Kind == "ClusterClass"
	})
}

// markNamed marks the object of that name, if there is one; it is read into o.
func (t *Templates) markNamed(ctx context.Context, namespace, name string, o client.Object) error {
	if name == "" {
		return nil
	}
	switch err := t.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, o); {
	case apierrors.IsNotFound(err):
		return nil // whoever needs it says that it is missing
	case err != nil:
		return fmt.Errorf("read %T %s: %w", o, name, err)
	}
	return mark(ctx, t.Client, o)
}

// mark lets clusterctl move an object that a spec names: nothing else ties it to
// the Cluster, and new machines need it in the next management cluster, too. The
// Secrets of a class follow its mark; that is the infrastructure provider's.
func mark(ctx context.Context, c client.Client, o client.Object) error {
	if _, marked := o.GetLabels()[capi.MoveLabel]; marked || capi.Moving(o) {
		return nil
	}
	changed := o.DeepCopyObject().(client.Object)
	capi.SetLabel(changed, capi.MoveLabel, "")
	if err := c.Patch(ctx, changed, client.MergeFrom(o)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("mark %T %s to be moved: %w", o, o.GetName(), err)
	}
	return nil
}

// setupWithManager starts the reconciler with mgr.
func (t *Templates) setupWithManager(mgr ctrl.Manager, workers int) error {
	return ctrl.NewControllerManagedBy(mgr).Named(Name+"template").
		WithOptions(controller.Options{MaxConcurrentReconciles: workers, SkipNameValidation: new(true)}).
		For(&bootstrapv1.MCMConfigTemplate{}, builder.WithPredicates(configChanged())).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(t.ofCluster),
			builder.WithPredicates(clusterChanged())).
		Watches(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(t.naming(bySource)), builder.WithPredicates(unmarked())).
		Watches(&machinev1.MachineClass{}, handler.EnqueueRequestsFromMapFunc(t.naming(byClass)),
			builder.WithPredicates(unmarked())).
		Complete(t)
}

// unmarked passes what is not to be moved: it may have come just now, or lost its mark.
func unmarked() predicate.Predicate {
	return predicate.And(predicate.NewPredicateFuncs(func(o client.Object) bool {
		_, marked := o.GetLabels()[capi.MoveLabel]
		return !marked
	}), predicate.LabelChangedPredicate{})
}

// ofCluster are the templates of a Cluster that is paused or goes on. There are
// few in a namespace.
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
	var list bootstrapv1.MCMConfigTemplateList
	if err := t.Client.List(ctx, &list, which...); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Look up MCMConfigTemplates")
		return nil
	}
	var requests []reconcile.Request
	for i := range list.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return requests
}
