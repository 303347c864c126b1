package class

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/class"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/fresh"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/watch"
)

// SetupWithManager starts both reconcilers with mgr, under the names that MCM
// gives their queues.
func (c *Controller) SetupWithManager(mgr ctrl.Manager, workers int) error {
	options := controller.Options{MaxConcurrentReconciles: workers, SkipNameValidation: new(true)}
	err := ctrl.NewControllerManagedBy(mgr).Named("machineclass").WithOptions(options).
		For(&machinev1.MachineClass{}, builder.WithPredicates(classChanged())).
		Watches(&machinev1.Machine{}, c.machineEvents()).
		WatchesMetadata(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(c.classesOf),
			builder.WithPredicates(watch.Versions())).
		Complete(fresh.Recheck(c))
	if err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).Named("secret").WithOptions(options).
		For(&corev1.Secret{}, builder.OnlyMetadata, builder.WithPredicates(finalizerChanged(machinev1.SecretFinalizer))).
		Watches(&machinev1.MachineClass{}, watch.Named(class.SecretKeys)).
		Complete(fresh.Recheck(NewSecrets(c.Deps)))
}

// classChanged passes updates of a class that Machines or Secrets may depend on.
// The generation covers everything but metadata, which drivers may read too.
func classChanged() predicate.Predicate {
	return predicate.Or(
		predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{},
		predicate.AnnotationChangedPredicate{}, finalizerChanged(machinev1.Finalizer),
	)
}

// finalizerChanged passes an object that is new, is being deleted, or has gained
// or lost the finalizer. Our own finalizer counts too: its users may have ended
// while the cache did not show it yet, and that pass found nothing to remove.
func finalizerChanged(finalizer string) predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		changed := controllerutil.ContainsFinalizer(e.ObjectOld, finalizer) !=
			controllerutil.ContainsFinalizer(e.ObjectNew, finalizer)
		return changed || e.ObjectOld.GetDeletionTimestamp().IsZero() != e.ObjectNew.GetDeletionTimestamp().IsZero()
	}}
}

// machineEvents enqueues the class of a Machine that is created or deleted, and
// both classes where a Machine changes its class. A class that has its finalizer
// keeps it when another Machine is created. Should the cache be behind, the event
// of the lost finalizer enqueues the class.
func (c *Controller) machineEvents() handler.EventHandler {
	events := watch.Named(func(m *machinev1.Machine) []client.ObjectKey {
		var keys []client.ObjectKey
		for _, name := range index.MachineClasses(m) {
			keys = append(keys, client.ObjectKey{Namespace: m.Namespace, Name: name})
		}
		return keys
	})
	enqueue := events.CreateFunc
	events.CreateFunc = func(ctx context.Context, e event.CreateEvent, q watch.Queue) {
		if !c.isProtected(ctx, e.Object.(*machinev1.Machine)) {
			enqueue(ctx, e, q)
		}
	}
	return events
}

// isProtected reports whether the class of a Machine has its finalizer and is not
// being deleted.
func (c *Controller) isProtected(ctx context.Context, m *machinev1.Machine) bool {
	object := &machinev1.MachineClass{}
	key := client.ObjectKey{Namespace: m.Namespace, Name: m.Spec.Class.Name}
	err := c.Client.Get(ctx, key, object, client.UnsafeDisableDeepCopy)
	return err == nil && object.DeletionTimestamp.IsZero() && controllerutil.ContainsFinalizer(object, machinev1.Finalizer)
}

// classesOf returns the classes that name a Secret.
func (c *Controller) classesOf(ctx context.Context, secret client.Object) []reconcile.Request {
	return watch.Requests(ctx, c.Client, &machinev1.MachineClassList{},
		client.MatchingFields{index.ClassBySecret: client.ObjectKeyFromObject(secret).String()})
}
