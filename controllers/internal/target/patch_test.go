package target

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

func TestPatchNamesTheNodeThatWasRead(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		change func(*corev1.Node)
		status bool
		want   map[string]any
	}{
		"Label": {
			"What is one's own merges with what is others'.",
			func(n *corev1.Node) { n.Labels = map[string]string{"a": "1"} }, false,
			map[string]any{"metadata": map[string]any{"uid": "first", "labels": map[string]any{"a": "1"}}},
		},
		"Taint": {
			"The list is written whole, so it must be the one that was read.",
			func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "a", Effect: corev1.TaintEffectNoSchedule}} }, false,
			map[string]any{
				"metadata": map[string]any{"uid": "first", "resourceVersion": "7"},
				"spec":     map[string]any{"taints": []any{map[string]any{"key": "a", "effect": "NoSchedule"}}},
			},
		},
		"Condition": {
			"A condition is found by its type.",
			func(n *corev1.Node) {
				n.Status.Conditions = []corev1.NodeCondition{{Type: "A", Status: corev1.ConditionTrue}}
			}, true,
			map[string]any{
				"metadata": map[string]any{"uid": "first"},
				"status": map[string]any{"conditions": []any{
					map[string]any{"type": "A", "status": "True", "lastHeartbeatTime": nil, "lastTransitionTime": nil},
				}},
			},
		},
		"Capacity": {
			"The kubelet's resources are not mentioned.",
			func(n *corev1.Node) { n.Status.Capacity = corev1.ResourceList{"x.com/a": resource.MustParse("1")} }, true,
			map[string]any{
				"metadata": map[string]any{"uid": "first"},
				"status":   map[string]any{"capacity": map[string]any{"x.com/a": "1"}},
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var sent []byte
			keep := func(o client.Object, p client.Patch) (err error) {
				sent, err = p.Data(o)
				return err
			}
			c := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
				Patch: func(_ context.Context, _ client.WithWatch, o client.Object, p client.Patch, _ ...client.PatchOption) error {
					return keep(o, p)
				},
				SubResourcePatch: func(_ context.Context, _ client.Client, _ string, o client.Object, p client.Patch,
					_ ...client.SubResourcePatchOption,
				) error {
					return keep(o, p)
				},
			}).Build()
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "first", ResourceVersion: "7"}}
			changed := node.DeepCopy()
			tc.change(changed)
			write := func() error { return PatchNode(t.Context(), c, node, changed) }
			if tc.status {
				write = func() error { return PatchNodeStatus(t.Context(), c, node, changed) }
			}
			var got map[string]any
			if err := write(); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(sent, &got); err != nil {
				t.Fatalf("%s: %v", sent, err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s (-want +got)\n%s", tc.reason, diff)
			}
			if node.UID != "first" || changed.UID != "first" {
				t.Error("the nodes are not the patch's to change")
			}
		})
	}
}

// The answers are those of a real API server; test/integration sees them there.
func TestAnotherNodeOfTheName(t *testing.T) {
	t.Parallel()
	invalid := func(path string) error {
		return apierrors.NewInvalid(schema.GroupKind{Kind: "Node"}, "n",
			field.ErrorList{field.Invalid(field.NewPath(path), "x", "no")})
	}
	cases := map[string]struct {
		reason   string
		err      error
		conflict bool
		invalid  bool
	}{
		"Former":   {"The Node that was read is gone, and another one has its name.", invalid("metadata.uid"), true, false},
		"Refused":  {"What is wrong with the Node stays wrong.", invalid("spec.taints[0]"), false, true},
		"Conflict": {"A conflict stays one.", apierrors.NewConflict(corev1.Resource("nodes"), "n", nil), true, false},
		"Bare": {
			"An answer may have no details.",
			&apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonInvalid}}, false, true,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
				Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
					return tc.err
				},
				SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch,
					...client.SubResourcePatchOption,
				) error {
					return tc.err
				},
			}).Build()
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "first"}}
			for _, err := range []error{
				PatchNode(t.Context(), c, node, node.DeepCopy()),
				PatchNodeStatus(t.Context(), c, node, node.DeepCopy()),
			} {
				if apierrors.IsConflict(err) != tc.conflict || apierrors.IsInvalid(err) != tc.invalid {
					t.Errorf("got %v: %s", err, tc.reason)
				}
			}
		})
	}
}
