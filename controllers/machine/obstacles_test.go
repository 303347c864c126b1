package machine

import (
	"context"
	"errors"
	"regexp"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// What MCM's users read from a failed operation: failedMachines of sets and deployments
// list it, and Gardener derives its error codes from the description.
func TestDeletionObstaclesAreFailures(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason  string
		faults  interceptor.Funcs
		prepare func(*env)
		want    machinev1.MachineState
		text    string // a pattern that somebody matches the description with
	}{
		"ZeroEvictions": {
			"A budget that never allows an eviction; the pattern is Gardener's.", refusing(),
			func(w *env) { w.budget(1, 1) }, machinev1.MachineStateFailed,
			`(?i)(is misconfigured and requires zero voluntary evictions)`,
		},
		"Denied": {
			"A budget that allows no eviction now is not a failure.", refusing(),
			func(w *env) { w.budget(2, 1) }, machinev1.MachineStateProcessing, `allows no eviction now`,
		},
		"EvictionFailed": {
			"A pod that cannot be evicted.", interceptor.Funcs{SubResourceCreate: func(context.Context, client.Client, string,
				client.Object, client.Object, ...client.SubResourceCreateOption,
			) error {
				return errWebhook
			}}, func(*env) {}, machinev1.MachineStateFailed, `cannot be evicted`,
		},
		"Overdue": {
			"A pod that does not end by the end of its grace period.",
			interceptor.Funcs{},
			func(w *env) { w.stuckPod() }, machinev1.MachineStateFailed, `has not terminated`,
		},
		"ClassMissing": {
			"A VM that cannot be deleted for want of its class.",
			interceptor.Funcs{
				SubResourceCreate: func(context.Context, client.Client, string, client.Object, client.Object,
					...client.SubResourceCreateOption,
				) error {
					return errors.New("no pod is evicted in this case")
				},
			},
			func(w *env) { w.dropClass(); w.delete(podOn("m")) }, machinev1.MachineStateFailed, `(?i)class`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, tc.faults)
			w.running("m")
			w.create(podOn("m"))
			tc.prepare(w)
			w.delete(w.machine("m"))
			w.passes(8)
			op := w.machine("m").Status.LastOperation
			if op.State != tc.want || !regexp.MustCompile(tc.text).MatchString(op.Description) {
				t.Errorf("%+v, want %s and %q: %s", op, tc.want, tc.text, tc.reason)
			}
			if op.Type != machinev1.MachineOperationDelete {
				t.Errorf("type %q", op.Type)
			}
		})
	}
}

// budget makes a disruption budget that selects the pod app: of so many pods, so many
// are required, and as many are healthy.
func (w *env) budget(pods, required int32) {
	w.Helper()
	pod := &corev1.Pod{}
	if err := w.client.Get(w.Context(), client.ObjectKeyFromObject(podOn("m")), pod); err != nil {
		w.Fatal(err)
	}
	pod.Labels = map[string]string{"app": "a"}
	if err := w.client.Update(w.Context(), pod); err != nil {
		w.Fatal(err)
	}
	b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "b", Namespace: pod.Namespace}}
	b.Spec = policyv1.PodDisruptionBudgetSpec{
		MinAvailable: new(intstr.FromInt32(required)), Selector: &metav1.LabelSelector{MatchLabels: pod.Labels},
	}
	b.Status = policyv1.PodDisruptionBudgetStatus{ExpectedPods: pods, CurrentHealthy: required, DesiredHealthy: required}
	w.create(b)
}

// stuckPod has a pod on the node that was deleted long ago.
func (w *env) stuckPod() {
	w.Helper()
	pod := podOn("m")
	pod.Name, pod.Finalizers = "stuck", []string{"x/y"}
	w.create(pod)
	w.delete(pod)
	w.pass(5 * time.Minute)
}
