package drain

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
)

// observe reads the pods of the node. They are not copied from the cache, since a node
// may have hundreds of them; nothing may change them.
func (p *pass) observe(ctx context.Context) error {
	var pods corev1.PodList
	err := p.drainer.target.Client.List(ctx, &pods,
		client.MatchingFields{index.PodByNode: p.request.Node.Name}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return fmt.Errorf("listing the pods of node %s: %w", p.request.Node.Name, err)
	}
	p.claims = map[types.NamespacedName]int{}
	for i := range pods.Items {
		pod := &pods.Items[i]
		for _, claim := range mountsOf(pod) {
			p.claims[claim]++
		}
		if IsDrained(pod) {
			p.pods = append(p.pods, pod)
		}
	}
	slices.SortFunc(p.pods, func(a, b *corev1.Pod) int { return strings.Compare(name(a), name(b)) })
	return p.recoverVolumes(ctx)
}

// confirmed returns done, unless the API server has a pod that the cache does not
// show. Each pass that finds the node drained asks again: until the cloud takes the request
// to delete the VM, somebody may uncordon the node, or restore etcd to before the drain.
func (p *pass) confirmed(ctx context.Context, done Result) (Result, error) {
	var pods corev1.PodList
	if err := p.drainer.target.Live.List(ctx, &pods,
		client.MatchingFields{"spec.nodeName": p.request.Node.Name}); err != nil {
		return Result{}, fmt.Errorf("listing the pods of node %s: %w", p.request.Node.Name, err)
	}
	if slices.ContainsFunc(pods.Items, func(pod corev1.Pod) bool { return IsDrained(&pod) }) {
		return Result{Wait: busyWait, Reason: machinev1.ReasonDraining, Message: "waiting for pods to terminate"}, nil
	}
	return done, nil
}

// IsDrained reports whether a drain removes the pod: all but mirror pods and pods of a
// DaemonSet, which would come back at once.
func IsDrained(pod *corev1.Pod) bool {
	if _, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		return false
	}
	owner := metav1.GetControllerOf(pod)
	return owner == nil || owner.Kind != "DaemonSet"
}

// claimsOf returns the claims for which a pod is evicted one by one: those that it
// names. Ephemeral volumes are deleted with the pod and do not count.
func claimsOf(pod *corev1.Pod) []types.NamespacedName {
	var claims []types.NamespacedName
	for i := range pod.Spec.Volumes {
		if source := pod.Spec.Volumes[i].PersistentVolumeClaim; source != nil {
			claims = append(claims, types.NamespacedName{Namespace: pod.Namespace, Name: source.ClaimName})
		}
	}
	return claims
}

// mountsOf returns every claim that the pod uses, ephemeral ones included, each once.
func mountsOf(pod *corev1.Pod) []types.NamespacedName {
	claims := claimsOf(pod)
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; v.Ephemeral != nil {
			claims = append(claims, types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name + "-" + v.Name})
		}
	}
	slices.SortFunc(claims, func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(claims)
}

// byPriority orders pods by priority, the highest first, then by name. Pods without a
// priority have 0.
func byPriority(a, b *corev1.Pod) int {
	if x, y := priority(a), priority(b); x != y {
		if x > y {
			return -1
		}
		return 1
	}
	return strings.Compare(name(a), name(b))
}

func priority(pod *corev1.Pod) int32 {
	if pod.Spec.Priority == nil {
		return 0
	}
	return *pod.Spec.Priority
}

func grace(pod *corev1.Pod) time.Duration {
	if s := pod.Spec.TerminationGracePeriodSeconds; s != nil {
		return time.Duration(max(*s, 0)) * time.Second
	}
	return defaultGrace
}

func name(pod *corev1.Pod) string { return pod.Namespace + "/" + pod.Name }
