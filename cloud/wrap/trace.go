package wrap

import (
	"context"
	"errors"
	"iter"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// StartSpan begins the span of a call in the trace of the machine with that owner ID; one without
// gets a trace of its own. operation is as errors name it, e.g. "create VM". The context has the
// span, for what the call itself sends.
type StartSpan func(ctx context.Context, ownerID, operation string) (context.Context, trace.Span)

// The keys of a span's attributes. Nothing else is in it: no text of an error, and nothing that a
// class or a Secret has but the name of the class.
const (
	attrProvider   = attribute.Key("cloud.provider")
	attrOperation  = attribute.Key("mcm.cloud.operation")
	attrAttempt    = attribute.Key("mcm.cloud.attempt") // of calls in a row that were not the last one needed
	attrCode       = attribute.Key("mcm.cloud.code")
	attrReason     = attribute.Key("mcm.cloud.reason")
	attrRetryAfter = attribute.Key("mcm.cloud.retry_after_seconds")
	attrMachine    = attribute.Key("mcm.machine.name")
	attrOwner      = attribute.Key("mcm.machine.owner_id")
	attrClass      = attribute.Key("mcm.machine.class")
)

// codeDone is the code of a call without error.
const codeDone = "OK"

// Trace makes a span of each call. It belongs around Redact, whose reasons are free of secrets.
func Trace(start StartSpan) cloud.Middleware {
	attempts := &attempts{made: map[attempt]int{}}
	return func(info cloud.AccountInfo, next cloud.Account) cloud.Account {
		return traced{layer{next}, start, strings.ToLower(info.Driver.Name), attempts}
	}
}

type traced struct {
	layer
	start    StartSpan
	provider string
	attempts *attempts
}

// spanned is a call whose span has begun.
type spanned struct {
	span     trace.Span
	attempts *attempts
	which    attempt
}

// begin begins the span of a call.
func (a traced) begin(ctx context.Context, operation string, r cloud.Ref) (context.Context, spanned) {
	ctx, span := a.start(ctx, r.OwnerID, operation)
	s := spanned{span, a.attempts, attempt{r.OwnerID, operation}}
	known := []attribute.KeyValue{
		attrProvider.String(a.provider), attrOperation.String(operation), attrClass.String(r.Class.Name),
	}
	if r.OwnerID != "" {
		known = append(known, attrMachine.String(r.Name), attrOwner.String(r.OwnerID),
			attrAttempt.Int(a.attempts.next(s.which)))
	}
	span.SetAttributes(known...)
	return ctx, s
}

// end ends the span; wait is what the answer of a call without error asks for before the next one,
// 0 if there is to be none.
func (s spanned) end(err error, wait time.Duration) {
	code, reason := codeDone, ""
	if err != nil {
		code = cloud.CodeOf(err).String()
		if e, ok := errors.AsType[*cloud.Error](err); ok {
			reason, wait = e.Reason, e.RetryAfter
			s.span.SetAttributes(attrReason.String(reason))
		}
	}
	s.span.SetAttributes(attrCode.String(code))
	if wait > 0 {
		s.span.SetAttributes(attrRetryAfter.Float64(wait.Seconds()))
	}
	// That there is no VM is an answer.
	if err != nil && cloud.CodeOf(err) != cloud.NotFound {
		s.span.SetStatus(codes.Error, strings.TrimSpace(code+" "+reason))
	} else if wait == 0 {
		s.attempts.done(s.which)
	}
	s.span.End()
}

// attempt is what is tried again: an operation on the VM of a machine.
type attempt struct{ ownerID, operation string }

// attempts count calls until one needs no other. This process counts its own.
type attempts struct {
	mu   sync.Mutex
	made map[attempt]int
}

// next counts a call and returns its number, from 1.
func (a *attempts) next(which attempt) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.made[which]++
	return a.made[which]
}

// done forgets the calls of an operation, and after a deletion all of that machine.
func (a *attempts) done(which attempt) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.made, which)
	if which.operation != opDelete {
		return
	}
	for _, operation := range []string{opCreate, opGet, opTags, opReboot, opBootData, opRegister, opDeregister} {
		delete(a.made, attempt{which.ownerID, operation})
	}
}

func (a traced) Create(ctx context.Context, r cloud.CreateRequest) (cloud.VM, error) {
	ctx, call := a.begin(ctx, opCreate, r.Ref)
	vm, err := a.Account.Create(ctx, r)
	call.end(err, vm.RetryAfter)
	return vm, err
}

func (a traced) Get(ctx context.Context, r cloud.Ref) (cloud.VM, error) {
	ctx, call := a.begin(ctx, opGet, r)
	vm, err := a.Account.Get(ctx, r)
	call.end(err, 0)
	return vm, err
}

func (a traced) Delete(ctx context.Context, r cloud.Ref) (cloud.Deletion, error) {
	ctx, call := a.begin(ctx, opDelete, r)
	d, err := a.Account.Delete(ctx, r)
	call.end(err, d.RetryAfter)
	return d, err
}

func (a traced) Capacity(ctx context.Context, c cloud.Class) (cloud.Capacity, error) {
	ctx, call := a.begin(ctx, opCapacity, cloud.Ref{Class: c})
	capacity, err := a.Account.Capacity(ctx, c)
	call.end(err, 0)
	return capacity, err
}

func (a traced) SetTags(ctx context.Context, r cloud.Ref, obsolete []string) error {
	ctx, call := a.begin(ctx, opTags, r)
	err := cloud.SetTags(ctx, a.Account, r, obsolete)
	call.end(err, 0)
	return err
}

func (a traced) RecordRetention(ctx context.Context, c cloud.Class, parts []cloud.Resource) error {
	ctx, call := a.begin(ctx, opRetention, cloud.Ref{Class: c})
	err := cloud.RecordRetention(ctx, a.Account, c, parts)
	call.end(err, 0)
	return err
}

func (a traced) Reboot(ctx context.Context, r cloud.Ref) error {
	ctx, call := a.begin(ctx, opReboot, r)
	err := cloud.Reboot(ctx, a.Account, r)
	call.end(err, 0)
	return err
}

func (a traced) RemoveBootData(ctx context.Context, r cloud.Ref) error {
	ctx, call := a.begin(ctx, opBootData, r)
	err := cloud.RemoveBootData(ctx, a.Account, r)
	call.end(err, 0)
	return err
}

func (a traced) Register(ctx context.Context, r cloud.Ref, places []string) (cloud.Registration, error) {
	ctx, call := a.begin(ctx, opRegister, r)
	registered, err := cloud.Register(ctx, a.Account, r, places)
	call.end(err, registered.RetryAfter)
	return registered, err
}

func (a traced) Deregister(ctx context.Context, r cloud.Ref, places []string) (cloud.Registration, error) {
	ctx, call := a.begin(ctx, opDeregister, r)
	deregistered, err := cloud.Deregister(ctx, a.Account, r, places)
	call.end(err, deregistered.RetryAfter)
	return deregistered, err
}

func (a traced) List(ctx context.Context, c cloud.Class, kinds ...cloud.Kind) iter.Seq2[cloud.Resource, error] {
	return func(yield func(cloud.Resource, error) bool) {
		ctx, call := a.begin(ctx, opList, cloud.Ref{Class: c})
		var errs error
		defer func() { call.end(errs, 0) }()
		for r, err := range a.Account.List(ctx, c, kinds...) {
			errs = errors.Join(errs, err)
			if !yield(r, err) {
				return
			}
		}
	}
}
