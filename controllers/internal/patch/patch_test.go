package patch

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// recorder returns a client that keeps the body of the last patch in sent.
func recorder(sent *[]byte) client.Client {
	return fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(_ context.Context, _ client.WithWatch, o client.Object, p client.Patch,
			_ ...client.PatchOption,
		) (err error) {
			*sent, err = p.Data(o)
			return err
		},
		SubResourcePatch: func(_ context.Context, _ client.Client, _ string, o client.Object, p client.Patch,
			_ ...client.SubResourcePatchOption,
		) (err error) {
			*sent, err = p.Data(o)
			return err
		},
	}).Build()
}

func TestPatchNamesTheVersionThatWasRead(t *testing.T) {
	t.Parallel()
	before := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", ResourceVersion: "7"}}
	labelled, full := before.DeepCopy(), before.DeepCopy()
	labelled.Labels = map[string]string{"a": "1"}
	full.Status.Phase = corev1.NodeRunning
	version := map[string]any{"resourceVersion": "7"}
	labels := map[string]any{"resourceVersion": "7", "labels": map[string]any{"a": "1"}}
	cases := map[string]struct {
		reason string
		write  func(c client.Client) error
		want   map[string]any
	}{
		"Object": {
			"Only what differs is sent.",
			func(c client.Client) error { return Object(t.Context(), c, before, labelled.DeepCopy()) },
			map[string]any{"metadata": labels},
		},
		"Metadata": {
			"A label is metadata.",
			func(c client.Client) error {
				_, err := Metadata(t.Context(), c, before, labelled.DeepCopy())
				return err
			},
			map[string]any{"metadata": labels},
		},
		"SameMetadata": {
			"Nothing is sent for equal metadata.",
			func(c client.Client) error {
				_, err := Metadata(t.Context(), c, before, full.DeepCopy())
				return err
			},
			nil,
		},
		"Status": {
			"The status has a request of its own.",
			func(c client.Client) error { return Status(t.Context(), c, before, full.DeepCopy()) },
			map[string]any{"metadata": version, "status": map[string]any{"phase": "Running"}},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var sent []byte
			if err := tc.write(recorder(&sent)); err != nil {
				t.Fatal(err)
			}
			var got map[string]any
			if sent != nil {
				if err := json.Unmarshal(sent, &got); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s (-want +got)\n%s", tc.reason, diff)
			}
		})
	}
}

func TestRemoveFinalizer(t *testing.T) {
	t.Parallel()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "1", Finalizers: []string{"x/a", "x/b", "x/c"}}}
	recreated, moved := node.DeepCopy(), node.DeepCopy()
	recreated.UID = "2"
	moved.Finalizers = []string{"x/b", "x/a", "x/c"}
	cases := map[string]struct {
		reason    string
		stored    *corev1.Node
		finalizer string
		want      []string
		refused   bool
	}{
		"Removed":   {"The others stay.", node, "x/b", []string{"x/a", "x/c"}, false},
		"Absent":    {"It has no such finalizer.", node, "x/d", node.Finalizers, false},
		"Gone":      {"The object is gone.", nil, "x/b", nil, false},
		"Recreated": {"Another object of the name keeps its own.", recreated, "x/b", node.Finalizers, true},
		"Moved":     {"Another finalizer has taken its place.", moved, "x/b", moved.Finalizers, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := fake.NewClientBuilder().Build()
			if tc.stored != nil {
				c = fake.NewClientBuilder().WithObjects(tc.stored.DeepCopy()).Build()
			}
			if err := RemoveFinalizer(t.Context(), c, node.DeepCopy(), tc.finalizer); (err != nil) != tc.refused {
				t.Errorf("%v. %s", err, tc.reason)
			}
			got := &corev1.Node{}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(node), got); client.IgnoreNotFound(err) != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got.Finalizers); diff != "" {
				t.Errorf("%s (-want +got)\n%s", tc.reason, diff)
			}
		})
	}
}
