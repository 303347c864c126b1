package infracluster

import (
	"context"
	"maps"
	"slices"

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
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/capi"
)

// SetupWithManager starts the controller with mgr, whose cache needs the indexes
// of index.Infrastructure.
func (c *Controller) SetupWithManager(mgr ctrl.Manager, workers int) error {
	return ctrl.NewControllerManagedBy(mgr).Named("mcmcluster").
		WithOptions(controller.Options{MaxConcurrentReconciles: workers, SkipNameValidation: new(true)}).
		For(&infrav1.MCMCluster{}, builder.WithPredicates(predicate.Or(changed(), c.marks.Foreign()))).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(ofCluster),
			builder.WithPredicates(clusterChanged())).
		Watches(&infrav1.MCMMachine{}, handler.EnqueueRequestsFromMapFunc(c.ofMachine), builder.WithPredicates(gone())).
		Complete(c)
}

// changed passes all but changes of the status alone.
func changed() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		was, is := e.ObjectOld.(*infrav1.MCMCluster), e.ObjectNew.(*infrav1.MCMCluster)
		return was.UID != is.UID || was.Generation != is.Generation || !maps.Equal(was.Labels, is.Labels) ||
			!maps.Equal(was.Annotations, is.Annotations) ||
			!slices.Equal(was.Finalizers, is.Finalizers) || !equality.Semantic.DeepEqual(was.OwnerReferences,
			is.OwnerReferences) ||
			!was.DeletionTimestamp.Equal(is.DeletionTimestamp) || was.Status.Initialization.Provisioned != nil &&
			is.Status.Initialization.Provisioned == nil
	}}
}

// clusterChanged passes what a MCMCluster depends on.
func clusterChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() ||
			!e.ObjectOld.GetDeletionTimestamp().Equal(e.ObjectNew.GetDeletionTimestamp())
	}}
}

// gone passes deletions only.
func gone() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		UpdateFunc:  func(event.UpdateEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// ofCluster is the MCMCluster of a Cluster.
func ofCluster(_ context.Context, o client.Object) []reconcile.Request {
	cluster, ok := o.(*clusterv1.Cluster)
	if !ok || !capi.NamesInfraCluster(cluster) {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{
		Namespace: cluster.Namespace,
		Name:      cluster.Spec.InfrastructureRef.Name,
	}}}
}

// ofMachine is the MCMCluster of a machine's Cluster.
func (c *Controller) ofMachine(ctx context.Context, o client.Object) []reconcile.Request {
	cluster, _, err := capi.ClusterOf(ctx, c.Client, o)
	if err != nil || cluster == nil {
		return nil // it comes back by itself
	}
	return ofCluster(ctx, cluster)
}
