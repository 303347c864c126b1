package inframachinetemplate

import (
	"context"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
)

// SetupWithManager starts the controller with mgr, whose cache needs the indexes
// of index.Infrastructure and index.ClassBySecret.
func (c *Controller) SetupWithManager(mgr ctrl.Manager, workers int) error {
	return ctrl.NewControllerManagedBy(mgr).Named("mcmmachinetemplate").
		WithOptions(controller.Options{MaxConcurrentReconciles: workers, SkipNameValidation: new(true)}).
		For(&infrav1.MCMMachineTemplate{}, builder.WithPredicates(predicate.Or(changed(), c.marks.Foreign()))).
		Watches(&machinev1.MachineClass{}, handler.EnqueueRequestsFromMapFunc(c.ofClassNamed),
			builder.WithPredicates(classChanged())).
		Watches(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(c.ofSecret), builder.WithPredicates(secretChanged())).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(c.ofCluster),
			builder.WithPredicates(pauseChanged())).
		Complete(c)
}

// changed passes all but changes of the status alone.
func changed() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() ||
			!maps.Equal(e.ObjectOld.GetAnnotations(), e.ObjectNew.GetAnnotations()) ||
			!maps.Equal(e.ObjectOld.GetLabels(), e.ObjectNew.GetLabels())
	}}
}

func classChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() ||
			!e.ObjectOld.GetDeletionTimestamp().Equal(e.ObjectNew.GetDeletionTimestamp())
	}}
}

// secretChanged passes changes of entries, and of who may use them.
func secretChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		was, ok := e.ObjectOld.(*corev1.Secret)
		is, also := e.ObjectNew.(*corev1.Secret)
		return ok && also && (!equality.Semantic.DeepEqual(was.Data, is.Data) ||
			was.Annotations[machinev1.AllowedNamespacesAnnotation] != is.Annotations[machinev1.AllowedNamespacesAnnotation])
	}}
}

func pauseChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		was, ok := e.ObjectOld.(*clusterv1.Cluster)
		is, also := e.ObjectNew.(*clusterv1.Cluster)
		return ok && also && !equality.Semantic.DeepEqual(was.Spec.Paused, is.Spec.Paused)
	}}
}

// ofClassNamed are the templates that name a class.
func (c *Controller) ofClassNamed(ctx context.Context, o client.Object) []reconcile.Request {
	return c.found(ctx, client.InNamespace(o.GetNamespace()), client.MatchingFields{index.TemplateByClass: o.GetName()})
}

// ofSecret are the templates whose class names a Secret, which may be what their
// capacity could not be asked for with.
func (c *Controller) ofSecret(ctx context.Context, o client.Object) []reconcile.Request {
	var classes machinev1.MachineClassList
	if err := c.Client.List(ctx, &classes, client.MatchingFields{index.ClassBySecret: o.GetNamespace() + "/" +
		o.GetName()}); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Look up classes of a Secret", "Secret", client.ObjectKeyFromObject(o))
		return nil
	}
	var out []reconcile.Request
	for i := range classes.Items {
		out = append(out, c.ofClassNamed(ctx, &classes.Items[i])...)
	}
	return out
}

// ofCluster are the templates of a Cluster that is paused or resumed. There are few in a namespace.
func (c *Controller) ofCluster(ctx context.Context, o client.Object) []reconcile.Request {
	return c.found(ctx, client.InNamespace(o.GetNamespace()))
}

func (c *Controller) found(ctx context.Context, which ...client.ListOption) []reconcile.Request {
	var list infrav1.MCMMachineTemplateList
	if err := c.Client.List(ctx, &list, which...); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Look up MCMMachineTemplates")
		return nil
	}
	var out []reconcile.Request
	for i := range list.Items {
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return out
}
