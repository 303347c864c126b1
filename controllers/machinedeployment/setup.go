package machinedeployment

import (
	"context"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
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
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/rollout"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/watch"
)

// Reconciles that sets and machines ask for are batched: a hundred machines that
// start together are a few steps of a rollout then, not a hundred, each with its
// writes. A set that has all that it asks for ends the batch.
const (
	batchDelay    = 100 * time.Millisecond
	batchInterval = time.Second
	batchLongest  = 4 * time.Second
)

// SetupWithManager registers the controller. Nodes are watched for the marks of a
// rollout alone: what else it needs to know of them, their machines say.
func (c *Controller) SetupWithManager(mgr ctrl.Manager, workers int) error {
	c.batch = &watch.Batch{
		Clock: c.Clock, Delay: batchDelay, Interval: batchInterval, Longest: batchLongest, Counts: becameWhole,
	}
	b := ctrl.NewControllerManagedBy(mgr).
		Named("machinedeployment").
		For(&machinev1.MachineDeployment{}, builder.WithPredicates(
			predicate.Or(predicate.Funcs{UpdateFunc: deploymentChanged}, c.own.Foreign()))).
		Watches(&machinev1.MachineSet{}, c.batch.Enqueue(requestsOf(c.deploymentsOfSet))).
		Watches(&machinev1.MachineClass{}, c.batch.Enqueue(requestsOf(c.deploymentsOfClass)),
			builder.WithPredicates(predicate.Funcs{UpdateFunc: classChanged})).
		Watches(&machinev1.Machine{}, c.batch.Enqueue(requestsOf(c.deploymentsOfMachine)),
			builder.WithPredicates(predicate.Funcs{
				CreateFunc: func(event.CreateEvent) bool { return false }, // its set reports it
				UpdateFunc: machineChanged,
			})).
		WatchesRawSource(c.Fallback.Source(requestsOf(c.deploymentsOfClass))).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers, SkipNameValidation: new(true)})
	if c.Target != nil && c.Target.Cache != nil {
		b = b.WatchesRawSource(source.Kind[client.Object](c.Target.Cache, &corev1.Node{},
			c.batch.Enqueue(requestsOf(c.deploymentsOfNode)), predicate.Funcs{
				CreateFunc: func(e event.CreateEvent) bool { return initialized(e.Object) },
				UpdateFunc: marksChanged,
				DeleteFunc: func(event.DeleteEvent) bool { return false }, // its machine reports it
			}))
	}
	return b.Complete(fresh.Recheck(c))
}

// becameWhole reports whether a set says that it has all machines that it asks for, available, and no others.
func becameWhole(before, after client.Object) bool {
	was, isSet := before.(*machinev1.MachineSet)
	is, stays := after.(*machinev1.MachineSet)
	return isSet && stays && isWhole(is) && !isWhole(was)
}

func isWhole(set *machinev1.MachineSet) bool {
	return set.Status.ObservedGeneration == set.Generation && set.Status.Replicas == set.Spec.Replicas &&
		set.Status.AvailableReplicas == set.Spec.Replicas
}

// deploymentChanged leaves out changes of the status alone.
func deploymentChanged(e event.UpdateEvent) bool {
	before, after := e.ObjectOld, e.ObjectNew
	return before.GetGeneration() != after.GetGeneration() ||
		!maps.Equal(before.GetLabels(), after.GetLabels()) ||
		!maps.Equal(before.GetAnnotations(), after.GetAnnotations()) ||
		!slices.Equal(before.GetFinalizers(), after.GetFinalizers()) ||
		before.GetDeletionTimestamp().IsZero() != after.GetDeletionTimestamp().IsZero()
}

// machineChanged lets through updates that change the input of a rollout.
func machineChanged(e event.UpdateEvent) bool {
	before, after := e.ObjectOld.(*machinev1.Machine), e.ObjectNew.(*machinev1.Machine)
	return machineStateOf(before) != machineStateOf(after) ||
		!maps.Equal(before.Labels, after.Labels) ||
		!apiequality.Semantic.DeepEqual(before.OwnerReferences, after.OwnerReferences)
}

// machineState is the input of a rollout from a machine, besides its labels and
// owner references.
type machineState struct {
	phase                       machinev1.MachinePhase
	deleting, marked, preserved bool
	held, exhausted             bool
	since, update, form         string
}

func machineStateOf(m *machinev1.Machine) machineState {
	n := machineState{
		phase:     m.Status.CurrentStatus.Phase,
		deleting:  !m.DeletionTimestamp.IsZero(),
		marked:    rollout.MarkedForDeletion(m),
		preserved: !m.Status.CurrentStatus.PreserveExpiryTime.IsZero(),
		held:      machinev1.Held(m),
		exhausted: rollout.IsExhausted(m),
		since:     m.Annotations[machinev1.MarkedForDeletionAnnotation],
		update:    updateReason(m),
		form:      m.Annotations[machinev1.ProviderIDFormAnnotation],
	}
	if n.phase == machinev1.MachinePending {
		n.phase = "" // a VM that boots serves as little as a missing one
	}
	return n
}

func updateReason(m *machinev1.Machine) string {
	for _, c := range m.Status.Conditions {
		if c.Type == machinev1.NodeInPlaceUpdate {
			return c.Reason
		}
	}
	return ""
}

// marksChanged lets through updates that change a mark of a rollout: a restore of the
// cluster, or somebody else, may undo what was written long ago.
func marksChanged(e event.UpdateEvent) bool {
	before, after := e.ObjectOld.(*corev1.Node), e.ObjectNew.(*corev1.Node)
	return marksOf(before) != marksOf(after)
}

// marks are the marks of a rollout that a Node has.
type marks struct{ preferNoSchedule, disabled, byUs, candidate, selected bool }

func marksOf(node *corev1.Node) (m marks) {
	m.preferNoSchedule = slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool {
		return t.Key == machinev1.PreferNoScheduleKey
	})
	_, m.disabled = node.Annotations[machinev1.ScaleDownDisabledAnnotation]
	_, m.byUs = node.Annotations[machinev1.ScaleDownDisabledByMCMAnnotation]
	_, m.candidate = node.Labels[machinev1.CandidateForUpdateLabel]
	m.selected = selectedForUpdate(node)
	return m
}

// deploymentsOfSet returns the controller of a set; for an orphan, the
// deployments that would adopt it.
func (c *Controller) deploymentsOfSet(ctx context.Context, o client.Object) []types.NamespacedName {
	if ref := metav1.GetControllerOf(o); ref != nil {
		if ref.Kind != machinev1.MachineDeploymentKind {
			return nil
		}
		return []types.NamespacedName{{Namespace: o.GetNamespace(), Name: ref.Name}}
	}
	list := &machinev1.MachineDeploymentList{}
	if err := c.Client.List(ctx, list, client.InNamespace(o.GetNamespace()), client.UnsafeDisableDeepCopy); err != nil {
		return nil // only if the cache is not there yet, which lists everything when it is
	}
	var keys []types.NamespacedName
	for i := range list.Items {
		selector, err := metav1.LabelSelectorAsSelector(list.Items[i].Spec.Selector)
		if err == nil && !selector.Empty() && selector.Matches(labels.Set(o.GetLabels())) {
			keys = append(keys, client.ObjectKeyFromObject(&list.Items[i]))
		}
	}
	return keys
}

// deploymentsOfMachine returns the deployment of a machine's set.
func (c *Controller) deploymentsOfMachine(ctx context.Context, o client.Object) []types.NamespacedName {
	ref := metav1.GetControllerOf(o)
	if ref == nil || ref.Kind != machinev1.MachineSetKind {
		return nil
	}
	set := &machinev1.MachineSet{}
	if err := c.cache.Get(ctx, types.NamespacedName{Namespace: o.GetNamespace(), Name: ref.Name}, set,
		client.UnsafeDisableDeepCopy); err != nil {
		return nil // the set is gone, and its own event has come
	}
	if metav1.GetControllerOf(set) == nil {
		return nil
	}
	return c.deploymentsOfSet(ctx, set)
}

// deploymentsOfNode returns the deployments of the machines on a node.
func (c *Controller) deploymentsOfNode(ctx context.Context, o client.Object) []types.NamespacedName {
	var list machinev1.MachineList
	watch.List(ctx, c.Client, &list, client.MatchingFields{index.MachineByNode: o.GetName()})
	var keys []types.NamespacedName
	for i := range list.Items {
		keys = append(keys, c.deploymentsOfMachine(ctx, &list.Items[i])...)
	}
	return keys
}

// requestsOf turns a lookup of keys into one of requests.
func requestsOf(keys func(context.Context, client.Object) []types.NamespacedName) handler.MapFunc {
	return func(ctx context.Context, o client.Object) []reconcile.Request {
		var requests []reconcile.Request
		for _, key := range keys(ctx, o) {
			requests = append(requests, reconcile.Request{NamespacedName: key})
		}
		return requests
	}
}
