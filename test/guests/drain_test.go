package guests

import (
	"errors"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/test/stack"
)

// ending is how long the pod takes to end after SIGTERM, and grace what it has for that.
const ending, grace = 20 * time.Second, 5 * time.Minute

// runPod runs a pod on the machine's node that takes its time to end, and a budget that
// does not let it go.
func (r *rig) runPod(m *machinev1.Machine) *corev1.Pod {
	r.Helper()
	began := time.Now()
	labels := map[string]string{"app": "slow"}
	meta := metav1.ObjectMeta{Name: "slow", Namespace: stack.Namespace, Labels: labels}
	pod := &corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{
		NodeName:                      m.Name, // there is no scheduler
		TerminationGracePeriodSeconds: new(int64(grace / time.Second)),
		Containers: []corev1.Container{{
			Name: "slow", Image: "guests.local/pause:1", Args: []string{"-after=" + ending.String()},
			ImagePullPolicy: corev1.PullNever,
		}},
	}}
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: meta, Spec: policyv1.PodDisruptionBudgetSpec{
		MinAvailable: new(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: labels},
	}}
	r.must(errors.Join(r.Create(r.Context(), budget), r.Create(r.Context(), pod)))
	r.await("the pod runs", &corev1.PodList{}, func(e watch.Event) bool {
		p, ok := e.Object.(*corev1.Pod)
		return ok && p.Status.Phase == corev1.PodRunning && p.Status.PodIP != ""
	}, client.InNamespace(stack.Namespace))
	r.await("the budget counts it", &policyv1.PodDisruptionBudgetList{}, func(e watch.Event) bool {
		b, ok := e.Object.(*policyv1.PodDisruptionBudget)
		return ok && b.Status.CurrentHealthy == 1
	}, client.InNamespace(stack.Namespace))
	r.step(began, "pod runs, its budget forbids evictions")
	return pod
}

// drained follows a machine that goes. Its drain waits for the pod's budget, then for the
// pod, which its kubelet ends in its own time; only then the guest goes.
func (r *rig) drained(m *machinev1.Machine, pod *corev1.Pod) {
	r.Helper()
	began := time.Now()
	r.await("the drain has begun", &corev1.NodeList{}, named(m.Name, func(n *corev1.Node) bool {
		return n.Spec.Unschedulable
	}))
	r.awaitRefusal(m)
	r.step(began, "drain waits for the budget")
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace}}
	r.must(r.Delete(r.Context(), budget))

	var told time.Time
	r.await("the pod has ended", &corev1.PodList{}, func(e watch.Event) bool {
		p, ok := e.Object.(*corev1.Pod)
		if ok && told.IsZero() && p.DeletionTimestamp != nil {
			told = time.Now()
			r.step(began, "pod is evicted")
		}
		return e.Type == watch.Deleted
	}, client.InNamespace(pod.Namespace))
	if took := time.Since(told); told.IsZero() || took < ending || took > grace {
		r.Errorf("the pod has gone after %s; its program takes %s to end, and may take %s", took, ending, grace)
	}
	if server, err := r.server(r.Context(), m.Name); err != nil || server.Status != "ACTIVE" {
		r.Errorf("the guest does not outlive its pod: %+v, %v", server, err)
	}
	r.step(began, "kubelet has ended the pod, %.1f s after it was told", time.Since(told).Seconds())
	r.awaitGone(m.Name)
	r.step(began, "Machine has gone")
}

// awaitRefusal waits until the Machine shows that the budget forbids the eviction.
func (r *rig) awaitRefusal(m *machinev1.Machine) {
	r.Helper()
	var said string
	r.await("the eviction is refused", &machinev1.MachineList{}, func(e watch.Event) bool {
		found, ok := e.Object.(*machinev1.Machine)
		if !ok || found.Name != m.Name {
			return false
		}
		said = found.Status.LastOperation.Description
		return strings.Contains(said, "PodDisruptionBudget slow")
	}, inPool()...)
	r.Logf("the Machine meanwhile: %s", said)
}
