package fence

import (
	"context"
	"errors"
	"time"
)

// finishTimeout bounds a request that goes on although this process is to stop.
const finishTimeout = 30 * time.Second

// detach returns a context that ends finishTimeout after ctx is cancelled, not
// with it; at a deadline of ctx it ends at once. A reconcile that has begun when
// this process is asked to stop goes on to its end, so that what it did in the
// cloud is also written down; the queues give out nothing new, and the manager
// waits for it before the leases are released.
func detach(ctx context.Context) (context.Context, context.CancelFunc) {
	going, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			cancel(ctx.Err())
			return
		}
		timer := time.NewTimer(finishTimeout)
		defer timer.Stop()
		select {
		case <-timer.C:
			cancel(ctx.Err())
		case <-going.Done():
		}
	})
	return going, func() {
		stop()
		cancel(nil)
	}
}

// whileOpen returns a detached context that also ends when the fence closes.
func (f *Fence) whileOpen(ctx context.Context) (context.Context, context.CancelFunc) {
	detached, done := detach(ctx)
	if f.always {
		return detached, done
	}
	guarded, cancel := context.WithCancelCause(detached)
	go func() {
		for left := f.open(); left > 0; left = f.open() {
			timer := time.NewTimer(left)
			select {
			case <-timer.C:
			case <-guarded.Done():
				timer.Stop()
				return
			}
		}
		cancel(ErrClosed)
	}()
	return guarded, func() {
		cancel(nil)
		done()
	}
}
