package inplaceupdate

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// named is how many pods a message names.
const named = 3

// drain evicts the pods of the node that leave it when a Machine is deleted, by
// the same rules as core does it then (MachineDrainRules, the label
// cluster.x-k8s.io/drain, spec.deletion.nodeDrainTimeoutSeconds), and with the
// same permissions in the workload cluster. The answer is zero once they have gone,
// or are not to be waited for any longer.
func (e *Extension) drain(ctx context.Context, u *update, since time.Time) (answer, error) {
	if _, excluded := u.machine.Annotations[clusterv1.ExcludeNodeDrainingAnnotation]; excluded {
		return answer{}, nil
	}
	pods, err := e.leaving(ctx, u)
	if err != nil || len(pods) == 0 {
		return answer{}, err
	}
	if limit := u.machine.Spec.Deletion.NodeDrainTimeoutSeconds; limit != nil && *limit > 0 &&
		u.now.Sub(since) > time.Duration(*limit)*time.Second {
		return answer{}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, evictTimeout)
	defer cancel()
	return waiting(later, "Draining Node %s since %s: %s", u.node.Name, since.UTC().Format(time.RFC3339),
		evict(ctx, u.cluster, pods)), nil
}

// leaving are the pods that have to leave the node, with the rule for each, by
// namespace and name.
func (e *Extension) leaving(ctx context.Context, u *update) ([]drainedPod, error) {
	var pods corev1.PodList
	if err := u.cluster.List(ctx, &pods, client.MatchingFields{"spec.nodeName": u.node.Name}); err != nil {
		return nil, fmt.Errorf("list the pods of Node %s: %w", u.node.Name, err)
	}
	pods.Items = slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return stays(&p) })
	if len(pods.Items) == 0 {
		return nil, nil
	}
	rules, err := e.rules(ctx, u)
	if err != nil {
		return nil, err
	}
	var all []drainedPod
	for i := range pods.Items {
		d, err := rules.of(&pods.Items[i])
		if err != nil {
			return nil, err
		}
		if !d.free() {
			all = append(all, d)
		}
	}
	slices.SortFunc(all, func(a, b drainedPod) int { return strings.Compare(a.name(), b.name()) })
	return all, nil
}

// stays reports whether a pod would be back at once: one of a DaemonSet, and the
// mirror of one that the kubelet runs by itself.
func stays(pod *corev1.Pod) bool {
	if _, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		return true
	}
	owner := metav1.GetControllerOf(pod)
	return owner != nil && owner.Kind == "DaemonSet"
}

// drainedPod is a pod that has to leave, and how.
type drainedPod struct {
	pod      *corev1.Pod
	behavior clusterv1.MachineDrainRuleDrainBehavior // Drain or WaitCompleted
	order    int32
}

// free reports whether nothing waits for the pod.
func (d drainedPod) free() bool {
	completed := d.pod.Status.Phase == corev1.PodSucceeded || d.pod.Status.Phase == corev1.PodFailed
	return d.behavior == clusterv1.MachineDrainRuleDrainBehaviorSkip ||
		d.behavior == clusterv1.MachineDrainRuleDrainBehaviorWaitCompleted && completed
}

func (d drainedPod) name() string { return d.pod.Namespace + "/" + d.pod.Name }

// evict evicts the pods whose turn it is, which are those of the lowest order, and
// says what is waited for. The text changes only with that.
func evict(ctx context.Context, c client.Client, pods []drainedPod) string {
	turn := slices.MinFunc(pods, func(a, b drainedPod) int { return int(a.order) - int(b.order) }).order
	waits := map[string][]string{}
	for _, d := range pods {
		why := "whose turn comes later"
		switch {
		case d.order != turn:
		case d.behavior == clusterv1.MachineDrainRuleDrainBehaviorWaitCompleted:
			why = "which has to complete by itself"
		case d.pod.DeletionTimestamp != nil:
			why = "which is ending"
		default:
			why = evictPod(ctx, c, d.pod)
		}
		if why != "" {
			waits[why] = append(waits[why], d.name())
		}
	}
	var texts []string
	for _, why := range slices.Sorted(maps.Keys(waits)) {
		texts = append(texts, "waiting for "+brief(waits[why])+", "+why)
	}
	return strings.Join(texts, "; ")
}

// evictPod asks for the pod to go, and says why it is still there; empty if it is
// not. The UID keeps a namesake on another node from going.
func evictPod(ctx context.Context, c client.Client, pod *corev1.Pod) string {
	err := c.SubResource("eviction").Create(ctx, pod, &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))},
	})
	switch {
	case err == nil:
		return "which is ending"
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return ""
	case apierrors.IsTooManyRequests(err):
		return "whose eviction a PodDisruptionBudget refuses"
	case ctx.Err() != nil:
		return "whose turn comes later"
	}
	return "which cannot be evicted: " + err.Error()
}

// brief names some.
func brief(names []string) string {
	if more := len(names) - named; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:named], ", "), more)
	}
	return strings.Join(names, ", ")
}
