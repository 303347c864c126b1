package capi

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// pods puts one pod on each of the pool's Nodes, with a budget that allows none of
// them to be evicted.
func (h *movingPool) pods(t *testing.T) {
	t.Helper()
	vms, err := h.vms(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	labels := map[string]string{"app": h.Name}
	at := metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: h.Name}
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: at,
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}},
	}
	budget.Spec.MinAvailable = new(intstr.FromInt(len(vms)))
	if err := h.cl.Create(t.Context(), budget); err != nil {
		t.Fatal(err)
	}
	for name := range vms {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: at.Namespace, Name: name, Labels: labels}}
		pod.Spec = corev1.PodSpec{
			NodeName: name, AutomountServiceAccountToken: new(false), TerminationGracePeriodSeconds: ptr.To[int64](0),
			Containers:  []corev1.Container{{Name: "c", Image: "none"}},
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		}
		if err := h.cl.Create(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
	}
	h.until(t, "no pod of "+h.Name+" may be evicted", func(ctx context.Context) error {
		if err := h.cl.Get(ctx, client.ObjectKeyFromObject(budget), budget); err != nil {
			return err
		}
		if s := budget.Status; int(s.CurrentHealthy) != len(vms) || s.DisruptionsAllowed != 0 {
			return fmt.Errorf("%d of %d pods are healthy, %d may be evicted", s.CurrentHealthy, len(vms), s.DisruptionsAllowed)
		}
		return nil
	})
}

// release takes the pods' budget away: their nodes may be drained.
func (h *movingPool) release(t *testing.T) {
	t.Helper()
	at := metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: h.Name}
	if err := h.cl.Delete(t.Context(), &policyv1.PodDisruptionBudget{ObjectMeta: at}); err != nil {
		t.Fatal(err)
	}
}

// unload ends the pods, so that the next ones may have their names.
func (h *movingPool) unload(t *testing.T) {
	t.Helper()
	pods := []client.DeleteAllOfOption{
		client.InNamespace(metav1.NamespaceDefault),
		client.MatchingLabels{"app": h.Name},
		client.GracePeriodSeconds(0),
	}
	if err := h.cl.DeleteAllOf(t.Context(), &corev1.Pod{}, pods...); err != nil {
		t.Fatal(err)
	}
}
