package fresh

import (
	"context"
	"sync/atomic"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capmcm/cluster-api-provider-mcm/internal/fence"
)

// Recheck returns r, which runs once more after [fence.Reach] where it has written
// something, or something was gone that it wanted to write, and asks for nothing. The watch
// shows what was written, and so wakes r, unless the API server was restored meanwhile from
// a backup that has the very versions that the cache was showing: then there is no event, and
// the write is lost.
func Recheck(r reconcile.Reconciler) reconcile.Reconciler {
	return reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
		wrote := &atomic.Bool{}
		result, err := r.Reconcile(context.WithValue(ctx, wroteKey{}, wrote), req)
		if err == nil && result.IsZero() && wrote.Load() {
			result.RequeueAfter = fence.Reach
		}
		return result, err
	})
}

// wroteKey is of the *atomic.Bool in a context that records that its reconcile has written.
type wroteKey struct{}

// NoteWrite records in ctx, which is that of a reconcile, that it has written, by the error that
// the write returned. One that found nothing counts: the cache has yet to show that the object
// is gone, and a restore may bring it back before. A Client does so by itself.
func NoteWrite(ctx context.Context, err error) {
	if wrote, ok := ctx.Value(wroteKey{}).(*atomic.Bool); ok && client.IgnoreNotFound(err) == nil {
		wrote.Store(true)
	}
}
