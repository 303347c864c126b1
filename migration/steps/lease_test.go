package steps

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// slowly is an engine whose API server takes 4 seconds for each write, before which
// look is called.
func (w *env) slowly(look func()) *Engine {
	e := w.engine(-1)
	slow := func(o client.Object, do func() error) error {
		if _, record := o.(*corev1.ConfigMap); !record {
			look()
			w.clock.Step(4 * time.Second)
		}
		return do()
	}
	through, _ := e.Control.(client.WithWatch)
	e.Control = interceptor.NewClient(through, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return slow(o, func() error { return c.Create(ctx, o, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch,
			opts ...client.PatchOption,
		) error {
			return slow(o, func() error { return c.Patch(ctx, o, p, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return slow(o, func() error { return c.Delete(ctx, o, opts...) })
		},
	})
	e.Target = e.Control
	return e
}

// TestASlowCommandIsSeen: a step through many machines is no silence after which
// another command may begin.
func TestASlowCommandIsSeen(t *testing.T) {
	t.Parallel()
	w := newEnv(t, 12)
	e := w.slowly(func() {
		s, err := load(t.Context(), w.api, pool())
		if err != nil || s.Runner == "" || w.clock.Since(s.Renewed) > runnerExpiry/2 {
			t.Errorf("the record shows nobody at work for %s: %v", w.clock.Since(s.Renewed), err)
		}
	})
	for _, c := range []command{there, back, finish} {
		if err := c(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	w.untouched()
	w.home(12)
}

// TestATakenOverCommandStops soon, also in the middle of a step.
func TestATakenOverCommandStops(t *testing.T) {
	t.Parallel()
	w := newEnv(t, 12)
	writes := 0
	e := w.slowly(func() {
		if writes++; writes != 8 {
			return
		}
		s, err := load(t.Context(), w.api, pool())
		if err != nil {
			t.Fatal(err)
		}
		s.Runner = "another"
		w.must(s.save(t.Context(), w.api))
	})
	err := there(t.Context(), e)
	if err == nil || !strings.Contains(err.Error(), "another command has taken over") || writes > 10 {
		t.Errorf("it ended after %d writes with %v", writes, err)
	}
}
