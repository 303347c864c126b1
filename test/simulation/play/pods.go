package play

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const schedulerName = "scheduler"

// workload is what runs on the nodes: a number of pods that are recreated
// wherever there is a node for them.
type workload struct {
	wanted     int
	made       int
	placing    bool
	collecting bool
}

// place makes the pods that are missing, a little later.
func (w *World) place() {
	if w.pods.placing {
		return
	}
	w.pods.placing = true
	w.after(w.between(time.Second, 10*time.Second), w.placeNow)
}

func (w *World) placeNow() {
	w.pods.placing = false
	if w.isDown(w.Target) {
		w.place()
		return
	}
	running := 0
	for _, o := range w.Target.KindOf(&corev1.Pod{}).All() {
		if o.GetDeletionTimestamp().IsZero() {
			running++
		}
	}
	var open []string
	for _, o := range w.Target.KindOf(&corev1.Node{}).All() {
		if node := o.(*corev1.Node); !node.Spec.Unschedulable && node.DeletionTimestamp.IsZero() && isReady(node) {
			open = append(open, node.Name)
		}
	}
	if len(open) == 0 {
		return
	}
	for ; running < w.pods.wanted; running++ {
		w.pods.made++
		pod := w.newPod(fmt.Sprintf("pod-%d", w.pods.made), open[w.rng.IntN(len(open))])
		if _, err := w.Target.Create(schedulerName, pod); err != nil {
			w.trace("pod: %v", err)
		}
	}
}

// placeLate makes a pod on a node whose machine has just begun to go, as a
// scheduler does that has not heard of it.
func (w *World) placeLate(name string) {
	if w.pods.wanted == 0 || w.healing || !w.chance(0.5) {
		return
	}
	w.after(w.between(0, 100*time.Millisecond), func() {
		node, ok := w.Target.KindOf(&corev1.Node{}).Look(nodeKey(name)).(*corev1.Node)
		if !ok || node.Spec.Unschedulable || !isReady(node) || w.isDown(w.Target) {
			return
		}
		w.pods.made++
		if _, err := w.Target.Create(schedulerName, w.newPod(fmt.Sprintf("late-%d", w.pods.made), name)); err != nil {
			w.trace("pod: %v", err)
		}
	})
}

func isReady(n *corev1.Node) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

func (w *World) newPod(name, node string) *corev1.Pod {
	grace := int64(w.rng.IntN(60))
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, Labels: map[string]string{"app": "work"},
		},
		Spec: corev1.PodSpec{
			NodeName: node, TerminationGracePeriodSeconds: &grace,
			Containers: []corev1.Container{{Name: "work", Image: "work"}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{
			Type:   corev1.PodReady,
			Status: corev1.ConditionTrue,
		}}},
	}
}

// podChanged is what kubelets and those who own pods do about a change.
func (w *World) podChanged(pod *corev1.Pod, gone bool) {
	switch {
	case gone:
		w.place()
	case !pod.DeletionTimestamp.IsZero():
		w.after(max(pod.DeletionTimestamp.Sub(w.now), time.Second), func() { w.end(pod) })
		w.place()
	}
}

// end confirms that a pod has ended, if its kubelet can.
func (w *World) end(pod *corev1.Pod) {
	pods := w.Target.KindOf(pod)
	key := client.ObjectKeyFromObject(pod)
	now := pods.Look(key)
	if now == nil || now.GetUID() != pod.UID {
		return
	}
	if w.isDown(w.Target) || !w.heard(pod.Spec.NodeName) {
		w.after(30*time.Second, func() { w.end(pod) })
		return
	}
	none := int64(0)
	_ = w.Target.Delete(kubeletName, pods, key, &metav1.DeleteOptions{GracePeriodSeconds: &none})
}

// heard reports whether the kubelet of a node speaks.
func (w *World) heard(node string) bool {
	for _, k := range w.kubelets {
		if k.name == node && k.joined && k.running && !k.lost && !w.isCut(k.zone) {
			return true
		}
	}
	return false
}

// orphanPods removes the pods of a node that does not exist.
func (w *World) orphanPods(node string) {
	if w.isDown(w.Target) {
		w.after(rejoin, func() { w.orphanPods(node) })
		return
	}
	if w.Target.KindOf(&corev1.Node{}).Look(types.NamespacedName{Name: node}) != nil {
		return
	}
	pods := w.Target.KindOf(&corev1.Pod{})
	none := int64(0)
	for _, o := range pods.All() {
		if o.(*corev1.Pod).Spec.NodeName == node {
			_ = w.Target.Delete("pod collector", pods, client.ObjectKeyFromObject(o),
				&metav1.DeleteOptions{GracePeriodSeconds: &none})
		}
	}
}

// mayEvict is what disruption budgets say.
func (w *World) mayEvict(client.Object) error {
	if !w.weather.guarded.After(w.now) {
		return nil
	}
	refusal := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
	refusal.ErrStatus.Details = &metav1.StatusDetails{Causes: []metav1.StatusCause{{
		Type:    policyv1.DisruptionBudgetCause,
		Message: "guarded",
	}}}
	return refusal
}
