package driverkit

import (
	"context"
	"fmt"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// LoginOptions configure a Login. The zero value remembers no refusals.
type LoginOptions struct {
	Timeout time.Duration // of one login; 0 is 30 seconds

	// Refusals are those of the driver, so that credentials which the cloud has refused
	// are not tried again at once: clouds lock users. Fingerprint is that of the
	// credentials.
	Refusals    *cloud.Refusals
	Fingerprint string
	// Refused reports whether a login failed because of the credentials. Nil is for errors
	// of code Denied: a cloud that also denies a login for another reason needs it.
	Refused func(error) bool

	Now func() time.Time // nil is time.Now
}

// Login holds what calls are made with, such as a token. It is safe for concurrent use.
// Callers who need a login at the same time share one; it goes on when they leave, until
// the Login is closed.
type Login[T any] struct {
	options LoginOptions
	logIn   func(context.Context) (T, error)

	mu         sync.Mutex
	value      T
	generation int // of the value; 0 is none yet
	closed     bool
	pending    *pending // nil while there is no login under way
}

// pending is a login that callers wait for.
type pending struct {
	done     chan struct{}
	cancel   context.CancelFunc
	err      error
	panicked string // what the login panicked with, and where; empty if it did not
}

// NewLogin returns a Login that has not logged in yet.
func NewLogin[T any](o LoginOptions, logIn func(context.Context) (T, error)) *Login[T] {
	const usual = 30 * time.Second
	if o.Timeout <= 0 {
		o.Timeout = usual
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Refused == nil {
		o.Refused = func(err error) bool { return cloud.CodeOf(err) == cloud.Denied }
	}
	return &Login[T]{options: o, logIn: logIn}
}

// Get returns what the last login has returned, and its generation, which Renew takes. It
// logs in if that has not been done.
func (l *Login[T]) Get(ctx context.Context, op string) (value T, generation int, err error) {
	if err := l.Renew(ctx, op, 0); err != nil {
		return value, 0, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.value, l.generation, nil
}

// Renew logs in again, unless that has been done since generation. It blocks until then
// or until ctx ends. Its error has the code of logIn's, Denied if the cloud has refused
// the credentials lately, or Unavailable. It is not Uncertain: the call that needs the
// login is not made.
func (l *Login[T]) Renew(ctx context.Context, op string, generation int) error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return cloud.Errorf(cloud.Unavailable, op, "Closed", "the account is closed")
	}
	if l.generation > generation {
		l.mu.Unlock()
		return nil
	}
	mine := l.pending
	if mine == nil {
		mine = l.begin(ctx)
	}
	l.mu.Unlock()
	select {
	case <-mine.done:
		if mine.panicked != "" {
			panic(mine.panicked) // in the caller, as with a Batcher
		}
		return unsent(op, mine.err)
	case <-ctx.Done():
		return cloud.Errorf(cloud.Unavailable, op, "NoAnswer", "no answer to the login: %w", ctx.Err())
	}
}

// unsent returns the error of a login as that of the operation that needed it, which the
// cloud has not got, whether or not it got the login. Nil stays nil.
func unsent(op string, err error) error {
	e, ok := WithOp(op, err).(*cloud.Error) //nolint:errorlint // WithOp returns nothing else
	if !ok {
		return nil
	}
	e.Err = certain{e.Err}
	return e
}

// begin starts a login. The lock is held.
func (l *Login[T]) begin(ctx context.Context) *pending {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.options.Timeout)
	p := &pending{done: make(chan struct{}), cancel: cancel}
	l.pending = p
	go func() {
		defer cancel()
		value, panicked, err := l.try(ctx)
		l.mu.Lock()
		defer l.mu.Unlock()
		if p.err, p.panicked = err, panicked; err == nil && panicked == "" {
			l.value = value
			l.generation++
		}
		l.pending = nil
		close(p.done)
	}()
	return p
}

// try logs in, unless the cloud has refused the credentials lately.
func (l *Login[T]) try(ctx context.Context) (value T, panicked string, err error) {
	defer func() {
		if p := recover(); p != nil {
			panicked = fmt.Sprintf("%v\n%s", p, debug.Stack())
		}
	}()
	o := l.options
	if o.Refusals != nil && o.Refusals.Lately(o.Fingerprint, o.Now()) {
		return value, "", cloud.Errorf(cloud.Denied, "log in", "RefusedLately",
			"the cloud refused these credentials a moment ago; they are tried again in ten minutes, or when they change")
	}
	value, err = l.logIn(ctx)
	if err != nil && o.Refusals != nil && o.Refused(err) {
		o.Refusals.Note(o.Fingerprint, o.Now())
	}
	return value, "", err
}

// Close ends the login that is under way and lets no other begin. It may be called again.
func (l *Login[T]) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.pending != nil {
		l.pending.cancel()
	}
}

// Session makes calls of an API that needs a login.
type Session[T any] struct {
	API   API
	Login *Login[T]
}

// Do makes the call that build returns for a login. When the cloud answers 401, it logs
// in again, once for all callers, and makes the call once more. Nil is success.
func (s Session[T]) Do(ctx context.Context, op string, build func(login T) Call) *cloud.Error {
	if e := NotSent(ctx, op); e != nil {
		return e
	}
	login, generation, err := s.Login.Get(ctx, op)
	if err != nil {
		return asError(op, err)
	}
	e := s.API.Do(ctx, op, build(login))
	if answer, _ := AnswerOf(asNil(e)); answer.Status != http.StatusUnauthorized {
		return e
	}
	if err := s.Login.Renew(ctx, op, generation); err != nil {
		return asError(op, err)
	}
	if login, _, err = s.Login.Get(ctx, op); err != nil {
		return asError(op, err)
	}
	return s.API.Do(ctx, op, build(login))
}

// asError returns err, which is not nil, as an error of the contract.
func asError(op string, err error) *cloud.Error {
	return WithOp(op, err).(*cloud.Error) //nolint:errorlint,forcetypeassert // WithOp returns nothing else
}

// asNil returns e as an error that is nil if e is.
func asNil(e *cloud.Error) error {
	if e == nil {
		return nil
	}
	return e
}
