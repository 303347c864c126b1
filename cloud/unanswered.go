package cloud

import "context"

type unansweredKey struct{}

// WithUnanswered returns a context for one call of an account. note is called for each of its
// mutating requests that gets no answer and so may still take effect, also where the client
// repeats it and the call has an answer in the end. note has to be safe for concurrent use.
func WithUnanswered(ctx context.Context, note func()) context.Context {
	return context.WithValue(ctx, unansweredKey{}, note)
}

// Unanswered notes that a mutating request of the call that ctx belongs to got no answer. It is
// called by the transport of a driver's client; without WithUnanswered it does nothing.
func Unanswered(ctx context.Context) {
	if note, ok := ctx.Value(unansweredKey{}).(func()); ok {
		note()
	}
}
