package inframachineclass

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/util/workqueue"
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
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/capi"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/class"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/watch"
)

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// SetupWithManager starts both reconcilers with mgr.
func (c *Controller) SetupWithManager(mgr ctrl.Manager, workers int) error {
	options := controller.Options{MaxConcurrentReconciles: workers, SkipNameValidation: new(true)}
	err := ctrl.NewControllerManagedBy(mgr).Named("mcmclass").WithOptions(options).
		For(&machinev1.MachineClass{}, builder.WithPredicates(metadataChanged())).
		Watches(&infrav1.MCMMachine{}, classesOf(func(o client.Object) []string {
			return index.ClassesOf(o.(*infrav1.MCMMachine))
		})).
		Watches(&infrav1.MCMMachineTemplate{}, classesOf(func(o client.Object) []string {
			return []string{o.(*infrav1.MCMMachineTemplate).Spec.Template.Spec.MachineClassRef.Name}
		})).
		Complete(c)
	if err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).Named("mcmsecret").WithOptions(options).
		For(&corev1.Secret{}, builder.WithPredicates(metadataChanged())).
		Watches(&machinev1.MachineClass{}, secretsOf()).
		Complete(NewSecrets(c.Deps))
}

// metadataChanged passes updates of the metadata that the reconcilers write, and
// deletions.
func metadataChanged() predicate.Predicate {
	return watch.Updates(func(was, is client.Object) bool {
		_, marked := was.GetLabels()[capi.MoveLabel]
		_, still := is.GetLabels()[capi.MoveLabel]
		return !slices.Equal(was.GetFinalizers(), is.GetFinalizers()) || marked != still ||
			was.GetAnnotations()[capi.BlockMoveAnnotation] != is.GetAnnotations()[capi.BlockMoveAnnotation] ||
			!was.GetDeletionTimestamp().Equal(is.GetDeletionTimestamp())
	})
}

// classesOf enqueues the classes that an object names when it is created or
// deleted, and those that it named and names where that changes.
func classesOf(named func(client.Object) []string) handler.EventHandler {
	add := func(o client.Object, q queue) {
		for _, name := range named(o) {
			if name != "" {
				q.Add(reconcile.Request{NamespacedName: client.ObjectKey{Namespace: o.GetNamespace(), Name: name}})
			}
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { add(e.Object, q) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) { add(e.Object, q) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
			if !slices.Equal(named(e.ObjectOld), named(e.ObjectNew)) {
				add(e.ObjectOld, q)
				add(e.ObjectNew, q)
			}
		},
	}
}

// secretsOf enqueues the Secrets that a class names and named, where that or the
// metadata of the class changes.
func secretsOf() handler.EventHandler {
	add := func(o client.Object, q queue) {
		for _, ref := range class.SecretRefs(o.(*machinev1.MachineClass)) {
			q.Add(reconcile.Request{NamespacedName: ref.Key})
		}
	}
	changed := metadataChanged()
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { add(e.Object, q) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) { add(e.Object, q) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
			before, after := e.ObjectOld.(*machinev1.MachineClass), e.ObjectNew.(*machinev1.MachineClass)
			if changed.Update(e) || !equality.Semantic.DeepEqual(index.Secrets(before), index.Secrets(after)) {
				add(before, q)
				add(after, q)
			}
		},
	}
}
