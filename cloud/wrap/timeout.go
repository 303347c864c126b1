package wrap

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// Timeouts are how long each call may take.
type Timeouts struct {
	Create, Get, Delete, Capacity, Tags, Reboot, BootData, Members time.Duration // 0 is a minute
	Console                                                        time.Duration // 0 is ten seconds: a deletion may wait
	List                                                           time.Duration // of all pages; 0 is five minutes
}

// errTimeout is the cause with which a context of ours ends.
var errTimeout = errors.New("no answer in time")

// Timeout ends every call after its time. Its error is then of code Unavailable
// and reason Timeout, with context.DeadlineExceeded in the chain. A caller that
// gives up earlier gets the driver's own error.
func Timeout(t Timeouts) cloud.Middleware {
	defaults := func(d *time.Duration, to time.Duration) {
		if *d <= 0 {
			*d = to
		}
	}
	for _, d := range []*time.Duration{
		&t.Create, &t.Get, &t.Delete, &t.Capacity, &t.Tags, &t.Reboot, &t.BootData, &t.Members,
	} {
		defaults(d, time.Minute)
	}
	defaults(&t.Console, 10*time.Second)
	defaults(&t.List, 5*time.Minute)
	return func(_ cloud.AccountInfo, next cloud.Account) cloud.Account {
		return timed{layer{next}, t}
	}
}

type timed struct {
	layer
	t Timeouts
}

// limit returns a context that ends after d, and what to do with the error of
// a call that got it.
func limit(ctx context.Context, op string, d time.Duration) (context.Context, context.CancelFunc, func(error) error) {
	inner, cancel := context.WithTimeoutCause(ctx, d, errTimeout)
	return inner, cancel, func(err error) error {
		if err == nil || !errors.Is(context.Cause(inner), errTimeout) {
			return err
		}
		if code := cloud.CodeOf(err); code != cloud.Unavailable && code != cloud.Unknown {
			return err // the cloud did answer
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			err = errors.Join(err, context.DeadlineExceeded)
		}
		return &cloud.Error{
			Code: cloud.Unavailable, Op: op, Reason: "Timeout",
			Err: fmt.Errorf("no answer within %v: %w", d, err),
		}
	}
}

func (a timed) Create(ctx context.Context, r cloud.CreateRequest) (cloud.VM, error) {
	ctx, cancel, said := limit(ctx, opCreate, a.t.Create)
	defer cancel()
	vm, err := a.Account.Create(ctx, r)
	return vm, said(err)
}

func (a timed) Get(ctx context.Context, r cloud.Ref) (cloud.VM, error) {
	ctx, cancel, said := limit(ctx, OpGet, a.t.Get)
	defer cancel()
	vm, err := a.Account.Get(ctx, r)
	return vm, said(err)
}

func (a timed) Delete(ctx context.Context, r cloud.Ref) (cloud.Deletion, error) {
	ctx, cancel, said := limit(ctx, opDelete, a.t.Delete)
	defer cancel()
	d, err := a.Account.Delete(ctx, r)
	return d, said(err)
}

func (a timed) Capacity(ctx context.Context, c cloud.Class) (cloud.Capacity, error) {
	ctx, cancel, said := limit(ctx, opCapacity, a.t.Capacity)
	defer cancel()
	capacity, err := a.Account.Capacity(ctx, c)
	return capacity, said(err)
}

func (a timed) Scope(ctx context.Context, c cloud.Class) (string, error) {
	ctx, cancel, said := limit(ctx, opScope, a.t.Get)
	defer cancel()
	scope, err := cloud.Scope(ctx, a.Account, c)
	return scope, said(err)
}

func (a timed) SetTags(ctx context.Context, r cloud.Ref, obsolete []string) error {
	ctx, cancel, said := limit(ctx, opTags, a.t.Tags)
	defer cancel()
	return said(cloud.SetTags(ctx, a.Account, r, obsolete))
}

func (a timed) RecordRetention(ctx context.Context, c cloud.Class, parts []cloud.Resource) error {
	ctx, cancel, said := limit(ctx, opRetention, a.t.List)
	defer cancel()
	return said(cloud.RecordRetention(ctx, a.Account, c, parts))
}

func (a timed) RemoveBootData(ctx context.Context, r cloud.Ref) error {
	ctx, cancel, said := limit(ctx, opBootData, a.t.BootData)
	defer cancel()
	return said(cloud.RemoveBootData(ctx, a.Account, r))
}

func (a timed) Reboot(ctx context.Context, r cloud.Ref) error {
	ctx, cancel, said := limit(ctx, opReboot, a.t.Reboot)
	defer cancel()
	return said(cloud.Reboot(ctx, a.Account, r))
}

func (a timed) Console(ctx context.Context, r cloud.Ref) (string, error) {
	ctx, cancel, said := limit(ctx, opConsole, a.t.Console)
	defer cancel()
	text, err := cloud.Console(ctx, a.Account, r)
	return text, said(err)
}

func (a timed) Register(ctx context.Context, r cloud.Ref, places []string) (cloud.Registration, error) {
	ctx, cancel, said := limit(ctx, opRegister, a.t.Members)
	defer cancel()
	done, err := cloud.Register(ctx, a.Account, r, places)
	return done, said(err)
}

func (a timed) Deregister(ctx context.Context, r cloud.Ref, places []string) (cloud.Registration, error) {
	ctx, cancel, said := limit(ctx, opDeregister, a.t.Members)
	defer cancel()
	done, err := cloud.Deregister(ctx, a.Account, r, places)
	return done, said(err)
}

func (a timed) List(ctx context.Context, c cloud.Class, kinds ...cloud.Kind) iter.Seq2[cloud.Resource, error] {
	return func(yield func(cloud.Resource, error) bool) {
		ctx, cancel, said := limit(ctx, opList, a.t.List)
		defer cancel()
		for r, err := range a.Account.List(ctx, c, kinds...) {
			if !yield(r, said(err)) {
				return
			}
		}
	}
}
