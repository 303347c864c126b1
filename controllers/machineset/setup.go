package machineset

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
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
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/fresh"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/rollout"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/watch"
)

// Reconciles that Machines ask for are batched: a hundred machines that become
// Running cost a few status writes, not a hundred, and equally fewer reconciles of
// the MachineDeployment. The last one that is known to come ends the batch.
const (
	batchDelay    = 200 * time.Millisecond
	batchInterval = time.Second
	batchLongest  = 4 * time.Second
)

// SetupWithManager registers the controller with that many workers.
func (c *Controller) SetupWithManager(mgr ctrl.Manager, workers int) error {
	c.batch = &watch.Batch{
		Clock: c.Clock, Delay: batchDelay, Interval: batchInterval, Longest: batchLongest, Counts: settled,
	}
	// A change of the status alone is most often this controller's own.
	notStatus := watch.ExceptStatus()
	return ctrl.NewControllerManagedBy(mgr).
		Named("machineset").
		For(&machinev1.MachineSet{}, builder.WithPredicates(notStatus)).
		Watches(&machinev1.MachineSet{}, c.batch.Enqueue(ofItself), builder.WithPredicates(predicate.Not(notStatus))).
		Watches(&machinev1.Machine{}, c.batch.Enqueue(c.setsOfMachine), builder.WithPredicates(machineChanged())).
		Watches(&machinev1.MachineDeployment{}, handler.EnqueueRequestsFromMapFunc(c.setsOfDeployment),
			builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, rolloutResumed()))).
		Watches(&machinev1.MachineDeployment{}, c.batch.Enqueue(c.setsOfDeployment),
			builder.WithPredicates(becameAvailable())).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers, SkipNameValidation: new(true)}).
		Complete(fresh.Recheck(c))
}

// settled reports whether a Machine has begun to serve, has failed, or is gone.
func settled(before, after client.Object) bool {
	was, isMachine := before.(*machinev1.Machine)
	is, stays := after.(*machinev1.Machine)
	return isMachine && (!stays || isSettled(is) && !isSettled(was))
}

func isSettled(m *machinev1.Machine) bool {
	phase := rollout.PhaseOf(m)
	return phase == machinev1.MachineRunning || phase == machinev1.MachineFailed
}

// rolloutResumed lets through that a paused rollout of a MachineDeployment goes on: failed machines
// of its new set are replaced again.
func rolloutResumed() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before := e.ObjectOld.GetAnnotations()[machinev1.RolloutPausedAnnotation]
		return before != "" && before != e.ObjectNew.GetAnnotations()[machinev1.RolloutPausedAnnotation]
	}}
}

// becameAvailable lets through that machines of a MachineDeployment have become available:
// sets may wait for that before they delete others.
func becameAvailable() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*machinev1.MachineDeployment)
		after, still := e.ObjectNew.(*machinev1.MachineDeployment)
		return ok && still && after.Status.AvailableReplicas > before.Status.AvailableReplicas
	}}
}

// ofItself returns the set of an event.
func ofItself(_ context.Context, set client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(set)}}
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
