package mcmremediation

import (
	"context"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/capi"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/fresh"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/watch"
)

// SetupWithManager starts the controller with mgr. No reconcile waits for a cloud to change.
func (c *Controller) SetupWithManager(mgr ctrl.Manager, workers int) error {
	return ctrl.NewControllerManagedBy(mgr).Named("mcmremediation").
		WithOptions(controller.Options{MaxConcurrentReconciles: workers, SkipNameValidation: new(true)}).
		For(&infrav1.MCMRemediation{}, builder.WithPredicates(predicate.Or(watch.ExceptStatus(), c.own.Foreign()))).
		Watches(&clusterv1.Machine{}, handler.EnqueueRequestsFromMapFunc(ofMachine),
			builder.WithPredicates(machineChanged())).
		Watches(&infrav1.MCMMachine{}, handler.EnqueueRequestsFromMapFunc(ofInfraMachine),
			builder.WithPredicates(watch.ExceptStatus())).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(c.ofCluster),
			builder.WithPredicates(capi.ClusterChanged())).
		Complete(fresh.Recheck(c))
}

// machineChanged leaves out Machines without remediation, and changes that say nothing about it.
func machineChanged() predicate.Predicate {
	type view struct{ health, owner, node string }
	of := func(m *clusterv1.Machine) view {
		text := func(kind string) string {
			if is := conditions.Get(m, kind); is != nil {
				return string(is.Status) + is.Reason
			}
			return ""
		}
		return view{
			text(clusterv1.MachineHealthCheckSucceededCondition), text(clusterv1.MachineOwnerRemediatedCondition),
			text(clusterv1.MachineNodeHealthyCondition),
		}
	}
	remediated := predicate.NewPredicateFuncs(func(o client.Object) bool {
		m, ok := o.(*clusterv1.Machine)
		return ok && conditions.Has(m, clusterv1.MachineExternallyRemediatedCondition)
	})
	return predicate.And(remediated, watch.Updates(func(was, is *clusterv1.Machine) bool {
		return watch.BesidesStatus(was, is) || of(was) != of(is) ||
			!conditions.Has(was, clusterv1.MachineExternallyRemediatedCondition)
	}))
}

// ofMachine is the MCMRemediation of a Machine, which has its name.
func ofMachine(_ context.Context, o client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(o)}}
}

// ofInfraMachine is the MCMRemediation of the Machine that owns an MCMMachine.
func ofInfraMachine(_ context.Context, o client.Object) []reconcile.Request {
	for _, ref := range o.GetOwnerReferences() {
		if ref.Kind == "Machine" {
			return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: o.GetNamespace(), Name: ref.Name}}}
		}
	}
	return nil
}

// ofCluster are the MCMRemediations of a Cluster.
func (c *Controller) ofCluster(ctx context.Context, o client.Object) []reconcile.Request {
	return watch.Requests(ctx, c.Client, &infrav1.MCMRemediationList{}, client.InNamespace(o.GetNamespace()),
		client.MatchingLabels{clusterv1.ClusterNameLabel: o.GetName()})
}
