package autoscaler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// Scheduler plays kube-scheduler for pods that each need a node of their own.
type Scheduler struct {
	Clients   kubernetes.Interface // of the workload cluster
	Namespace string
	CPU       string // of one pod; more than half of a node
}

// Want makes n pods, or removes those beyond n. They belong to a controller, so
// that the autoscaler may move them.
func (s *Scheduler) Want(ctx context.Context, n int) error {
	const most = 20
	for i := range most {
		name := fmt.Sprintf("load-%d", i)
		if i >= n {
			now := int64(0)
			err := s.Clients.CoreV1().Pods(s.Namespace).Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &now})
			if err != nil && !apierrors.IsNotFound(err) {
				return err
			}
			continue
		}
		_, err := s.Clients.CoreV1().Pods(s.Namespace).Create(ctx, s.pod(name), metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	return nil
}

func (s *Scheduler) pod(name string) *corev1.Pod {
	yes := true
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "load", UID: "00000000-0000-4000-8000-000000000001", Controller: &yes,
		}}},
		Spec: corev1.PodSpec{
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers: []corev1.Container{{Name: "c", Image: "none", Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(s.CPU)},
			}}},
		},
	}
}

// Step binds every pod without a node to a ready node without a pod, and says of
// the others that they cannot be scheduled. It returns how many are bound.
func (s *Scheduler) Step(ctx context.Context) (int, error) {
	pods, err := s.Clients.CoreV1().Pods(s.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, err
	}
	nodes, err := s.Clients.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, err
	}
	taken := map[string]bool{}
	for i := range pods.Items {
		taken[pods.Items[i].Spec.NodeName] = true
	}
	bound := 0
	for i := range pods.Items {
		p := &pods.Items[i]
		if p.Spec.NodeName != "" {
			bound++
			continue
		}
		if node := free(nodes.Items, taken); node != "" {
			taken[node] = true
			err = errors.Join(err, s.bind(ctx, p, node))
		} else {
			err = errors.Join(err, s.refuse(ctx, p))
		}
	}
	return bound, err
}

// free is the name of a node that takes a pod.
func free(nodes []corev1.Node, taken map[string]bool) string {
	for i := range nodes {
		n := &nodes[i]
		if taken[n.Name] || n.Spec.Unschedulable || !n.DeletionTimestamp.IsZero() {
			continue
		}
		for _, c := range n.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
				return n.Name
			}
		}
	}
	return ""
}

func (s *Scheduler) bind(ctx context.Context, p *corev1.Pod, node string) error {
	return s.Clients.CoreV1().Pods(s.Namespace).Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: p.Name, UID: p.UID}, Target: corev1.ObjectReference{Kind: "Node", Name: node},
	}, metav1.CreateOptions{})
}

// refuse says what kube-scheduler says of a pod that fits nowhere.
func (s *Scheduler) refuse(ctx context.Context, p *corev1.Pod) error {
	if len(p.Status.Conditions) > 0 {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
		Message: "no node has room", LastTransitionTime: metav1.Now(),
	}}}})
	if err != nil {
		return err
	}
	_, err = s.Clients.CoreV1().Pods(s.Namespace).Patch(ctx, p.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}
