package mcmmachinetemplate

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
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
// of index.Infrastructure and index.ClassBySecret.
func (c *Controller) SetupWithManager(mgr ctrl.Manager, workers int) error {
	return ctrl.NewControllerManagedBy(mgr).Named("mcmmachinetemplate").
		WithOptions(controller.Options{MaxConcurrentReconciles: workers, SkipNameValidation: new(true)}).
		For(&infrav1.MCMMachineTemplate{}, builder.WithPredicates(predicate.Or(watch.ExceptStatus(), c.own.Foreign()))).
		Watches(&machinev1.MachineClass{}, handler.EnqueueRequestsFromMapFunc(c.ofClassNamed),
			builder.WithPredicates(watch.SpecOrDeletion())).
		WatchesMetadata(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(c.ofSecret),
			builder.WithPredicates(watch.Versions())).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(c.ofCluster),
			builder.WithPredicates(capi.ClusterChanged())).
		WatchesRawSource(c.Fallback.Source(c.withFallbacks)).
		Complete(fresh.Recheck(c))
}

// ofClassNamed returns the templates that name a class.
func (c *Controller) ofClassNamed(ctx context.Context, o client.Object) []reconcile.Request {
	return c.templates(ctx, client.InNamespace(o.GetNamespace()),
		client.MatchingFields{index.TemplateByClass: o.GetName()})
}

// withFallbacks returns those of them that name other classes too.
func (c *Controller) withFallbacks(ctx context.Context, o client.Object) []reconcile.Request {
	list := &infrav1.MCMMachineTemplateList{}
	watch.List(ctx, c.Client, list, client.InNamespace(o.GetNamespace()),
		client.MatchingFields{index.TemplateByClass: o.GetName()})
	var requests []reconcile.Request
	for i := range list.Items {
		if t := &list.Items[i]; len(t.Spec.Template.Spec.FallbackClassRefs) > 0 {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(t)})
		}
	}
	return requests
}

// ofSecret returns the templates whose class names a Secret. The cloud may have
// refused its credentials when it was asked for the capacity.
func (c *Controller) ofSecret(ctx context.Context, o client.Object) []reconcile.Request {
	classes := &machinev1.MachineClassList{}
	watch.List(ctx, c.Client, classes,
		client.MatchingFields{index.ClassBySecret: client.ObjectKeyFromObject(o).String()})
	var requests []reconcile.Request
	for i := range classes.Items {
		requests = append(requests, c.ofClassNamed(ctx, &classes.Items[i])...)
	}
	return requests
}

// ofCluster returns the templates of a Cluster that was paused or resumed, and of
// the others in its namespace, which are few.
func (c *Controller) ofCluster(ctx context.Context, o client.Object) []reconcile.Request {
	return c.templates(ctx, client.InNamespace(o.GetNamespace()))
}

func (c *Controller) templates(ctx context.Context, which ...client.ListOption) []reconcile.Request {
	return watch.Requests(ctx, c.Client, &infrav1.MCMMachineTemplateList{}, which...)
}
