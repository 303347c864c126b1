package machine

import (
	"context"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
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
	"sigs.k8s.io/controller-runtime/pkg/source"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/drain"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/fresh"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/vm"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/watch"
)

// SetupWithManager starts the controller with that many workers. No reconcile
// waits for a cloud or a drain, so workers are never held up by one machine.
func (c *Controller) SetupWithManager(mgr ctrl.Manager, workers int) error {
	b := ctrl.NewControllerManagedBy(mgr).
		Named("machine").
		For(&machinev1.Machine{}).
		Watches(&machinev1.MachineClass{}, handler.EnqueueRequestsFromMapFunc(c.machinesOfClass)).
		WatchesMetadata(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(c.machinesOfSecret),
			builder.WithPredicates(watch.Versions())).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: workers, SkipNameValidation: new(true),
			RateLimiter: retries(),
		})
	if c.Target != nil && c.Target.Cache != nil {
		b = b.WatchesRawSource(source.Kind(c.Target.Cache, &corev1.Node{},
			handler.TypedEnqueueRequestsFromMapFunc(c.machinesOfNode), nodeChanged())).
			WatchesRawSource(source.Kind(c.Target.Cache, &corev1.Pod{},
				c.drainer.PodHandler(c.drainingOn))).
			WatchesRawSource(source.Kind(c.Target.Cache, &storagev1.VolumeAttachment{},
				c.drainer.AttachmentHandler(c.drainingOn)))
	}
	return b.Complete(fresh.Recheck(c))
}

// retries backs off passes that fail, but not for long: after an outage of hours a
// machine must not wait for a quarter of an hour.
func retries() workqueue.TypedRateLimiter[reconcile.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](5*time.Millisecond, longRetry)
}

// machinesOfClass are the Machines of a class that still need something of it: all of them,
// where their VMs follow its tags or load balancers.
func (c *Controller) machinesOfClass(ctx context.Context, o client.Object) []reconcile.Request {
	var list machinev1.MachineList
	watch.List(ctx, c.Client, &list, client.InNamespace(o.GetNamespace()),
		client.MatchingFields{index.MachineByClass: o.GetName()})
	follow := vm.FollowsTags(o) || c.balances(ctx, o)
	var found []reconcile.Request
	for i := range list.Items {
		m := &list.Items[i]
		if !m.DeletionTimestamp.IsZero() || wantsVM(m) || follow || m.Annotations[machinev1.LoadBalancersAnnotation] != "" {
			found = append(found, requestFor(m))
		}
	}
	return found
}

// balances reports whether a class names load balancers.
func (c *Controller) balances(ctx context.Context, o client.Object) bool {
	object, ok := o.(*machinev1.MachineClass)
	if !ok {
		return false
	}
	resolved, err := c.classes.ResolveObject(ctx, c.Client, object)
	return err == nil && vm.Balances(resolved)
}

// machinesOfSecret are the Machines whose class names the Secret.
func (c *Controller) machinesOfSecret(ctx context.Context, o client.Object) []reconcile.Request {
	var classes machinev1.MachineClassList
	watch.List(ctx, c.Client, &classes,
		client.MatchingFields{index.ClassBySecret: client.ObjectKeyFromObject(o).String()})
	var found []reconcile.Request
	for i := range classes.Items {
		found = append(found, c.machinesOfClass(ctx, &classes.Items[i])...)
	}
	return found
}

func (c *Controller) machinesOfNode(ctx context.Context, n *corev1.Node) []reconcile.Request {
	return c.machinesOn(ctx, n.Name, func(*machinev1.Machine) bool { return true })
}

// drainingOn are the Machines that drain the node of that name.
func (c *Controller) drainingOn(ctx context.Context, nodeName string) []reconcile.Request {
	return c.machinesOn(ctx, nodeName, draining)
}

// draining reports whether m may be waiting for pods or volumes of its node.
func draining(m *machinev1.Machine) bool {
	return !m.DeletionTimestamp.IsZero() || m.Status.CurrentStatus.PreserveExpiryTime != nil ||
		m.Status.LastOperation.Type == machinev1.MachineOperationDrainNode
}

// machinesOn are the Machines of a node that want is true for.
func (c *Controller) machinesOn(ctx context.Context, nodeName string,
	want func(*machinev1.Machine) bool,
) []reconcile.Request {
	if nodeName == "" {
		return nil
	}
	var list machinev1.MachineList
	watch.List(ctx, c.Client, &list, client.MatchingFields{index.MachineByNode: nodeName})
	var found []reconcile.Request
	for i := range list.Items {
		if want(&list.Items[i]) {
			found = append(found, requestFor(&list.Items[i]))
		}
	}
	return found
}

func requestFor(m *machinev1.Machine) reconcile.Request {
	return reconcile.Request{NamespacedName: client.ObjectKeyFromObject(m)}
}

// nodeChanged passes what a Machine's health or departure depends on; a
// kubelet's heartbeat does not.
func nodeChanged() predicate.TypedPredicate[*corev1.Node] {
	return predicate.TypedFuncs[*corev1.Node]{UpdateFunc: func(e event.TypedUpdateEvent[*corev1.Node]) bool {
		was, is := e.ObjectOld, e.ObjectNew
		return conditionsChanged(was.Status.Conditions, is.Status.Conditions) ||
			!maps.Equal(was.Labels, is.Labels) || !maps.Equal(was.Annotations, is.Annotations) ||
			!equality.Semantic.DeepEqual(was.Spec, is.Spec) ||
			!was.DeletionTimestamp.Equal(is.DeletionTimestamp) || !slices.Equal(was.Finalizers, is.Finalizers) ||
			drain.VolumesChanged(was, is)
	}}
}
