package mcmmachine

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/cluster-api/util/conditions"
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

const controllerName = "mcmmachine"

// SetupWithManager starts the controller with mgr, whose cache needs the indexes
// of index.Infrastructure and index.ClassBySecret; the caches of the workload
// clusters need index.NodeByProviderID. No reconcile waits for a cloud to change.
func (c *Controller) SetupWithManager(mgr ctrl.Manager, workers int) error {
	b := ctrl.NewControllerManagedBy(mgr).Named(controllerName).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: workers, SkipNameValidation: new(true),
			RateLimiter: retries(),
		}).
		For(&infrav1.MCMMachine{}, builder.WithPredicates(predicate.Or(objectChanged(), c.own.Foreign()))).
		Watches(&clusterv1.Machine{}, handler.EnqueueRequestsFromMapFunc(ofMachine),
			builder.WithPredicates(machineChanged())).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(c.ofCluster),
			builder.WithPredicates(capi.ClusterChanged())).
		Watches(&infrav1.MCMCluster{}, handler.EnqueueRequestsFromMapFunc(c.ofInfraCluster),
			builder.WithPredicates(infraClusterChanged())).
		Watches(&machinev1.MachineClass{}, handler.EnqueueRequestsFromMapFunc(c.ofClass),
			builder.WithPredicates(classChanged())).
		WatchesMetadata(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(c.ofSecret),
			builder.WithPredicates(watch.Versions()))
	if c.IPAM {
		b = b.Watches(&ipamv1.IPAddressClaim{}, handler.EnqueueRequestsFromMapFunc(ofClaim),
			builder.WithPredicates(claimChanged())).
			Watches(&ipamv1.IPAddress{}, handler.EnqueueRequestsFromMapFunc(ofAddress),
				builder.WithPredicates(watch.SpecOrDeletion()))
	}
	if c.Clusters != nil {
		b = b.WatchesRawSource(c.Clusters.GetClusterSource(controllerName, c.ofCluster))
	}
	built, err := b.Build(fresh.Recheck(c))
	if err != nil {
		return err
	}
	c.watcher = built
	return nil
}

// retries backs off passes that fail, but not for long.
func retries() workqueue.TypedRateLimiter[reconcile.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](5*time.Millisecond, longRetry)
}

// watchNodes makes the Nodes of the machine's Cluster wake their machines.
func (c *Controller) watchNodes(ctx context.Context, p *pass) error {
	if c.watcher == nil {
		return nil
	}
	err := c.Clusters.Watch(ctx, client.ObjectKeyFromObject(p.seen.cluster),
		clustercache.NewWatcher(clustercache.TypedWatcherOptions[client.Object, ctrl.Request]{
			Name: controllerName + "-nodes", Watcher: c.watcher, Kind: &corev1.Node{},
			EventHandler: handler.EnqueueRequestsFromMapFunc(c.ofNode),
			Predicates:   []predicate.TypedPredicate[client.Object]{nodeChanged()},
		}))
	if err != nil {
		return fmt.Errorf("watch the Nodes of Cluster %s: %w", p.seen.cluster.Name, err)
	}
	return nil
}

// ofMachine is the MCMMachine of a Machine.
func ofMachine(_ context.Context, o client.Object) []reconcile.Request {
	m, ok := o.(*clusterv1.Machine)
	if !ok || m.Spec.InfrastructureRef.Kind != "MCMMachine" ||
		m.Spec.InfrastructureRef.APIGroup != infrav1.GroupVersion.Group {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{
		Namespace: m.Namespace,
		Name:      m.Spec.InfrastructureRef.Name,
	}}}
}

// ofCluster are the MCMMachines of a Cluster.
func (c *Controller) ofCluster(ctx context.Context, o client.Object) []reconcile.Request {
	return c.requests(ctx, client.InNamespace(o.GetNamespace()),
		client.MatchingFields{index.MCMMachineByCluster: o.GetName()})
}

// ofInfraCluster are the MCMMachines of an MCMCluster's Cluster.
func (c *Controller) ofInfraCluster(ctx context.Context, o client.Object) []reconcile.Request {
	name := o.GetLabels()[clusterv1.ClusterNameLabel]
	if name == "" {
		return nil
	}
	return c.requests(ctx, client.InNamespace(o.GetNamespace()), client.MatchingFields{index.MCMMachineByCluster: name})
}

// ofClass are the MCMMachines of a class that still need something of it, or that
// could not be looked at for its sake.
func (c *Controller) ofClass(ctx context.Context, o client.Object) []reconcile.Request {
	return c.requests(ctx, client.InNamespace(o.GetNamespace()),
		client.MatchingFields{index.MCMMachineByClass: o.GetName()})
}

// ofSecret are the MCMMachines whose class names the Secret, and those whose
// Machine boots with it.
func (c *Controller) ofSecret(ctx context.Context, o client.Object) []reconcile.Request {
	key := client.ObjectKeyFromObject(o).String()
	var classes machinev1.MachineClassList
	watch.List(ctx, c.Client, &classes, client.MatchingFields{index.ClassBySecret: key})
	var out []reconcile.Request
	for i := range classes.Items {
		out = append(out, c.ofClass(ctx, &classes.Items[i])...)
	}
	var machines clusterv1.MachineList
	watch.List(ctx, c.Client, &machines, client.InNamespace(o.GetNamespace()),
		client.MatchingFields{index.MachineByBootstrapData: o.GetName()})
	for i := range machines.Items {
		out = append(out, ofMachine(ctx, &machines.Items[i])...)
	}
	return out
}

var nameOfClaim = regexp.MustCompile(`^(.+)-\d+-\d+$`) // as claimName makes it

// ofClaim is the MCMMachine that needs an IPAddressClaim of that name, whoever made it: a
// machine whose name is taken waits until somebody deletes that claim.
func ofClaim(_ context.Context, o client.Object) []reconcile.Request {
	parts := nameOfClaim.FindStringSubmatch(o.GetName())
	if parts == nil {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: o.GetNamespace(), Name: parts[1]}}}
}

// ofAddress is the MCMMachine whose IPAddressClaim has an IPAddress.
func ofAddress(ctx context.Context, o client.Object) []reconcile.Request {
	address, ok := o.(*ipamv1.IPAddress)
	if !ok {
		return nil
	}
	claim := &ipamv1.IPAddressClaim{}
	claim.Namespace, claim.Name = address.Namespace, address.Spec.ClaimRef.Name
	return ofClaim(ctx, claim)
}

// ofNode is the MCMMachine of a Node of a workload cluster.
func (c *Controller) ofNode(ctx context.Context, o client.Object) []reconcile.Request {
	node, ok := o.(*corev1.Node)
	if !ok || node.Spec.ProviderID == "" {
		return nil
	}
	return c.requests(ctx, client.MatchingFields{index.MCMMachineByProviderID: node.Spec.ProviderID})
}

func (c *Controller) requests(ctx context.Context, which ...client.ListOption) []reconcile.Request {
	return watch.Requests(ctx, c.Client, &infrav1.MCMMachineList{}, which...)
}

// objectChanged leaves out changes of the status alone, unless it was lost.
func objectChanged() predicate.Predicate {
	return watch.Updates(func(was, is *infrav1.MCMMachine) bool {
		return watch.BesidesStatus(was, is) || provisioned(was) && !provisioned(is)
	})
}

// machineChanged passes what an MCMMachine depends on of its Machine: of the
// status, which changes often, whether the Node is there and healthy.
func machineChanged() predicate.Predicate {
	return watch.Updates(func(was, is *clusterv1.Machine) bool {
		return was.Generation != is.Generation || !was.DeletionTimestamp.Equal(is.DeletionTimestamp) ||
			was.Status.NodeRef != is.Status.NodeRef || nodeHealth(was) != nodeHealth(is)
	})
}

func nodeHealth(m *clusterv1.Machine) metav1.ConditionStatus {
	if c := conditions.Get(m, clusterv1.MachineNodeHealthyCondition); c != nil {
		return c.Status
	}
	return ""
}

// infraClusterChanged passes the arrival of the durable id.
func infraClusterChanged() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		DeleteFunc: func(event.DeleteEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			const key = machinev1.OwnerIDAnnotation
			return e.ObjectOld.GetAnnotations()[key] != e.ObjectNew.GetAnnotations()[key]
		},
	}
}

// classChanged passes what can make a machine possible that was not.
func classChanged() predicate.Predicate {
	return watch.Updates(func(was, is *machinev1.MachineClass) bool {
		return was.Generation != is.Generation || !equality.Semantic.DeepEqual(was.Annotations, is.Annotations) ||
			!equality.Semantic.DeepEqual(was.Labels, is.Labels) || !was.DeletionTimestamp.Equal(is.DeletionTimestamp) ||
			slices.Contains(was.Finalizers, machinev1.InUseFinalizer) != slices.Contains(is.Finalizers, machinev1.InUseFinalizer)
	})
}

// claimChanged passes what decides whether a claim has an address.
func claimChanged() predicate.Predicate {
	return watch.Updates(func(was, is *ipamv1.IPAddressClaim) bool {
		return watch.BesidesStatus(was, is) || was.Status.AddressRef != is.Status.AddressRef ||
			!equality.Semantic.DeepEqual(was.Status.Conditions, is.Status.Conditions)
	})
}

// nodeChanged leaves out what a kubelet reports every few seconds.
func nodeChanged() predicate.Predicate {
	return watch.Updates(func(was, is *corev1.Node) bool {
		return watch.BesidesStatus(was, is) || was.Spec.ProviderID != is.Spec.ProviderID ||
			!equality.Semantic.DeepEqual(was.Spec.Taints, is.Spec.Taints)
	})
}
