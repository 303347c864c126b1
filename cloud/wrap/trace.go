package wrap

import (
	"context"
	"errors"
	"strings"
	"sync"

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

// Trace makes a span of each call but those that read consoles. It belongs around Redact, whose
// reasons are free of secrets.
func Trace(start StartSpan) cloud.Middleware {
	attempts := &attempts{made: map[attempt]int{}}
	return Observe(func(info cloud.AccountInfo) Observer {
		provider := strings.ToLower(info.Driver.Name)
		return func(ctx context.Context, operation string, r cloud.Ref) (context.Context, func(Answer)) {
			if operation == opConsole {
				return ctx, func(Answer) {}
			}
			ctx, span := start(ctx, r.OwnerID, operation)
			s := spanned{span, attempts, attempt{r.OwnerID, operation}}
			known := []attribute.KeyValue{
				attrProvider.String(provider), attrOperation.String(operation), attrClass.String(r.Class.Name),
			}
			if r.OwnerID != "" {
				known = append(known, attrMachine.String(r.Name), attrOwner.String(r.OwnerID),
					attrAttempt.Int(attempts.next(s.which)))
			}
			span.SetAttributes(known...)
			return ctx, s.end
		}
	})
}

// spanned is a call whose span has begun.
type spanned struct {
	span     trace.Span
	attempts *attempts
	which    attempt
}

// end ends the span.
func (s spanned) end(a Answer) {
	code := codeDone
	reason, wait := "", a.RetryAfter
	if a.Err != nil {
		code = cloud.CodeOf(a.Err).String()
		if e, ok := errors.AsType[*cloud.Error](a.Err); ok {
			reason, wait = e.Reason, e.RetryAfter
			s.span.SetAttributes(attrReason.String(reason))
		}
	}
	s.span.SetAttributes(attrCode.String(code))
	if wait > 0 {
		s.span.SetAttributes(attrRetryAfter.Float64(wait.Seconds()))
	}
	// That there is no VM is an answer.
	if a.Err != nil && cloud.CodeOf(a.Err) != cloud.NotFound {
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
	for _, operation := range []string{opCreate, OpGet, opTags, opReboot, opBootData, opRegister, opDeregister} {
		delete(a.made, attempt{which.ownerID, operation})
	}
}
