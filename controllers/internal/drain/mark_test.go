package drain

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/harness"
)

func TestMarksAreWrittenOnce(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	harness.Edit(w.Cluster, node(), func(n *corev1.Node) {
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	})
	got := node()
	mark := func(reason string) {
		t.Helper()
		w.Reload(got)
		w.Must(w.drainer.Cordon(t.Context(), got.DeepCopy()))
		w.Must(w.drainer.MarkTerminating(t.Context(), got.DeepCopy(), reason))
		w.Reload(got)
	}
	mark(machinev1.ReasonScaleDown)
	mark(machinev1.ReasonScaleDown)
	if writes := w.Writes(); len(writes) != 2 {
		t.Errorf("writes %v, want 2: what is so already is not written", writes)
	}
	mark(machinev1.ReasonUnhealthy)
	want := []corev1.NodeCondition{
		{Type: corev1.NodeReady, Status: corev1.ConditionTrue},
		{
			Type: machinev1.NodeTerminating, Status: corev1.ConditionTrue, Reason: machinev1.ReasonUnhealthy,
			Message: "Machine Controller is terminating failed machine", LastHeartbeatTime: metav1.NewTime(epoch),
			LastTransitionTime: metav1.NewTime(epoch),
		},
	}
	same := cmp.Comparer(func(a, b metav1.Time) bool { return a.Equal(&b) })
	byType := cmp.Transformer("byType", func(in []corev1.NodeCondition) map[corev1.NodeConditionType]corev1.NodeCondition {
		out := map[corev1.NodeConditionType]corev1.NodeCondition{}
		for _, c := range in {
			out[c.Type] = c
		}
		return out
	})
	if diff := cmp.Diff(want, got.Status.Conditions, same, byType); diff != "" {
		t.Errorf("conditions: %s", diff)
	}
	if !got.Spec.Unschedulable {
		t.Error("the node is not cordoned")
	}
	for _, gone := range []*corev1.Node{nil, {ObjectMeta: metav1.ObjectMeta{Name: "other"}}} {
		if err := w.drainer.Cordon(t.Context(), gone); err != nil {
			t.Errorf("Cordon() of no node = %v", err)
		}
		if err := w.drainer.MarkTerminating(t.Context(), gone, machinev1.ReasonScaleDown); err != nil {
			t.Errorf("MarkTerminating() of no node = %v", err)
		}
	}
}
