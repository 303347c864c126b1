package drain

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Requests returns the requests of the machines of a node.
type Requests func(ctx context.Context, node string) []reconcile.Request

// PodHandler enqueues the machines of a node that is being drained when the end of a
// pod allows the next step, or a pod is added. Of many pods that were evicted
// together, only the last one does: a drain of n pods needs a few passes, not n.
func (d *Drainer) PodHandler(requests Requests) handler.TypedEventHandler[*corev1.Pod, reconcile.Request] {
	return handler.TypedFuncs[*corev1.Pod, reconcile.Request]{
		CreateFunc: func(ctx context.Context, e event.TypedCreateEvent[*corev1.Pod], q queue) {
			enqueue(ctx, q, requests, d.tracker.podAdded(e.Object))
		},
		UpdateFunc: func(ctx context.Context, e event.TypedUpdateEvent[*corev1.Pod], q queue) {
			if e.ObjectOld.Spec.NodeName != e.ObjectNew.Spec.NodeName {
				enqueue(ctx, q, requests, d.tracker.podAdded(e.ObjectNew))
			}
		},
		DeleteFunc: func(ctx context.Context, e event.TypedDeleteEvent[*corev1.Pod], q queue) {
			enqueue(ctx, q, requests, d.tracker.podGone(e.Object))
		},
	}
}

// AttachmentHandler enqueues the machines of the nodes whose drain waits for the volume
// of an attachment.
func (d *Drainer) AttachmentHandler(requests Requests) handler.TypedEventHandler[*storagev1.VolumeAttachment,
	reconcile.Request] {
	moved := func(ctx context.Context, va *storagev1.VolumeAttachment, q queue) {
		enqueue(ctx, q, requests, d.tracker.waitingFor(volumeOf(va))...)
	}
	return handler.TypedFuncs[*storagev1.VolumeAttachment, reconcile.Request]{
		CreateFunc: func(ctx context.Context, e event.TypedCreateEvent[*storagev1.VolumeAttachment], q queue) {
			moved(ctx, e.Object, q)
		},
		UpdateFunc: func(ctx context.Context, e event.TypedUpdateEvent[*storagev1.VolumeAttachment], q queue) {
			if e.ObjectOld.Status.Attached != e.ObjectNew.Status.Attached {
				moved(ctx, e.ObjectNew, q)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.TypedDeleteEvent[*storagev1.VolumeAttachment], q queue) {
			moved(ctx, e.Object, q)
		},
	}
}

// VolumesChanged reports whether a node has other volumes than before, for the
// predicate of whoever watches nodes.
func VolumesChanged(before, after *corev1.Node) bool {
	return !equality.Semantic.DeepEqual(before.Status.VolumesAttached, after.Status.VolumesAttached)
}

// queue is what handlers add to.
type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

func enqueue(ctx context.Context, q queue, requests Requests, nodes ...string) {
	for _, node := range nodes {
		if node == "" {
			continue
		}
		for _, r := range requests(ctx, node) {
			q.Add(r)
		}
	}
}

// podAdded returns the node of a pod if that node is being drained, else an empty
// string.
func (t *tracker) podAdded(pod *corev1.Pod) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	state := t.states[pod.Spec.NodeName]
	if state == nil || (state.awaited.pods == nil && !state.running) || !IsDrained(pod) {
		return ""
	}
	return pod.Spec.NodeName
}

// podGone returns the node of a pod if the drain of that node can take its next step,
// else an empty string.
func (t *tracker) podGone(pod *corev1.Pod) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	state := t.states[pod.Spec.NodeName]
	if state == nil {
		return ""
	}
	alone, known := state.awaited.pods[pod.UID]
	delete(state.awaited.pods, pod.UID)
	if state.running || (known && (alone || len(state.awaited.pods) == 0)) {
		return pod.Spec.NodeName
	}
	return ""
}

// waitingFor returns the nodes whose drain waits for a PersistentVolume, sorted.
func (t *tracker) waitingFor(pv string) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var nodes []string
	for node, state := range t.states {
		if pv != "" && state.awaited.volumes[pv] {
			nodes = append(nodes, node)
		}
	}
	slices.Sort(nodes)
	return nodes
}
