package mcmdriver

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"
)

// calls are the calls that change something: one at a time for each machine. MCM's
// drivers block for minutes and many heed no context, so a call may go on after its
// caller has given up, and the next caller of that machine waits for its end.
type calls struct {
	timeout time.Duration

	mu   sync.Mutex
	busy map[string]chan struct{} // by machine; closed at the end of its call
}

func newCalls(timeout time.Duration) *calls {
	return &calls{timeout: timeout, busy: map[string]chan struct{}{}}
}

// do waits for the machine's turn, calls f and returns what f does, or ctx's error
// once that ends. The context of f outlives a deadline of ctx, until the timeout: MCM sets
// none, and its drivers wait for their clouds. It ends when ctx is canceled.
func do[T any](ctx context.Context, c *calls, machine string, f func(ctx context.Context) (T, error)) (T, error) {
	end, err := c.turn(ctx, machine)
	if err != nil {
		var none T
		return none, err
	}
	return promptly(ctx, func() (T, error) {
		defer end()
		inner, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.timeout)
		defer cancel()
		defer context.AfterFunc(ctx, func() {
			if errors.Is(ctx.Err(), context.Canceled) {
				cancel()
			}
		})()
		return f(inner)
	})
}

// turn waits until no call of the machine is under way and begins one, which end ends.
func (c *calls) turn(ctx context.Context, machine string) (end func(), err error) {
	for {
		c.mu.Lock()
		other, busy := c.busy[machine]
		if !busy {
			mine := make(chan struct{})
			c.busy[machine] = mine
			c.mu.Unlock()
			return func() {
				c.mu.Lock()
				defer c.mu.Unlock()
				delete(c.busy, machine)
				close(mine)
			}, nil
		}
		c.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, fmt.Errorf("an earlier call for this machine is under way: %w", ctx.Err())
		}
	}
}

// promptly returns what f does, or ctx's error once that ends. A panic of f is one of the
// caller's, with the place where it began.
func promptly[T any](ctx context.Context, f func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
		panic string
	}
	done := make(chan result, 1)
	go func() {
		var r result
		defer func() {
			if p := recover(); p != nil {
				r.panic = fmt.Sprintf("%v\n%s", p, debug.Stack())
			}
			done <- r
		}()
		r.value, r.err = f()
	}()
	select {
	case r := <-done:
		if r.panic != "" {
			panic(r.panic)
		}
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}
