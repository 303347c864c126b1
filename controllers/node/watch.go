package node

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
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
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/fresh"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/nodetemplate"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/watch"
)

// SetupWithManager starts the Controller with the manager. Without target
// cluster there is nothing to start.
func (c *Controller) SetupWithManager(mgr ctrl.Manager, workers int) error {
	if c.Target == nil {
		return nil
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("node").
		WithOptions(controller.Options{MaxConcurrentReconciles: workers, SkipNameValidation: new(true)}).
		WatchesRawSource(source.Kind(c.Target.Cache, &corev1.Node{},
			c.nodeHandler(), nodeChanges())).
		Watches(&machinev1.Machine{}, machineHandler()).
		Watches(&machinev1.MachineClass{}, handler.EnqueueRequestsFromMapFunc(c.nodesOfClass),
			builder.WithPredicates(classChanges())).
		Complete(fresh.Recheck(c))
}

// nodeHandler enqueues a Node, and remembers its deletion if the watch has shown it. A
// deletion that only the next list shows may be a loss: it has no event.
func (c *Controller) nodeHandler() handler.TypedEventHandler[*corev1.Node, reconcile.Request] {
	enqueued := &handler.TypedEnqueueRequestForObject[*corev1.Node]{}
	return handler.TypedFuncs[*corev1.Node, reconcile.Request]{
		CreateFunc: enqueued.Create, UpdateFunc: enqueued.Update, GenericFunc: enqueued.Generic,
		DeleteFunc: func(ctx context.Context, e event.TypedDeleteEvent[*corev1.Node], q queue) {
			if !e.DeleteStateUnknown {
				c.rememberDeletion(e.Object)
			}
			enqueued.Delete(ctx, e, q)
		},
	}
}

// nodeChanges leaves out the status that a kubelet reports every few seconds.
func nodeChanges() predicate.TypedPredicate[*corev1.Node] {
	return predicate.TypedFuncs[*corev1.Node]{
		UpdateFunc: func(e event.TypedUpdateEvent[*corev1.Node]) bool {
			a, b := e.ObjectOld, e.ObjectNew
			return a.UID != b.UID ||
				a.DeletionTimestamp.IsZero() != b.DeletionTimestamp.IsZero() ||
				!equality.Semantic.DeepEqual(a.Labels, b.Labels) ||
				!equality.Semantic.DeepEqual(a.Annotations, b.Annotations) ||
				!equality.Semantic.DeepEqual(a.Finalizers, b.Finalizers) ||
				!equality.Semantic.DeepEqual(a.Spec.Taints, b.Spec.Taints) ||
				!equality.Semantic.DeepEqual(a.Status.Capacity, b.Status.Capacity)
		},
	}
}

// machineHandler enqueues the node of a Machine when something changes that the node
// depends on, and the former node of a Machine that names another one.
func machineHandler() handler.EventHandler {
	return handler.Funcs{
		CreateFunc:  func(_ context.Context, e event.CreateEvent, q queue) { enqueue(q, nodeOf(e.Object)) },
		DeleteFunc:  func(_ context.Context, e event.DeleteEvent, q queue) { enqueue(q, nodeOf(e.Object)) },
		GenericFunc: func(_ context.Context, e event.GenericEvent, q queue) { enqueue(q, nodeOf(e.Object)) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
			a, ok := e.ObjectOld.(*machinev1.Machine)
			b, also := e.ObjectNew.(*machinev1.Machine)
			if !ok || !also {
				return
			}
			if nodeOf(a) != nodeOf(b) {
				enqueue(q, nodeOf(a))
			} else if !affectsNode(a, b) {
				return
			}
			enqueue(q, nodeOf(b))
		},
	}
}

// affectsNode reports whether a Machine changed in what its node depends on.
func affectsNode(a, b *machinev1.Machine) bool {
	return a.UID != b.UID ||
		a.DeletionTimestamp.IsZero() != b.DeletionTimestamp.IsZero() ||
		machinev1.Held(a) != machinev1.Held(b) ||
		a.Spec.Class != b.Spec.Class ||
		!nodetemplate.Same(&a.Spec.NodeTemplateSpec, &b.Spec.NodeTemplateSpec)
}

// classChanges leaves out all but the virtual capacity.
func classChanges() predicate.Predicate {
	return predicate.Funcs{
		DeleteFunc: func(event.DeleteEvent) bool { return false }, // the capacity stays
		UpdateFunc: func(e event.UpdateEvent) bool {
			a, ok := e.ObjectOld.(*machinev1.MachineClass)
			b, also := e.ObjectNew.(*machinev1.MachineClass)
			return ok && also && !equality.Semantic.DeepEqual(virtualOf(a), virtualOf(b))
		},
	}
}

func virtualOf(class *machinev1.MachineClass) corev1.ResourceList {
	if class.NodeTemplate == nil {
		return nil
	}
	return class.NodeTemplate.VirtualCapacity
}

// nodesOfClass returns requests for the nodes of a class's Machines.
func (c *Controller) nodesOfClass(ctx context.Context, class client.Object) []reconcile.Request {
	var list machinev1.MachineList
	watch.List(ctx, c.Client, &list, client.InNamespace(class.GetNamespace()),
		client.MatchingFields{index.MachineByClass: class.GetName()})
	var requests []reconcile.Request
	for i := range list.Items {
		if node := nodeOf(&list.Items[i]); node != "" {
			requests = append(requests, request(node))
		}
	}
	return requests
}

// queue is what handlers add to.
type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

func enqueue(q queue, node string) {
	if node != "" {
		q.Add(request(node))
	}
}

func request(node string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Name: node}}
}

func nodeOf(m client.Object) string { return m.GetLabels()[machinev1.NodeLabel] }
