package steps

import (
	"context"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// slowly is an engine whose API server takes 4 seconds for each write, before which
// look is called.
func (w *env) slowly(look func()) *Engine {
	e := w.engine(-1)
	slow := func(o client.Object, do func() error) error {
		switch o.(type) {
		case *corev1.ConfigMap, *coordinationv1.Lease:
		default:
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
		l := w.lease()
		if l == nil || *l.Spec.HolderIdentity == "" || w.clock.Since(l.Spec.RenewTime.Time) > leaseDuration/2 {
			t.Errorf("the Lease shows nobody at work: %+v", l)
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
		l := w.lease()
		l.Spec.HolderIdentity = new("another")
		w.must(w.api.Update(t.Context(), l))
	})
	err := there(t.Context(), e)
	if err == nil || !strings.Contains(err.Error(), "another command has taken over") || writes > 10 {
		t.Errorf("it ended after %d writes with %v", writes, err)
	}
}

// TestTheLeaseShowsWhoMoves, since when, and goes with the command that has ended.
func TestTheLeaseShowsWhoMoves(t *testing.T) {
	t.Parallel()
	w := newEnv(t, 1)
	e := w.engine(5)
	e.Identity = "alice"
	if err := there(t.Context(), e); err == nil {
		t.Fatal("it was not killed")
	}
	first := w.lease()
	if first == nil || !strings.HasPrefix(*first.Spec.HolderIdentity, "alice_") ||
		*first.Spec.LeaseDurationSeconds != 30 || first.Spec.AcquireTime == nil ||
		first.Labels[machinev1.MigrationLabel] == "" {
		t.Fatalf("the Lease of a command that was killed is %+v", first)
	}
	w.kill(there, 2)
	if second := w.lease(); *second.Spec.HolderIdentity == *first.Spec.HolderIdentity ||
		*second.Spec.LeaseTransitions != 1 {
		t.Errorf("the next command has not taken it over: %+v", second)
	}
	w.run(there)
	if l := w.lease(); l != nil {
		t.Errorf("the command has ended, and there is still %+v", l)
	}
}

// TestTheRecordIsFenced: a command that has not noticed yet that another one has taken
// over its Lease does not write the record any more.
func TestTheRecordIsFenced(t *testing.T) {
	t.Parallel()
	w := newEnv(t, 1)
	w.kill(there, 5)
	s, err := load(t.Context(), w.api, pool())
	w.must(err)
	w.kill(there, 2) // it takes the Lease and writes the record
	if err := s.save(t.Context(), w.api); !apierrors.IsConflict(err) {
		t.Errorf("the command before writes the record: %v", err)
	}
}

// lease is the Lease of the pool; nil if there is none.
func (w *env) lease() *coordinationv1.Lease {
	w.t.Helper()
	l, err := New(Deps{Control: w.api}).readLease(w.t.Context(), pool())
	if err != nil {
		w.t.Fatal(err)
	}
	return l
}
