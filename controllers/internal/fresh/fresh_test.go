package fresh

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

func object(version string) *corev1.Node {
	n := &corev1.Node{}
	n.UID, n.ResourceVersion = "u", version
	return n
}

func TestStale(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		wrote  []string
		read   string
		want   bool
	}{
		"NothingWritten": {"What this process did not write is as good as it gets.", nil, "5", false},
		"Older":          {"A cache behind our own write must not be believed.", []string{"10"}, "9", true},
		"Same":           {"Our own write has arrived.", []string{"10"}, "10", false},
		"Newer":          {"Somebody wrote after us.", []string{"10"}, "11", false},
		"Digits":         {"Versions are numbers, not texts.", []string{"100"}, "99", true},
		"Reordered":      {"A late answer to an earlier write must not lower the mark.", []string{"12", "10"}, "11", true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var m Marks
			for _, v := range tc.wrote {
				m.Wrote(object(v))
			}
			if got := m.Stale(object(tc.read)); got != tc.want {
				t.Errorf("Stale() = %v, want %v: %s", got, tc.want, tc.reason)
			}
		})
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
			var m Marks
			if tc.wrote != "" {
				m.Wrote(object(tc.wrote))
			}
			if got := m.Foreign().Update(event.UpdateEvent{
				ObjectOld: object(tc.was),
				ObjectNew: object(tc.is),
			}); got != tc.want {
				t.Errorf("Foreign() = %v, want %v: %s", got, tc.want, tc.reason)
			}
		})
	}
}

func TestEnded(t *testing.T) {
	t.Parallel()
	var m Marks
	o, key := object("5"), types.NamespacedName{}
	m.Wrote(o)
	m.Ended(o)
	if !m.HasEnded(object("4")) || m.Stale(object("4")) {
		t.Error("what the cache still shows of an object that was let go has ended, and nothing newer is to come")
	}
	other := object("9")
	other.UID = "another"
	if m.HasEnded(other) {
		t.Error("an object of the same name that came after it has not ended")
	}
	m.Absent(key)
	if m.HasEnded(o) {
		t.Error("remembered although the cache has caught up")
	}
}

func TestDrop(t *testing.T) {
	t.Parallel()
	var m Marks
	m.Wrote(object("5"))
	m.Drop(types.NamespacedName{Name: "another"})
	if !m.Stale(object("4")) {
		t.Error("the mark of an object went with that of another name")
	}
	m.Drop(types.NamespacedName{})
	if m.Stale(object("4")) || len(m.versions)+len(m.named) != 0 {
		t.Error("remembered although the object is gone")
	}
}
