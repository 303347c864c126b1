package drain

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/target"
)

func TestMarksAreWrittenOnce(t *testing.T) {
	t.Parallel()
	writes := 0
	n := node()
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	c := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(n).WithStatusSubresource(n).
		WithInterceptorFuncs(interceptor.Funcs{
			Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch,
				opts ...client.PatchOption,
			) error {
				writes++
				return c.Patch(ctx, o, p, opts...)
			},
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch,
				opts ...client.SubResourcePatchOption,
			) error {
				writes++
				return c.SubResource(sub).Patch(ctx, o, p, opts...)
			},
		}).Build()
	d := New(Deps{Target: &target.Cluster{Client: c, Live: c}, Clock: clocktesting.NewFakePassiveClock(epoch)})
	var got corev1.Node
	mark := func(reason string) {
		t.Helper()
		if err := c.Get(t.Context(), client.ObjectKey{Name: "n"}, &got); err != nil {
			t.Fatal(err)
		}
		for _, err := range []error{
			d.Cordon(t.Context(), got.DeepCopy()),
			d.MarkTerminating(t.Context(), got.DeepCopy(), reason),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := c.Get(t.Context(), client.ObjectKey{Name: "n"}, &got); err != nil {
			t.Fatal(err)
		}
	}
	mark(machinev1.ReasonScaleDown)
	mark(machinev1.ReasonScaleDown)
	if writes != 2 {
		t.Errorf("%d writes, want 2: what is so already is not written", writes)
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
		if err := d.Cordon(t.Context(), gone); err != nil {
			t.Errorf("Cordon() of no node = %v", err)
		}
		if err := d.MarkTerminating(t.Context(), gone, machinev1.ReasonScaleDown); err != nil {
			t.Errorf("MarkTerminating() of no node = %v", err)
		}
	}
}
