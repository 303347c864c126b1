package fresh

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capmcm/cluster-api-provider-mcm/internal/fence"
)

// ownedBy returns a Node that an owner controls.
func ownedBy(owner, version string) *corev1.Node {
	n := node(version)
	n.OwnerReferences = []metav1.OwnerReference{{UID: types.UID(owner), Controller: new(true)}}
	return n
}

func newDependents(t *testing.T) (*env, *Dependents) {
	t.Helper()
	e := newEnv(t)
	return e, NewDependents(ClientDeps{Client: e.Client.Client, Live: e.Client.live, Clock: e.wall}, &corev1.Node{})
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
			e, d := newDependents(t)
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
			e.wall.SetTime(e.wall.Now().Add(missingPeriod))
			got := reasonOf(d.Check(t.Context(), "a", listed))
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

// TestCheckAfterAWriteThatFailed: the object has version 9, and what was asked for may have happened.
func TestCheckAfterAWriteThatFailed(t *testing.T) {
	t.Parallel()
	unanswered, refused := apierrors.NewServiceUnavailable("down"), apierrors.NewConflict(schema.GroupResource{}, "n", nil)
	is, was := ownedBy("a", "10"), ownedBy("a", "9")
	cases := map[string]struct {
		reason       string
		create       bool
		failure      error
		cached, live *corev1.Node
		down         bool
		now          string
		pending      int    // writes that may still arrive
		later        string // once fence.Reach has passed
	}{
		"Arrived":  {"It happened, and the cache is behind.", false, unanswered, was, is, false, "Conflict", 0, "Conflict"},
		"Shown":    {"It happened, and the cache shows it.", false, unanswered, is, is, false, "ok", 0, "ok"},
		"Pending":  {"It may still arrive.", false, unanswered, was, was, false, "ok", 1, "ok"},
		"Refused":  {"It was refused for no reason that lasts.", false, refused, was, was, false, "ok", 0, "ok"},
		"Outdated": {"Somebody wrote before.", false, refused, was, is, false, "Conflict", 0, "Conflict"},
		"Created":  {"It was created after all.", true, unanswered, nil, is, false, "Conflict", 0, "Conflict"},
		"Coming":   {"It may still be created.", true, unanswered, nil, nil, false, "ok", 1, "ok"},
		"Exists":   {"It was there already.", true, refused, nil, is, false, "Conflict", 0, "Conflict"},
		"Invalid":  {"It never will be.", true, refused, nil, nil, false, "ok", 0, "ok"},
		"Down": {
			"Nothing is known.", false, unanswered, was, was, true, "ServiceUnavailable", 1, "ServiceUnavailable",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, d := newDependents(t)
			e.failure, e.cached, e.live, e.down = tc.failure, tc.cached, tc.live, tc.down
			var err error
			if o := was.DeepCopy(); tc.create {
				o.ResourceVersion = ""
				err = d.Create(t.Context(), o)
			} else {
				err = d.Patch(t.Context(), o, client.MergeFrom(o))
			}
			if err == nil {
				t.Fatal("the write did not fail")
			}
			var listed []client.Object
			if tc.cached != nil {
				listed = append(listed, tc.cached)
			}
			if got := reasonOf(d.Check(t.Context(), "a", listed)); got != tc.now || len(d.Pending("a")) != tc.pending {
				t.Errorf("Check() = %s at once, %d are pending, want %s, %d: %s", got, len(d.Pending("a")), tc.now, tc.pending,
					tc.reason)
			}
			e.wall.SetTime(e.wall.Now().Add(fence.Reach))
			if got := reasonOf(d.Check(t.Context(), "a", listed)); got != tc.later || !tc.down && len(d.Pending("a")) > 0 {
				t.Errorf("Check() = %s later, want %s: %s", got, tc.later, tc.reason)
			}
		})
	}
}

// TestRefusedAfterUnanswered: a request that got no answer is still on its way when the API server refuses
// another one. Only an object of another version shows that the first cannot arrive any more.
func TestRefusedAfterUnanswered(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		base    string // of the request that is refused; the first has "9", and creations have none
		create  bool
		want    string // of Check
		pending int
	}{
		"SameVersion":  {"9", false, "ok", 1},
		"OtherVersion": {"10", false, "Conflict", 0},
		"Created":      {"", true, "ok", 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, d := newDependents(t)
			write := func(version string, failure error) {
				e.failure = failure
				o := ownedBy("a", version)
				if tc.create {
					o.ResourceVersion = ""
					_ = d.Create(t.Context(), o)
				} else {
					_ = d.Patch(t.Context(), o, client.MergeFrom(o))
				}
			}
			write("9", apierrors.NewServiceUnavailable("down"))
			write(tc.base, apierrors.NewTooManyRequests("later", 1))
			e.live = ownedBy("a", tc.base)
			if tc.create {
				e.live = nil
			}
			if got := reasonOf(d.Check(t.Context(), "a", nil)); got != tc.want || len(d.Pending("a")) != tc.pending {
				t.Errorf("Check() = %s, %d requests are pending, want %s, %d", got, len(d.Pending("a")), tc.want, tc.pending)
			}
		})
	}
}

// reasonOf is "ok" or the reason of an error.
func reasonOf(err error) string {
	if err == nil {
		return "ok"
	}
	return string(apierrors.ReasonForError(err))
}

// TestSaw: an object that the API server has, and the cache does not show.
func TestSaw(t *testing.T) {
	t.Parallel()
	e, d := newDependents(t)
	d.Saw(ownedBy("a", "10"))
	e.live = ownedBy("a", "10")
	if got := reasonOf(d.Check(t.Context(), "a", nil)); got != "Conflict" {
		t.Errorf("Check() = %s, want a conflict", got)
	}
}
