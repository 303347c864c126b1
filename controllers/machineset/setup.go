package machineset

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
)

// batchPeriod is how long events of Machines are collected before one reconcile: a
// hundred machines that become Running cost a few status writes, not a hundred,
// and equally fewer reconciles of the MachineDeployment.
const batchPeriod = 200 * time.Millisecond

// SetupWithManager registers the controller with that many workers.
func (c *Controller) SetupWithManager(mgr ctrl.Manager, workers int) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("machineset").
		For(&machinev1.MachineSet{}).
		Watches(&machinev1.Machine{}, enqueueBatched(c.setsOfMachine), builder.WithPredicates(machineChanged())).
		Watches(&machinev1.MachineDeployment{}, handler.EnqueueRequestsFromMapFunc(c.setsOfDeployment),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers, SkipNameValidation: new(true)}).
		Complete(c)
}

// setsOfMachine returns the set that controls a Machine, or those that may adopt it.
func (c *Controller) setsOfMachine(ctx context.Context, o client.Object) []reconcile.Request {
	if ref := metav1.GetControllerOf(o); ref != nil {
		if ref.Kind != machinev1.MachineSetKind {
			return nil
		}
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: o.GetNamespace(), Name: ref.Name}}}
	}
	if len(o.GetLabels()) == 0 || !o.GetDeletionTimestamp().IsZero() {
		return nil
	}
	return c.setsMatching(ctx, o.GetNamespace(), func(set *machinev1.MachineSet) bool {
		selector, _ := validateSelector(set)
		return selector != nil && selector.Matches(labels.Set(o.GetLabels()))
	})
}

// setsOfDeployment returns the sets whose limits follow from a MachineDeployment.
func (c *Controller) setsOfDeployment(ctx context.Context, o client.Object) []reconcile.Request {
	return c.setsMatching(ctx, o.GetNamespace(), func(*machinev1.MachineSet) bool { return true },
		client.MatchingFields{index.SetByOwner: string(o.GetUID())})
}

func (c *Controller) setsMatching(ctx context.Context, namespace string, match func(*machinev1.MachineSet) bool,
	opts ...client.ListOption,
) []reconcile.Request {
	list := &machinev1.MachineSetList{}
	if err := c.Client.List(ctx, list, append(opts, client.InNamespace(namespace))...); err != nil {
		log.FromContext(ctx).Error(err, "MachineSets cannot be listed")
		return nil
	}
	var requests []reconcile.Request
	for i := range list.Items {
		if match(&list.Items[i]) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return requests
}

// enqueueBatched enqueues what objects map to, with a delay within which further
// events come to nothing more.
func enqueueBatched(of handler.MapFunc) handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	enqueue := func(ctx context.Context, q queue, objects ...client.Object) {
		for _, o := range objects {
			for _, request := range of(ctx, o) {
				q.AddAfter(request, batchPeriod)
			}
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) { enqueue(ctx, q, e.Object) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) { enqueue(ctx, q, e.ObjectOld, e.ObjectNew) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { enqueue(ctx, q, e.Object) },
	}
}

// machineChanged lets through what a set looks at. Conditions and progress of a
// Machine change often, and nothing follows from them; that an outage keeps it is
// passed on.
func machineChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, isMachine := e.ObjectOld.(*machinev1.Machine)
		after, stillMachine := e.ObjectNew.(*machinev1.Machine)
		return isMachine && stillMachine && !equality.Semantic.DeepEqual(watchedFields(before), watchedFields(after))
	}}
}

// watchedFields is what a set looks at in a Machine.
func watchedFields(m *machinev1.Machine) any {
	view := struct {
		Labels, Annotations map[string]string
		Owners              []metav1.OwnerReference
		Generation          int64
		Deleted             bool
		Phase               machinev1.MachinePhase
		Preserved           *metav1.Time
		Failed              machinev1.LastOperation
		Kept                bool
	}{
		Labels: m.Labels, Annotations: m.Annotations, Owners: m.OwnerReferences, Generation: m.Generation,
		Deleted: !m.DeletionTimestamp.IsZero(),
		Phase:   m.Status.CurrentStatus.Phase, Preserved: m.Status.CurrentStatus.PreserveExpiryTime,
		Kept: outageProtected(m),
	}
	if m.Status.LastOperation.State == machinev1.MachineStateFailed {
		view.Failed = m.Status.LastOperation
	}
	return view
}
