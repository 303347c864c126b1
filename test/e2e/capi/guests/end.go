package guests

import (
	"context"
	"errors"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudv1 "sigs.k8s.io/cluster-api/test/infrastructure/inmemory/pkg/cloud/api/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// halt plays what others see of a machine that runs no longer: its etcd member and
// API server do not answer, and the node lifecycle controller knows nothing of its
// kubelet any more.
func (m *machine) halt(ctx context.Context) error {
	m.halted = true
	c := m.cluster
	var errs []error
	if m.controlPlane {
		errs = append(errs, c.mux.DeleteEtcdMember(c.name, "etcd-"+m.node), c.elect(ctx, "etcd-"+m.node),
			c.mux.DeleteAPIServer(c.name, "kube-apiserver-"+m.node))
	}
	var node corev1.Node
	if err := c.client.Get(ctx, client.ObjectKey{Name: m.node}, &node); err != nil {
		return errors.Join(append(errs, client.IgnoreNotFound(err))...)
	}
	before := node.DeepCopy()
	node.Status.Conditions = conditions(corev1.ConditionUnknown, "NodeStatusUnknown")
	return errors.Join(append(errs, c.client.Patch(ctx, &node, client.MergeFrom(before)))...)
}

// elect has another member lead, if there is one, when the leader has ended.
func (c *Cluster) elect(ctx context.Context, ended string) error {
	members, err := c.etcdMembers(ctx)
	if err != nil {
		return err
	}
	var heir *corev1.Pod
	leader, since := "", ""
	for i := range members {
		pod := &members[i]
		if from := pod.Annotations[cloudv1.EtcdLeaderFromAnnotationName]; from > since {
			leader, since = pod.Name, from
		}
		if c.mux.HasEtcdMember(c.name, pod.Name) {
			heir = pod
		}
	}
	if leader != ended || heir == nil {
		return nil
	}
	before := heir.DeepCopy()
	// The double compares whole seconds.
	heir.Annotations[cloudv1.EtcdLeaderFromAnnotationName] = time.Now().Add(time.Second).Format(time.RFC3339)
	return c.client.Patch(ctx, heir, client.MergeFrom(before))
}

// bury removes the pods of a machine that is gone, as the garbage collector does.
// A member of etcd stays one until KubeadmControlPlane removes it.
func (m *machine) bury(ctx context.Context) error {
	c := m.cluster
	var errs []error
	if !m.halted {
		errs = append(errs, m.halt(ctx))
	}
	pods, err := list[corev1.Pod](ctx, c.client, "PodList", client.InNamespace(metav1.NamespaceSystem))
	errs = append(errs, err)
	for i := range pods {
		pod := &pods[i]
		_, removed := pod.Annotations[cloudv1.EtcdMemberRemoved]
		if pod.Spec.NodeName != m.node || strings.HasPrefix(pod.Name, "etcd-") && !removed {
			continue
		}
		errs = append(errs, client.IgnoreNotFound(c.client.Delete(ctx, pod)))
	}
	return errors.Join(errs...)
}
