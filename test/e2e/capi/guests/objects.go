package guests

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeadm "sigs.k8s.io/cluster-api/bootstrap/kubeadm/pkg/types/upstreamv1beta4"
	cloudv1 "sigs.k8s.io/cluster-api/test/infrastructure/inmemory/pkg/cloud/api/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

const (
	kubeadmConfig     = "kubeadm-config"
	controlPlaneLabel = "node-role.kubernetes.io/control-plane"
)

// addons makes what kubeadm init leaves in a cluster beside the first machine.
func (c *Cluster) addons(ctx context.Context, config *kubeadm.ClusterConfiguration) error {
	text, err := yaml.Marshal(config)
	if err != nil {
		return err
	}
	at := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: name}
	}
	proxy := &appsv1.DaemonSet{ObjectMeta: at("kube-proxy")}
	proxy.Spec.Template.Spec.Containers = []corev1.Container{
		{Name: "kube-proxy", Image: "registry.k8s.io/kube-proxy:" + config.KubernetesVersion},
	}
	nodes := metav1.ObjectMeta{Name: "kubeadm:get-nodes"}
	return c.create(ctx,
		&corev1.ConfigMap{ObjectMeta: at(kubeadmConfig), Data: map[string]string{"ClusterConfiguration": string(text)}},
		proxy,
		&rbacv1.ClusterRole{ObjectMeta: nodes, Rules: []rbacv1.PolicyRule{
			{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"nodes"}},
		}},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: nodes, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: nodes.Name},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: nodeGroup}},
		},
	)
}

// register makes the Node that the kubelet registers, and does for it what the
// cloud controller manager does where the kubelet leaves that to one.
func (c *Cluster) register(ctx context.Context, m *machine, r run) error {
	options := r.registration()
	flags := kubeletFlags(options)
	m.node = options.Name
	if m.node == "" {
		m.node = m.Metadata.Hostname
	}
	m.controlPlane = r.controlPlane()
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: m.node, Labels: map[string]string{corev1.LabelHostname: m.node}},
		Spec:       corev1.NodeSpec{ProviderID: flags["provider-id"], Taints: options.Taints},
		Status:     corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{KubeletVersion: m.Version}},
	}
	maps.Copy(node.Labels, parseLabels(flags["node-labels"]))
	if m.controlPlane {
		node.Labels[controlPlaneLabel] = ""
		node.Labels[corev1.LabelNodeExcludeBalancers] = ""
		if options.Taints == nil { // an empty list asks for none
			node.Spec.Taints = []corev1.Taint{{Key: controlPlaneLabel, Effect: corev1.TaintEffectNoSchedule}}
		}
	}
	switch flags["cloud-provider"] {
	case "external":
		if m.NodeName != "" && m.node != m.NodeName {
			return fmt.Errorf("the cloud controller manager finds no VM of node %s: it is that of node %s", m.node, m.NodeName)
		}
		node.Spec.ProviderID = m.ProviderID
		maps.Copy(node.Labels, map[string]string{
			corev1.LabelTopologyRegion: m.Metadata.Region, corev1.LabelTopologyZone: m.Metadata.Zone,
		})
	case "":
	default:
		return fmt.Errorf("kubelet: no cloud provider %q", flags["cloud-provider"])
	}
	node.Status.Conditions = conditions(corev1.ConditionTrue, "KubeletReady")
	var there corev1.Node
	if err := c.client.Get(ctx, client.ObjectKeyFromObject(node), &there); err == nil {
		return fmt.Errorf("there is a Node %s already", m.node)
	}
	return c.create(ctx, node)
}

// conditions are a Node's.
func conditions(ready corev1.ConditionStatus, reason string) []corev1.NodeCondition {
	pressure := corev1.ConditionFalse
	if ready == corev1.ConditionUnknown {
		pressure = ready
	}
	now := metav1.Now()
	out := []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready, Reason: reason}}
	for _, kind := range []corev1.NodeConditionType{
		corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure,
	} {
		out = append(out, corev1.NodeCondition{Type: kind, Status: pressure, Reason: reason})
	}
	for i := range out {
		out[i].LastTransitionTime, out[i].LastHeartbeatTime = now, now
	}
	return out
}

// components starts the static pods of a control plane machine.
func (c *Cluster) components(ctx context.Context, m *machine) error {
	etcd := c.pod(m, "etcd")
	if err := c.addMember(ctx, etcd); err != nil {
		return err
	}
	if err := c.mux.AddEtcdMember(c.name, etcd.Name, c.shared.etcd.certificate, c.shared.etcd.key); err != nil {
		return err
	}
	api := c.pod(m, "kube-apiserver")
	if err := c.create(ctx, etcd, api, c.pod(m, "kube-controller-manager"), c.pod(m, "kube-scheduler")); err != nil {
		return err
	}
	return c.mux.AddAPIServer(c.name, api.Name, c.shared.cluster.certificate, c.shared.cluster.key)
}

// pod returns the mirror pod of a static pod.
func (c *Cluster) pod(m *machine, component string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: metav1.NamespaceSystem, Name: component + "-" + m.node,
			Labels:      map[string]string{"component": component, "tier": "control-plane"},
			Annotations: map[string]string{corev1.MirrorPodAnnotationKey: m.ID},
		},
		Spec: corev1.PodSpec{NodeName: m.node},
		Status: corev1.PodStatus{
			Phase:      corev1.PodRunning,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		},
	}
}

// etcdMembers are the pods of etcd's members.
func (c *Cluster) etcdMembers(ctx context.Context) ([]corev1.Pod, error) {
	pods, err := list[corev1.Pod](ctx, c.client, "PodList", client.InNamespace(metav1.NamespaceSystem),
		client.MatchingLabels{"component": "etcd"})
	var members []corev1.Pod
	for _, pod := range pods {
		if _, removed := pod.Annotations[cloudv1.EtcdMemberRemoved]; !removed {
			members = append(members, pod)
		}
	}
	return members, err
}

// addMember has a pod be a member of etcd; the first one leads.
func (c *Cluster) addMember(ctx context.Context, pod *corev1.Pod) error {
	members, err := c.etcdMembers(ctx)
	if err != nil {
		return err
	}
	id := func() string { return strconv.FormatUint(uint64(rand.Uint32()|1), 10) }
	pod.Annotations[cloudv1.EtcdMemberIDAnnotationName] = id()
	if len(members) > 0 {
		pod.Annotations[cloudv1.EtcdClusterIDAnnotationName] = members[0].Annotations[cloudv1.EtcdClusterIDAnnotationName]
		return nil
	}
	pod.Annotations[cloudv1.EtcdClusterIDAnnotationName] = id()
	pod.Annotations[cloudv1.EtcdLeaderFromAnnotationName] = time.Now().Format(time.RFC3339)
	return nil
}
