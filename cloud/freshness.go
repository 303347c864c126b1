package cloud

import (
	"context"
	"time"
)

// notBefore is the key of the context value.
type notBefore struct{}

// NotBefore returns a context whose List shows the cloud as it was after t or at
// the time of the call, e.g. for the last look before an orphan is deleted. It
// works through any number of decorators; drivers, which keep no listings, need
// not look at it.
func NotBefore(ctx context.Context, t time.Time) context.Context {
	return context.WithValue(ctx, notBefore{}, t)
}

// Freshness returns the time that NotBefore put into ctx; zero if it did not.
func Freshness(ctx context.Context) time.Time {
	t, _ := ctx.Value(notBefore{}).(time.Time)
	return t
}
