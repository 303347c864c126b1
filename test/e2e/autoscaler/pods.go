package autoscaler

import (
	"context"
	"encoding/json"
	"errors"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// Scheduler plays kube-scheduler for the pods of a ReplicaSet that each need a
// node of their own. The controller of ReplicaSets has to run.
type Scheduler struct {
	Clients   kubernetes.Interface // of the workload cluster
	Namespace string
	CPU       string // of one pod; more than half of a node
}

const load = "load"

// Want asks for n pods.
func (s *Scheduler) Want(ctx context.Context, n int) error {
	sets := s.Clients.AppsV1().ReplicaSets(s.Namespace)
	_, err := sets.Create(ctx, s.set(int32(n)), metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"replicas": n}})
	if err != nil {
		return err
	}
	_, err = sets.Patch(ctx, load, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

func (s *Scheduler) set(n int32) *appsv1.ReplicaSet {
	labels := map[string]string{"app": load}
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: load},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: &n, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				TerminationGracePeriodSeconds: new(int64(0)),
				Containers: []corev1.Container{{Name: "c", Image: "none", Resources: corev1.ResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(s.CPU)},
				}}},
			}},
		},
	}
}

// Step binds every pod without a node to a ready node without a pod, and says of
// the others that they cannot be scheduled. It returns the nodes of the pods that
// are bound, by the names of the pods, and how many pods wait.
func (s *Scheduler) Step(ctx context.Context) (bound map[string]string, waiting int, err error) {
	pods, err := s.Clients.CoreV1().Pods(s.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + load})
	if err != nil {
		return nil, 0, err
	}
	nodes, err := s.Clients.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, 0, err
	}
	bound, taken := map[string]string{}, map[string]bool{}
	for i := range pods.Items {
		taken[pods.Items[i].Spec.NodeName] = true
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		switch node := free(nodes.Items, taken); {
		case p.Spec.NodeName != "":
			bound[p.Name] = p.Spec.NodeName
		case node != "":
			taken[node] = true
			waiting++
			err = errors.Join(err, s.bind(ctx, p, node))
		default:
			waiting++
			err = errors.Join(err, s.refuse(ctx, p))
		}
	}
	return bound, waiting, err
}

// free is the name of a node that takes a pod.
func free(nodes []corev1.Node, taken map[string]bool) string {
	for i := range nodes {
		n := &nodes[i]
		if !taken[n.Name] && !n.Spec.Unschedulable && n.DeletionTimestamp.IsZero() && open(n) {
			return n.Name
		}
	}
	return ""
}

// open reports whether a node is ready, and has no taint that keeps pods away.
func open(n *corev1.Node) bool {
	for _, t := range n.Spec.Taints {
		if t.Effect != corev1.TaintEffectPreferNoSchedule {
			return false
		}
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
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
	_, err = s.Clients.CoreV1().Pods(s.Namespace).Patch(ctx, p.Name, types.StrategicMergePatchType, patch,
		metav1.PatchOptions{}, "status")
	return err
}
