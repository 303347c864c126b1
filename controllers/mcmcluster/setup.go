package mcmcluster

import (
	"context"

	corev1 "k8s.io/api/core/v1"
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
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/capi"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/fresh"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/watch"
)

// SetupWithManager starts the controller with mgr, whose cache needs the indexes
// of index.Infrastructure.
func (c *Controller) SetupWithManager(mgr ctrl.Manager, workers int) error {
	return ctrl.NewControllerManagedBy(mgr).Named("mcmcluster").
		WithOptions(controller.Options{MaxConcurrentReconciles: workers, SkipNameValidation: new(true)}).
		For(&infrav1.MCMCluster{},
			builder.WithPredicates(predicate.Or(watch.ExceptStatus(), statusLost(), c.own.Foreign()))).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(ofCluster),
			builder.WithPredicates(watch.SpecOrDeletion())).
		Watches(&infrav1.MCMMachine{}, handler.EnqueueRequestsFromMapFunc(c.ofMachine),
			builder.WithPredicates(onlyDeletions())).
		Watches(&infrav1.MCMMachineTemplate{}, handler.EnqueueRequestsFromMapFunc(c.ofTemplate),
			builder.WithPredicates(watch.ExceptStatus())).
		Watches(&machinev1.MachineClass{}, handler.EnqueueRequestsFromMapFunc(c.ofClass),
			builder.WithPredicates(watch.SpecOrDeletion())).
		WatchesMetadata(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(c.ofSecret),
			builder.WithPredicates(watch.Versions())).
		Complete(fresh.Recheck(c))
}

// statusLost passes an object that somebody has taken its status from, for example
// a restore.
func statusLost() predicate.Predicate {
	return watch.Updates(func(was, is *infrav1.MCMCluster) bool {
		return was.Status.Initialization.Provisioned != nil && is.Status.Initialization.Provisioned == nil
	})
}

// onlyDeletions passes objects that are gone.
func onlyDeletions() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		UpdateFunc:  func(event.UpdateEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// ofCluster returns the MCMCluster of a Cluster.
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

// ofClass returns the MCMClusters whose templates name a class.
func (c *Controller) ofClass(ctx context.Context, o client.Object) []reconcile.Request {
	var list infrav1.MCMMachineTemplateList
	watch.List(ctx, c.Client, &list, client.InNamespace(o.GetNamespace()),
		client.MatchingFields{index.TemplateByClass: o.GetName()})
	var requests []reconcile.Request
	for i := range list.Items {
		requests = append(requests, c.ofTemplate(ctx, &list.Items[i])...)
	}
	return requests
}

// ofTemplate returns the MCMCluster of the Cluster that a template is in; of a template
// that is in none yet, all of its namespace.
func (c *Controller) ofTemplate(ctx context.Context, o client.Object) []reconcile.Request {
	if !isUnowned(o) {
		return c.ofMachine(ctx, o)
	}
	return watch.Requests(ctx, c.Client, &infrav1.MCMClusterList{}, client.InNamespace(o.GetNamespace()))
}

// ofMachine returns the MCMCluster of the Cluster that a machine or template is in.
func (c *Controller) ofMachine(ctx context.Context, o client.Object) []reconcile.Request {
	cluster, _, err := capi.ClusterOf(ctx, c.Client, o)
	if err != nil || cluster == nil {
		return nil // it comes back by itself
	}
	return ofCluster(ctx, cluster)
}
