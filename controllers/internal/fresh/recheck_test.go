package fresh

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capmcm/cluster-api-provider-mcm/internal/fence"
)

func TestRecheck(t *testing.T) {
	t.Parallel()
	failure := errors.New("x")
	patch := func(ctx context.Context, e *env, o client.Object) error {
		return e.Patch(ctx, o, client.RawPatch("", nil))
	}
	cases := map[string]struct {
		reason string
		do     func(context.Context, *env) (time.Duration, error)
		want   time.Duration
		err    error
	}{
		"Wrote": {
			"If the write is lost, nothing wakes the controller.",
			func(ctx context.Context, e *env) (time.Duration, error) { return 0, patch(ctx, e, node("5")) }, fence.Reach, nil,
		},
		"WroteAnotherKind": {
			"As much depends on what belongs to an object.",
			func(ctx context.Context, e *env) (time.Duration, error) { return 0, patch(ctx, e, &corev1.Pod{}) },
			fence.Reach, nil,
		},
		"Status": {
			"The status is as good.",
			func(ctx context.Context, e *env) (time.Duration, error) {
				return 0, e.Status().Patch(ctx, node("5"), client.RawPatch("", nil))
			},
			fence.Reach, nil,
		},
		"Deleted": {
			"A deletion can be lost, too.",
			func(ctx context.Context, e *env) (time.Duration, error) { return 0, e.Delete(ctx, node("5")) }, fence.Reach, nil,
		},
		"Gone": {
			"What others have deleted may be restored before the cache shows that it was gone.",
			func(ctx context.Context, e *env) (time.Duration, error) {
				e.gone = true
				return 0, client.IgnoreNotFound(patch(ctx, e, node("5")))
			},
			fence.Reach, nil,
		},
		"Noted": {
			"Others write without a Client.",
			func(ctx context.Context, _ *env) (time.Duration, error) { NoteWrite(ctx, nil); return 0, nil }, fence.Reach, nil,
		},
		"Nothing": {
			"Who has written nothing has lost nothing.",
			func(context.Context, *env) (time.Duration, error) { return 0, nil }, 0, nil,
		},
		"Waits": {
			"The controller comes back by itself.",
			func(ctx context.Context, e *env) (time.Duration, error) { return time.Hour, patch(ctx, e, node("5")) },
			time.Hour, nil,
		},
		"Fails": {
			"An error has a back-off of its own.",
			func(ctx context.Context, e *env) (time.Duration, error) {
				return 0, errors.Join(patch(ctx, e, node("5")), failure)
			},
			0, failure,
		},
		"WriteFails": {
			"A write that failed is not lost.",
			func(ctx context.Context, e *env) (time.Duration, error) {
				e.answer = nil
				_ = patch(ctx, e, node("5"))
				return 0, nil
			}, 0, nil,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			e.answer = node("5")
			r := Recheck(reconcile.Func(func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
				wait, err := tc.do(ctx, e)
				return reconcile.Result{RequeueAfter: wait}, err
			}))
			result, err := r.Reconcile(t.Context(), reconcile.Request{})
			if result.RequeueAfter != tc.want || !errors.Is(err, tc.err) {
				t.Errorf("again in %s, %v, want %s, %v: %s", result.RequeueAfter, err, tc.want, tc.err, tc.reason)
			}
		})
	}
}
