package fresh

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ownedBy returns a Node that an owner controls.
func ownedBy(owner, version string) *corev1.Node {
	n := node(version)
	n.OwnerReferences = []metav1.OwnerReference{{UID: types.UID(owner), Controller: new(true)}}
	return n
}

// TestCheck: the owner "a" has one object, which is written in version 10.
func TestCheck(t *testing.T) {
	t.Parallel()
	shown, first := ownedBy("a", "10"), ownedBy("a", "4")
	cases := map[string]struct {
		reason       string
		before       *corev1.Node // that the cache has shown after the write; nil: none
		cached, live *corev1.Node
		listed       bool // whether the list has the cached one
		down         bool
		want         string
		requests     int
		kept         int // objects that are remembered
	}{
		"Shown":   {"The write has arrived.", nil, shown, shown, true, false, "ok", 0, 1},
		"Newer":   {"Somebody wrote after this process.", nil, ownedBy("a", "11"), nil, true, false, "ok", 0, 1},
		"Older":   {"The cache is behind the write.", nil, ownedBy("a", "9"), shown, true, false, "Conflict", 0, 1},
		"Created": {"It has not arrived at all.", nil, nil, shown, false, false, "Conflict", 1, 1},
		"Arrived": {"It arrived after the list was read.", nil, shown, shown, false, false, "Conflict", 0, 1},
		"Gone":    {"The cache showed it, and then that it is gone.", shown, nil, nil, false, false, "ok", 0, 0},
		"Lost":    {"It was deleted before the cache showed it.", nil, nil, nil, false, false, "ok", 1, 0},
		"Down":    {"Nothing is known of it.", nil, nil, shown, false, true, "ServiceUnavailable", 1, 1},
		"Given":   {"Another owner has it by now.", nil, ownedBy("b", "11"), nil, false, false, "ok", 0, 0},
		"Freed":   {"Nobody controls it by now.", nil, node("11"), nil, false, false, "ok", 0, 0},
		"Adopted": {"It was written to adopt it from nobody.", nil, node("9"), shown, false, false, "Conflict", 0, 1},
		"Back":    {"The API server was restored.", shown, first, first, true, false, "ok", 0, 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			d := &Dependents{Client: e.Client, of: map[types.UID]map[types.NamespacedName]bool{}}
			e.answer = ownedBy("a", "10")
			if err := d.Patch(t.Context(), &corev1.Node{}, client.MergeFrom(&corev1.Node{})); err != nil {
				t.Fatal(err)
			}
			if tc.before != nil && d.Check(t.Context(), "a", []client.Object{tc.before}) != nil {
				t.Fatal("what was written is shown")
			}
			var listed []client.Object
			if tc.listed {
				listed = append(listed, tc.cached)
			}
			e.cached, e.live, e.down = tc.cached, tc.live, tc.down
			got := "ok"
			if err := d.Check(t.Context(), "a", listed); err != nil {
				got = string(apierrors.ReasonForError(err))
			}
			if got != tc.want || e.asked != tc.requests || len(d.of) != tc.kept {
				t.Errorf("Check() = %s after %d requests, %d owners are remembered, want %s, %d, %d: %s", got, e.asked,
					len(d.of), tc.want, tc.requests, tc.kept, tc.reason)
			}
			if err := d.Check(t.Context(), "b", nil); err != nil {
				t.Errorf("another owner: %v", err)
			}
		})
	}
}

// TestCheckAfterAWriteThatFailed: it promises nothing.
func TestCheckAfterAWriteThatFailed(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	d := &Dependents{Client: e.Client, of: map[types.UID]map[types.NamespacedName]bool{}}
	o := ownedBy("a", "9")
	if d.Patch(t.Context(), o, client.MergeFrom(o)) == nil {
		t.Fatal("the API server is down")
	}
	if err := d.Check(t.Context(), "a", nil); err != nil || len(d.of) != 0 {
		t.Errorf("error %v, %d owners are remembered", err, len(d.of))
	}
}
