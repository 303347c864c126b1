package mcmconfig

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

	bootstrapv1 "github.com/capmcm/cluster-api-provider-mcm/api/bootstrap/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/capi"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/fresh"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/watch"
)

// The indexes of MCMConfigs, and of the templates of them.
const (
	byClass   = "index.config-class"   // spec.machineClassRef.name
	bySource  = "index.config-source"  // spec.userDataSecretRef.name
	byCluster = "index.config-cluster" // label of the Cluster's name
)

// Indexes are the indexes that the controller needs, besides index.Classes.
func Indexes() []index.Index {
	of := func(field string, value func(*bootstrapv1.MCMConfig) string) index.Index {
		return index.Index{Object: &bootstrapv1.MCMConfig{}, Field: field, Extract: func(o client.Object) []string {
			if v := value(o.(*bootstrapv1.MCMConfig)); v != "" {
				return []string{v}
			}
			return nil
		}}
	}
	template := func(field string, ref func(bootstrapv1.MCMConfigSpec) *bootstrapv1.NameReference) index.Index {
		return index.Index{Object: &bootstrapv1.MCMConfigTemplate{}, Field: field, Extract: func(o client.Object) []string {
			if name := nameOf(ref(o.(*bootstrapv1.MCMConfigTemplate).Spec.Template.Spec)); name != "" {
				return []string{name}
			}
			return nil
		}}
	}
	return []index.Index{
		of(byClass, func(c *bootstrapv1.MCMConfig) string { return nameOf(c.Spec.MachineClassRef) }),
		of(bySource, func(c *bootstrapv1.MCMConfig) string { return nameOf(c.Spec.UserDataSecretRef) }),
		of(byCluster, func(c *bootstrapv1.MCMConfig) string { return c.Labels[clusterv1.ClusterNameLabel] }),
		template(byClass, func(s bootstrapv1.MCMConfigSpec) *bootstrapv1.NameReference { return s.MachineClassRef }),
		template(bySource, func(s bootstrapv1.MCMConfigSpec) *bootstrapv1.NameReference { return s.UserDataSecretRef }),
	}
}

func nameOf(ref *bootstrapv1.NameReference) string {
	if ref == nil {
		return ""
	}
	return ref.Name
}

// SetupWithManager starts both reconcilers with mgr.
func (c *Controller) SetupWithManager(mgr ctrl.Manager, workers int) error {
	err := ctrl.NewControllerManagedBy(mgr).Named(controllerName).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers, SkipNameValidation: new(true)}).
		For(&bootstrapv1.MCMConfig{}, builder.WithPredicates(predicate.Or(watch.ExceptStatus(), c.own.Foreign()))).
		Watches(&clusterv1.Machine{}, handler.EnqueueRequestsFromMapFunc(configOf), builder.WithPredicates(machineChanged())).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(c.configsOfCluster),
			builder.WithPredicates(capi.ClusterChanged())).
		WatchesMetadata(&corev1.Secret{}, handler.EnqueueRequestForOwner(mgr.GetScheme(), mgr.GetRESTMapper(),
			&bootstrapv1.MCMConfig{}, handler.OnlyControllerOwner()), builder.WithPredicates(watch.Versions())).
		WatchesMetadata(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(c.configsOfSecret),
			builder.WithPredicates(watch.Versions())).
		Watches(&machinev1.MachineClass{}, handler.EnqueueRequestsFromMapFunc(c.configsOfClass),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesRawSource(c.Clusters.GetClusterSource(controllerName, c.configsOfCluster)).
		Complete(fresh.Recheck(c))
	if err != nil {
		return err
	}
	return NewTemplates(c.Deps).setupWithManager(mgr, workers)
}

// machineChanged passes a Machine that has got its VM or its Node, or is being
// deleted.
func machineChanged() predicate.Predicate {
	return predicate.Funcs{
		DeleteFunc: func(event.DeleteEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, after := e.ObjectOld.(*clusterv1.Machine), e.ObjectNew.(*clusterv1.Machine)
			return before.Spec.ProviderID != after.Spec.ProviderID || before.Status.NodeRef != after.Status.NodeRef ||
				before.Spec.Bootstrap.ConfigRef != after.Spec.Bootstrap.ConfigRef ||
				before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero()
		},
	}
}

// configOf returns the config that a Machine names.
func configOf(_ context.Context, o client.Object) []reconcile.Request {
	ref := o.(*clusterv1.Machine).Spec.Bootstrap.ConfigRef
	if ref.Kind != kind || ref.APIGroup != bootstrapv1.GroupVersion.Group {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: o.GetNamespace(), Name: ref.Name}}}
}

func (c *Controller) configsOfCluster(ctx context.Context, o client.Object) []reconcile.Request {
	return c.lookUp(ctx, o.GetNamespace(), byCluster, o.GetName())
}

func (c *Controller) configsOfClass(ctx context.Context, o client.Object) []reconcile.Request {
	return c.lookUp(ctx, o.GetNamespace(), byClass, o.GetName())
}

// configsOfSecret returns the configs whose user data is in a Secret: those that
// name it, and those of the classes that name it.
func (c *Controller) configsOfSecret(ctx context.Context, o client.Object) []reconcile.Request {
	requests := c.lookUp(ctx, o.GetNamespace(), bySource, o.GetName())
	classes := &machinev1.MachineClassList{}
	watch.List(ctx, c.Client, classes,
		client.MatchingFields{index.ClassBySecret: client.ObjectKeyFromObject(o).String()})
	for i := range classes.Items {
		requests = append(requests, c.configsOfClass(ctx, &classes.Items[i])...)
	}
	return requests
}

// lookUp returns the configs that an index has under a value.
func (c *Controller) lookUp(ctx context.Context, namespace, field, value string) []reconcile.Request {
	return watch.Requests(ctx, c.Client, &bootstrapv1.MCMConfigList{}, client.InNamespace(namespace),
		client.MatchingFields{field: value})
}
