package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
)

// pods runs and ends the pods on the nodes of a fleet. One informer serves all
// nodes.
type pods struct {
	fleet    *fleet
	client   kubernetes.Interface
	grace    time.Duration // longest time that a pod takes to end
	informer cache.SharedIndexInformer
	queue    workqueue.TypedRateLimitingInterface[string] // keys of pods
}

// byNode is the index of pods by the name of their node.
const byNode = "node"

func newPods(f *fleet, client kubernetes.Interface, grace time.Duration) *pods {
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(slim),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.FieldSelector = "spec.nodeName!=" }))
	const first, longest = 50 * time.Millisecond, 5 * time.Second
	p := &pods{
		fleet: f, client: client, grace: grace, informer: factory.Core().V1().Pods().Informer(),
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](first,
			longest)),
	}
	_ = p.informer.AddIndexers(cache.Indexers{byNode: nodeOf}) // fails only once it runs
	_, _ = p.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: p.enqueue, UpdateFunc: func(_, pod any) { p.enqueue(pod) },
	})
	return p
}

// slim takes out of a pod what is not read here.
func slim(object any) (any, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return object, nil
	}
	pod.ManagedFields, pod.Annotations = nil, nil
	pod.Spec.Volumes, pod.Spec.Affinity, pod.Spec.Tolerations = nil, nil, nil
	return pod, nil
}

func nodeOf(object any) ([]string, error) {
	if pod, ok := object.(*corev1.Pod); ok {
		return []string{pod.Spec.NodeName}, nil
	}
	return nil, nil
}

func (p *pods) enqueue(object any) {
	if key, err := cache.MetaNamespaceKeyFunc(object); err == nil {
		p.queue.Add(key)
	}
}

// joined looks at the pods that were bound to a node before it joined.
func (p *pods) joined(node string) {
	bound, err := p.informer.GetIndexer().ByIndex(byNode, node)
	if err != nil {
		return
	}
	for _, pod := range bound {
		p.enqueue(pod)
	}
}

// run runs and ends pods until ctx ends.
func (p *pods) run(ctx context.Context, workers int) {
	var all sync.WaitGroup
	all.Go(func() { p.informer.RunWithContext(ctx) })
	for range workers {
		all.Go(func() { p.work(ctx) })
	}
	<-ctx.Done()
	p.queue.ShutDown()
	all.Wait()
}

func (p *pods) work(ctx context.Context) {
	for {
		key, shutdown := p.queue.Get()
		if shutdown {
			return
		}
		again, err := p.sync(ctx, key)
		switch {
		case err != nil:
			slog.Debug("Cannot look after a pod", "pod", key, "error", err)
			p.queue.AddRateLimited(key)
		case again > 0:
			p.queue.AddAfter(key, again)
			p.queue.Forget(key)
		default:
			p.queue.Forget(key)
		}
		p.queue.Done(key)
	}
}

// sync does for a pod what the kubelet of its node has to do.
func (p *pods) sync(ctx context.Context, key string) (time.Duration, error) {
	object, exists, err := p.informer.GetIndexer().GetByKey(key)
	pod, ok := object.(*corev1.Pod)
	if err != nil || !exists || !ok || !p.fleet.runsPods(pod.Spec.NodeName) {
		return 0, nil //nolint:nilerr // an index that has no such key has nothing to do
	}
	if pod.DeletionTimestamp != nil {
		return p.end(ctx, pod)
	}
	if done := pod.Status.Phase; done == corev1.PodSucceeded || done == corev1.PodFailed || ready(pod) {
		return 0, nil
	}
	return 0, p.start(ctx, pod)
}

// runsPods reports whether a kubelet that looks after pods runs on a node.
func (f *fleet) runsPods(node string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	k := f.nodes[node]
	return k != nil && k.running && yes(k.boot.merged(k.over).Pods)
}

// end confirms the end of a pod once its grace period, but no more than the
// longest that is allowed here, is over.
func (p *pods) end(ctx context.Context, pod *corev1.Pod) (time.Duration, error) {
	period := time.Duration(ptr.Deref(pod.DeletionGracePeriodSeconds, 0)) * time.Second
	asked := pod.DeletionTimestamp.Add(-period)
	if wait := time.Until(asked.Add(min(period, p.grace))); wait > 0 {
		return wait, nil
	}
	err := p.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: ptr.To[int64](0), Preconditions: &metav1.Preconditions{UID: new(pod.UID)},
	})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return 0, nil
	}
	return 0, err
}

func ready(pod *corev1.Pod) bool {
	if pod.Status.Phase != corev1.PodRunning {
		return false
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// start reports a pod as running and ready.
func (p *pods) start(ctx context.Context, pod *corev1.Pod) error {
	now := metav1.Now()
	status := corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &now}
	for _, kind := range []corev1.PodConditionType{
		corev1.PodScheduled, corev1.PodInitialized, corev1.ContainersReady,
		corev1.PodReady,
	} {
		status.Conditions = append(status.Conditions, corev1.PodCondition{
			Type: kind, Status: corev1.ConditionTrue,
			LastTransitionTime: now,
		})
	}
	for _, c := range pod.Spec.Containers {
		status.ContainerStatuses = append(status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, Ready: true, Started: new(true), ImageID: "sim://" + c.Image, ContainerID: "sim://" +
				string(pod.UID),
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
		})
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID}, "status": status})
	if err != nil {
		return fmt.Errorf("encode status: %w", err)
	}
	_, err = p.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch,
		metav1.PatchOptions{}, "status")
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // it went, or it is another one now
	}
	return err
}
