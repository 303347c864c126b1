package mcmexternalcontrolplane

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

	controlplanev1 "github.com/capmcm/cluster-api-provider-mcm/api/controlplane/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/capi"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/fresh"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/watch"
)

// The indexes.
const (
	bySource          = "index.controlplane-source"  // MCMExternalControlPlane: spec.kubeconfigSecretRef.name
	machinesByCluster = "index.controlplane-machine" // Machine of Cluster API: label of the Cluster's name
)

// Indexes are the indexes that the controller needs.
func Indexes() []index.Index {
	one := func(value string) []string {
		if value == "" {
			return nil
		}
		return []string{value}
	}
	return []index.Index{
		{Object: &controlplanev1.MCMExternalControlPlane{}, Field: bySource, Extract: func(o client.Object) []string {
			if ref := o.(*controlplanev1.MCMExternalControlPlane).Spec.KubeconfigSecretRef; ref != nil {
				return one(ref.Name)
			}
			return nil
		}},
		{Object: &clusterv1.Machine{}, Field: machinesByCluster, Extract: func(o client.Object) []string {
			return one(o.GetLabels()[clusterv1.ClusterNameLabel])
		}},
	}
}

// SetupWithManager starts the controller with mgr.
func (c *Controller) SetupWithManager(mgr ctrl.Manager, workers int) error {
	owned := handler.EnqueueRequestForOwner(mgr.GetScheme(), mgr.GetRESTMapper(),
		&controlplanev1.MCMExternalControlPlane{}, handler.OnlyControllerOwner())
	return ctrl.NewControllerManagedBy(mgr).Named(controllerName).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers, SkipNameValidation: new(true)}).
		For(&controlplanev1.MCMExternalControlPlane{},
			builder.WithPredicates(predicate.Or(watch.ExceptStatus(), c.own.Foreign()))).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(ofCluster),
			builder.WithPredicates(capi.ClusterChanged())).
		Watches(&clusterv1.Machine{}, handler.EnqueueRequestsFromMapFunc(c.ofMachine),
			builder.WithPredicates(machineChanged())).
		WatchesMetadata(&corev1.Secret{}, owned, builder.WithPredicates(watch.Versions())).
		WatchesMetadata(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(c.ofSecret),
			builder.WithPredicates(watch.Versions())).
		WatchesRawSource(c.Clusters.GetClusterSource(controllerName, ofCluster)).
		Complete(fresh.Recheck(c))
}

// machineChanged passes a Machine whose version, or whose kubelet's, has changed.
func machineChanged() predicate.Predicate {
	version := func(m *clusterv1.Machine) string {
		if m.Status.NodeInfo == nil {
			return ""
		}
		return m.Status.NodeInfo.KubeletVersion
	}
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return version(e.Object.(*clusterv1.Machine)) != "" },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, after := e.ObjectOld.(*clusterv1.Machine), e.ObjectNew.(*clusterv1.Machine)
			return before.Spec.Version != after.Spec.Version || version(before) != version(after)
		},
	}
}

// ofCluster returns the control plane that a Cluster names.
func ofCluster(_ context.Context, o client.Object) []reconcile.Request {
	ref := o.(*clusterv1.Cluster).Spec.ControlPlaneRef
	if ref.Kind != kind || ref.APIGroup != controlplanev1.GroupVersion.Group {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: o.GetNamespace(), Name: ref.Name}}}
}

// ofMachine returns the control plane of a Machine's Cluster.
func (c *Controller) ofMachine(ctx context.Context, o client.Object) []reconcile.Request {
	cluster := &clusterv1.Cluster{}
	key := client.ObjectKey{Namespace: o.GetNamespace(), Name: o.(*clusterv1.Machine).Spec.ClusterName}
	if err := c.Client.Get(ctx, key, cluster); err != nil {
		return nil // a Cluster that comes later brings its control plane along
	}
	return ofCluster(ctx, cluster)
}

// ofSecret returns the control planes whose kubeconfig is in a Secret.
func (c *Controller) ofSecret(ctx context.Context, o client.Object) []reconcile.Request {
	return watch.Requests(ctx, c.Client, &controlplanev1.MCMExternalControlPlaneList{},
		client.InNamespace(o.GetNamespace()), client.MatchingFields{bySource: o.GetName()})
}
