package fresh

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/capmcm/cluster-api-provider-mcm/internal/fence"
)

// env is a client over a cache that shows what a test says.
type env struct {
	*testing.T
	*Client
	wall   *clocktesting.FakePassiveClock
	cached *corev1.Node // nil: none
	live   *corev1.Node // on the API server; nil: none
	asked  int          // how often the API server was read
	down   bool         // the API server answers no read
	answer *corev1.Node // what a write returns
	gone   bool         // writes find nothing
	// failure is why writes fail; nil: they do not, or the API server is down.
	failure error
}

func newEnv(t *testing.T) *env {
	t.Helper()
	e := &env{T: t, wall: clocktesting.NewFakePassiveClock(time.Unix(1, 0))}
	show := func(node *corev1.Node, key client.ObjectKey, o client.Object) error {
		if into, ok := o.(*corev1.Node); ok && node != nil {
			node.DeepCopyInto(into)
			return nil
		}
		return apierrors.NewNotFound(schema.GroupResource{Resource: "nodes"}, key.Name)
	}
	live := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
			if e.asked++; e.down {
				return apierrors.NewServiceUnavailable("down")
			}
			return show(e.live, key, o)
		},
	}).Build()
	cache := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
			return show(e.cached, key, o)
		},
		Create: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
			return e.stored(o)
		},
		Patch: func(_ context.Context, _ client.WithWatch, o client.Object, _ client.Patch, _ ...client.PatchOption) error {
			return e.stored(o)
		},
		Delete: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.DeleteOption) error {
			return e.stored(o)
		},
		SubResourcePatch: func(_ context.Context, _ client.Client, _ string, o client.Object, _ client.Patch,
			_ ...client.SubResourcePatchOption,
		) error {
			return e.stored(o)
		},
	}).Build()
	e.Client = NewClient(ClientDeps{Client: cache, Live: live, Clock: e.wall}, &corev1.Node{})
	return e
}

func (e *env) stored(o client.Object) error {
	if e.failure != nil {
		return e.failure
	}
	if e.gone {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "nodes"}, o.GetName())
	}
	if e.answer == nil {
		return apierrors.NewServiceUnavailable("down")
	}
	if node, ok := o.(*corev1.Node); ok {
		e.answer.DeepCopyInto(node)
	}
	return nil
}

// write patches the Node, and its status where that is asked for.
func (e *env) write(answer *corev1.Node, status bool) {
	e.Helper()
	e.answer = answer
	var err error
	if o := (&corev1.Node{}); status {
		err = e.Client.Status().Patch(e.Context(), o, client.MergeFrom(o))
	} else {
		err = e.Patch(e.Context(), o, client.MergeFrom(o))
	}
	if (err == nil) != (answer != nil) {
		e.Fatalf("write: %v", err)
	}
}

// read is what Get returns: "ok", "NotFound", "Conflict".
func (e *env) read(cached *corev1.Node) string {
	e.cached = cached
	if err := e.Get(e.Context(), client.ObjectKey{Name: "n"}, &corev1.Node{}); err != nil {
		return string(apierrors.ReasonForError(err))
	}
	return "ok"
}

func node(version string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "u", ResourceVersion: version}}
}

// ended is a Node without its last finalizer.
func ended(version string) *corev1.Node {
	n := node(version)
	n.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	return n
}

func TestGet(t *testing.T) {
	t.Parallel()
	another := node("9")
	another.UID = "another"
	blocked := ended("10")
	blocked.Finalizers = []string{"somebody's"}
	cases := map[string]struct {
		reason string
		wrote  []*corev1.Node
		cached *corev1.Node
		want   string
	}{
		"NothingWritten": {"Objects that others write are read as the cache shows them.", nil, node("5"), "ok"},
		"Older":          {"The cache is behind a write of this process.", []*corev1.Node{node("10")}, node("9"), "Conflict"},
		"Same":           {"The write has arrived.", []*corev1.Node{node("10")}, node("10"), "ok"},
		"Newer":          {"Somebody wrote after this process.", []*corev1.Node{node("10")}, node("11"), "ok"},
		"Digits":         {"Versions are compared as numbers.", []*corev1.Node{node("100")}, node("99"), "Conflict"},
		"Reordered": {
			"A late answer to an earlier write does not lower the version.",
			[]*corev1.Node{node("12"), node("10")},
			node("11"), "Conflict",
		},
		"Failed":  {"A write that failed promises nothing.", []*corev1.Node{nil}, node("5"), "ok"},
		"Ended":   {"The object went with its last finalizer.", []*corev1.Node{ended("5")}, node("4"), "NotFound"},
		"Blocked": {"Finalizers of others keep the object.", []*corev1.Node{blocked}, blocked, "ok"},
		"Again":   {"Another object got the name.", []*corev1.Node{ended("5")}, another, "ok"},
		"Absent":  {"The cache shows nothing.", []*corev1.Node{node("5")}, nil, "NotFound"},
	}
	for name, tc := range cases {
		for _, status := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				e := newEnv(t)
				for _, answer := range tc.wrote {
					e.write(answer, status)
				}
				if got := e.read(tc.cached); got != tc.want {
					t.Errorf("Get() = %s, want %s: %s", got, tc.want, tc.reason)
				}
			})
		}
	}
}

func TestGetForgets(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.write(node("10"), false)
	if got := e.read(nil); got != "NotFound" || len(e.written) != 0 {
		t.Errorf("%s, %d versions are remembered of an object that no longer exists", got, len(e.written))
	}
}

func TestForeign(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason  string
		wrote   string
		was, is string
		want    bool
	}{
		"Own":    {"What this process wrote it need not look at.", "10", "9", "10", false},
		"Former": {"An earlier write of its own arrives after a later one was made.", "10", "8", "9", false},
		"After":  {"What somebody else wrote after it may have undone that.", "10", "10", "11", true},
		"Never":  {"Who has written nothing knows nothing of who did.", "", "10", "11", true},
		"Resync": {"Nothing was written at all.", "", "10", "10", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			if tc.wrote != "" {
				e.write(node(tc.wrote), false)
			}
			if got := e.Foreign().Update(event.UpdateEvent{ObjectOld: node(tc.was), ObjectNew: node(tc.is)}); got != tc.want {
				t.Errorf("Foreign() = %v, want %v: %s", got, tc.want, tc.reason)
			}
		})
	}
}

// TestGetAfterARestore: the API server was restored from a backup, so the cache goes back,
// and will never show what was written.
func TestGetAfterARestore(t *testing.T) {
	t.Parallel()
	for name, wrote := range map[string]*corev1.Node{"Written": node("10"), "Ended": ended("10")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			e.read(node("9"))
			e.write(wrote, false)
			for _, want := range []string{"ok", "ok"} {
				if got := e.read(node("5")); got != want {
					t.Errorf("Get() = %s, want %s: the server does not know the write any more", got, want)
				}
			}
			e.write(node("6"), false)
			if got := e.read(node("5")); got != string(metav1.StatusReasonConflict) {
				t.Errorf("Get() = %s after another write, want a conflict", got)
			}
		})
	}
}

// TestGetAfterARestoreOfWhatIsShown: the API server was restored from a backup of the very
// version that the cache, which was behind, still shows. There is no event.
func TestGetAfterARestoreOfWhatIsShown(t *testing.T) {
	t.Parallel()
	again := node("4")
	again.UID = "another"
	cases := map[string]struct {
		reason      string
		wrote, live *corev1.Node
		down        bool
		want        string
	}{
		"Lost":        {"The write is lost.", node("10"), node("9"), false, "ok"},
		"Behind":      {"The cache is slow.", node("10"), node("10"), false, "Conflict"},
		"Changed":     {"The cache is slow, and somebody wrote.", node("10"), node("12"), false, "Conflict"},
		"Deleted":     {"The cache will show that.", node("10"), nil, false, "Conflict"},
		"LostEnd":     {"The object has its finalizer again.", ended("10"), node("9"), false, "ok"},
		"LostEndLong": {"Others have changed it since.", ended("10"), node("14"), false, "ok"},
		"Ended":       {"It is gone, and may come back until the cache has shown that.", ended("10"), nil, false, "Conflict"},
		"LostAnother": {"The write was to an object that never was.", node("10"), again, false, "ok"},
		"Down":        {"Nothing is known.", node("10"), node("9"), true, "ServiceUnavailable"},
		"DownAtEnd":   {"Nothing is known.", ended("10"), nil, true, "ServiceUnavailable"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			e.live, e.down = tc.live, tc.down
			e.read(node("9"))
			e.write(tc.wrote, false)
			e.wall.SetTime(e.wall.Now().Add(fence.Reach - time.Second))
			if got := e.read(node("9")); got == "ok" || e.asked != 0 {
				t.Errorf("Get() = %s before %s, %d reads: caches are often behind for a while", got, fence.Reach, e.asked)
			}
			e.wall.SetTime(e.wall.Now().Add(time.Second))
			for i := range 2 {
				got, asked := e.read(node("9")), 1
				if tc.down {
					asked = i + 1
				}
				if got != tc.want || e.asked != asked {
					t.Errorf("Get() = %s, %d reads, want %s, %d: %s", got, e.asked, tc.want, asked, tc.reason)
				}
			}
		})
	}
}

// TestWriteDuringTheLookForALostOne: what is written while the API server is asked about an
// earlier write is not forgotten with that.
func TestWriteDuringTheLookForALostOne(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.live = node("9")
	e.write(node("10"), false)
	e.wall.SetTime(e.wall.Now().Add(fence.Reach))
	e.Client.live = readerFunc(func(o client.Object) error {
		e.write(node("11"), false)
		node("9").DeepCopyInto(o.(*corev1.Node)) //nolint:forcetypeassert // the Client's kind
		return nil
	})
	if got := e.read(node("9")); got != string(metav1.StatusReasonConflict) {
		t.Errorf("Get() = %s, want a conflict", got)
	}
}

type readerFunc func(client.Object) error

func (f readerFunc) Get(_ context.Context, _ client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	return f(o)
}

func (readerFunc) List(context.Context, client.ObjectList, ...client.ListOption) error { return nil }

// TestRestoreAfterTheLook: the API server still knew the write when it was asked, and is
// restored then.
func TestRestoreAfterTheLook(t *testing.T) {
	t.Parallel()
	for name, wrote := range map[string]*corev1.Node{"Written": node("10"), "Ended": ended("10")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			if e.write(wrote, false); wrote.DeletionTimestamp.IsZero() {
				e.live = wrote
			}
			e.wall.SetTime(e.wall.Now().Add(fence.Reach))
			for _, want := range []string{"Conflict", "Conflict", "ok"} {
				if got := e.read(node("9")); got != want {
					t.Errorf("Get() = %s, want %s", got, want)
				}
				e.live = node("9")
				e.wall.SetTime(e.wall.Now().Add(fence.Reach * 2 / 3))
			}
		})
	}
}
