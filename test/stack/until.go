package stack

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// fatalError ends waiting at once.
type fatalError struct{ err error }

func (e fatalError) Error() string { return e.err.Error() }
func (e fatalError) Unwrap() error { return e.err }

// Fatal marks an error that waiting does not resolve.
func Fatal(err error) error { return fatalError{err} }

// Pause returns how long a poll waits after a check that took so long: four times as long, but at most a second, and
// never less than shortest. Tests share the processors with what they check.
func Pause(shortest, took time.Duration) time.Duration {
	return max(shortest, min(4*took, time.Second))
}

// Until calls check until it returns nil, at least once, and returns its last
// error when the time is over, when ctx ends, or when the error is fatal.
func Until(ctx context.Context, within time.Duration, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	var last error
	for {
		began := time.Now()
		err := check(ctx)
		if err == nil {
			return nil
		}
		if _, ok := errors.AsType[fatalError](err); ok {
			return err
		}
		if ctx.Err() == nil || last == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("after %s: %w", within, last)
		case <-time.After(Pause(100*time.Millisecond, time.Since(began))):
		}
	}
}
