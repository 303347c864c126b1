package fallback

import (
	"context"
	"testing"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// TestSource: requests come when another class may be the one that machines get, and only then.
func TestSource(t *testing.T) {
	t.Parallel()
	m, clock := newMemory()
	q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer q.ShutDown()
	source := m.Source(func(_ context.Context, o client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(o)}}
	})
	if err := source.Start(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	told := func() bool {
		if q.Len() == 0 {
			return false
		}
		r, _ := q.Get()
		q.Done(r)
		return r.Namespace == "n" && r.Name == "first"
	}
	for i, step := range []struct {
		reason string
		do     func()
		tells  bool
	}{
		{"Nothing was known of the class.", func() { m.Made(first) }, true},
		{"It still has room.", func() { m.Made(first) }, false},
		{"It has none any more.", func() { m.Refused(first, "sold out") }, true},
		{"Nothing has changed.", func() { m.Refused(first, "sold out") }, false},
		{"It has room again.", func() { m.Made(first) }, true},
		{"It is forgotten when something else is learned.", func() {
			clock.SetTime(clock.Now().Add(2 * keptFor))
			m.Made(Offer{Namespace: "n", Class: "other"})
		}, true},
	} {
		if step.do(); told() != step.tells {
			t.Errorf("step %d: told %v, want %v: %s", i, !step.tells, step.tells, step.reason)
		}
	}
	if err := (*Memory)(nil).Source(nil).Start(t.Context(), q); err != nil {
		t.Error(err)
	}
}
