package capi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"sync"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/ops/migration"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/steps"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// errKilled is what a command gets for each request after its end.
var errKilled = errors.New("the command was killed")

// A run is one run of the command, which is killed after some of its writes: the
// last one is carried out, and its answer is lost.
type run struct {
	left int // writes until it is killed; negative: it is not

	mu     sync.Mutex
	dead   bool
	writes []string // what it has written
}

func (r *run) alive() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dead {
		return errKilled
	}
	return nil
}

func (r *run) write(what string, do func() error) error {
	if err := r.alive(); err != nil {
		return err
	}
	err := do()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writes = append(r.writes, what)
	if r.left--; r.left == 0 {
		r.dead = true
		return errKilled
	}
	return err
}

// client is what the command speaks through.
func (r *run) client(through client.WithWatch) client.Client {
	name := func(verb string, o client.Object) string { return verb + " " + kindOf(o) + " " + o.GetName() }
	return interceptor.NewClient(through, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object,
			opts ...client.GetOption,
		) error {
			return errors.Join(r.alive(), c.Get(ctx, key, o, opts...))
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			return errors.Join(r.alive(), c.List(ctx, list, opts...))
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return r.write(name("create", o), func() error { return c.Create(ctx, o, opts...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			return r.write(name("update", o), func() error { return c.Update(ctx, o, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch,
			opts ...client.PatchOption,
		) error {
			return r.write(name("patch", o), func() error { return c.Patch(ctx, o, p, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return r.write(name("delete", o), func() error { return c.Delete(ctx, o, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch,
			opts ...client.SubResourcePatchOption,
		) error {
			return r.write(name("patch "+sub+" of", o), func() error { return c.SubResource(sub).Patch(ctx, o, p, opts...) })
		},
	})
}

// engine is the command's, which looks more often than a person needs.
func (d *bothAPIs) engine(r *run, progress func(steps.Progress)) *steps.Engine {
	const look = 500 * time.Millisecond
	cl := r.client(d.api)
	return steps.New(steps.Deps{
		Control: cl, Target: cl, Clock: clock.RealClock{}, Progress: progress,
		Name: func() string { return string(uuid.NewUUID()) },
		Wait: func(ctx context.Context, _ time.Duration) error {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(look):
				return r.alive()
			}
		},
	})
}

// A leg is one command about a pool.
type leg func(context.Context, *steps.Engine, migration.Pool, migration.Options) error

func toClusterAPI(ctx context.Context, e *steps.Engine, p migration.Pool, o migration.Options) error {
	o.To = migration.ClusterAPI
	return e.Apply(ctx, p, o)
}

func toNative(ctx context.Context, e *steps.Engine, p migration.Pool, o migration.Options) error {
	o.To = migration.Native
	return e.Apply(ctx, p, o)
}

func rollBack(ctx context.Context, e *steps.Engine, p migration.Pool, o migration.Options) error {
	return e.Rollback(ctx, p, o)
}

func finishMove(ctx context.Context, e *steps.Engine, p migration.Pool, o migration.Options) error {
	return e.Finish(ctx, p, o)
}

// run runs a command once. It is killed after so many writes; a negative number
// lets it come to its end.
func (h *movingPool) run(ctx context.Context, l leg, o migration.Options, kill int) (*run, error) {
	r := &run{left: kill}
	return r, h.runAs(ctx, l, o, r)
}

func (h *movingPool) runAs(ctx context.Context, l leg, o migration.Options, r *run) error {
	o.TakeOver = true // the one before is gone for certain
	return l(ctx, h.engine(r, nil), h.Pool, o)
}

// insist runs a command again until it has come to its end, as somebody does whose
// API server or manager comes and goes.
func (h *movingPool) insist(ctx context.Context, l leg, o migration.Options) error {
	deadline := time.Now().Add(2 * wait)
	for {
		_, err := h.run(ctx, l, o, -1)
		if _, refused := errors.AsType[*steps.RefusedError](err); err == nil || refused || ctx.Err() != nil ||
			time.Now().After(deadline) {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second): // the API server may be away
		}
	}
}

// isAway reports whether an error is that the API server is not there, or has just come. A
// connection to one that is killed breaks in more ways than can be listed: each is a [url.Error].
func isAway(err error) bool {
	if _, broken := errors.AsType[*url.Error](err); broken {
		return !errors.Is(err, context.Canceled)
	}
	return err != nil && (apierrors.IsServiceUnavailable(err) || apierrors.IsTimeout(err) ||
		apierrors.IsInternalError(err) || apierrors.IsTooManyRequests(err) || errors.Is(err, io.ErrUnexpectedEOF) ||
		apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err))
}

// eventually asks now and then until a check passes.
func eventually(ctx context.Context, check func(context.Context) error) error {
	const look = 500 * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("after %s: %w", wait, err)
		case <-time.After(look):
		}
	}
}
