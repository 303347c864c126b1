package wrap

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// An Observer is told of each call when it begins. operation is as errors name it, e.g. "create VM";
// a call that is not about one VM has a Ref with the class alone. It returns the context of the call,
// and what is told of its end.
type Observer func(ctx context.Context, operation string, r cloud.Ref) (context.Context, func(Answer))

// Answer is how a call has ended.
type Answer struct {
	Err error // of a list all that it yielded
	// RetryAfter is the wait before the next call that the answer of one without error asks for; 0 if
	// there is to be none.
	RetryAfter time.Duration
	// Deletion is the answer of a deletion without error, else nil.
	Deletion *cloud.Deletion
}

// Observe has an observer of each account told of every call but Admit and Scope. It changes no
// answer. An observer is safe for concurrent use.
func Observe(of func(cloud.AccountInfo) Observer) cloud.Middleware {
	return func(info cloud.AccountInfo, next cloud.Account) cloud.Account { return observed{layer{next}, of(info)} }
}

type observed struct {
	layer
	begin Observer
}

func (a observed) Create(ctx context.Context, r cloud.CreateRequest) (cloud.VM, error) {
	ctx, end := a.begin(ctx, opCreate, r.Ref)
	vm, err := a.Account.Create(ctx, r)
	end(Answer{Err: err, RetryAfter: vm.RetryAfter})
	return vm, err
}

func (a observed) Get(ctx context.Context, r cloud.Ref) (cloud.VM, error) {
	ctx, end := a.begin(ctx, OpGet, r)
	vm, err := a.Account.Get(ctx, r)
	end(Answer{Err: err})
	return vm, err
}

func (a observed) Delete(ctx context.Context, r cloud.Ref) (cloud.Deletion, error) {
	ctx, end := a.begin(ctx, opDelete, r)
	d, err := a.Account.Delete(ctx, r)
	answer := Answer{Err: err, RetryAfter: d.RetryAfter}
	if err == nil {
		answer.Deletion = &d
	}
	end(answer)
	return d, err
}

func (a observed) Capacity(ctx context.Context, c cloud.Class) (cloud.Capacity, error) {
	ctx, end := a.begin(ctx, opCapacity, cloud.Ref{Class: c})
	capacity, err := a.Account.Capacity(ctx, c)
	end(Answer{Err: err})
	return capacity, err
}

func (a observed) SetTags(ctx context.Context, r cloud.Ref, obsolete []string) error {
	ctx, end := a.begin(ctx, opTags, r)
	err := cloud.SetTags(ctx, a.Account, r, obsolete)
	end(Answer{Err: err})
	return err
}

func (a observed) RecordRetention(ctx context.Context, c cloud.Class, parts []cloud.Resource) error {
	ctx, end := a.begin(ctx, opRetention, cloud.Ref{Class: c})
	err := cloud.RecordRetention(ctx, a.Account, c, parts)
	end(Answer{Err: err})
	return err
}

func (a observed) Reboot(ctx context.Context, r cloud.Ref) error {
	ctx, end := a.begin(ctx, opReboot, r)
	err := cloud.Reboot(ctx, a.Account, r)
	end(Answer{Err: err})
	return err
}

func (a observed) Console(ctx context.Context, r cloud.Ref) (string, error) {
	ctx, end := a.begin(ctx, opConsole, r)
	text, err := cloud.Console(ctx, a.Account, r)
	end(Answer{Err: err})
	return text, err
}

func (a observed) RemoveBootData(ctx context.Context, r cloud.Ref) error {
	ctx, end := a.begin(ctx, opBootData, r)
	err := cloud.RemoveBootData(ctx, a.Account, r)
	end(Answer{Err: err})
	return err
}

func (a observed) Register(ctx context.Context, r cloud.Ref, places []string) (cloud.Registration, error) {
	ctx, end := a.begin(ctx, opRegister, r)
	registered, err := cloud.Register(ctx, a.Account, r, places)
	end(Answer{Err: err, RetryAfter: registered.RetryAfter})
	return registered, err
}

func (a observed) Deregister(ctx context.Context, r cloud.Ref, places []string) (cloud.Registration, error) {
	ctx, end := a.begin(ctx, opDeregister, r)
	deregistered, err := cloud.Deregister(ctx, a.Account, r, places)
	end(Answer{Err: err, RetryAfter: deregistered.RetryAfter})
	return deregistered, err
}

func (a observed) List(ctx context.Context, c cloud.Class, kinds ...cloud.Kind) iter.Seq2[cloud.Resource, error] {
	return func(yield func(cloud.Resource, error) bool) {
		ctx, end := a.begin(ctx, opList, cloud.Ref{Class: c})
		var errs error
		defer func() { end(Answer{Err: errs}) }()
		for r, err := range a.Account.List(ctx, c, kinds...) {
			errs = errors.Join(errs, err)
			if !yield(r, err) {
				return
			}
		}
	}
}
