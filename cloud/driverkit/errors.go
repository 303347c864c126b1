package driverkit

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// WithField adds to an error of code Invalid which field of the provider spec is wrong,
// and what to do about it: it returns a copy of e, which several callers may share. Other
// errors it returns as they are.
func WithField(e *cloud.Error, field, remedy string) *cloud.Error {
	if e.Code != cloud.Invalid {
		return e
	}
	message := strings.TrimRight(e.Err.Error(), ". ") + "; " + remedy
	mine := *e
	mine.Problems = []cloud.Problem{{Severity: cloud.BlocksCreate, Field: "providerSpec." + field, Message: message}}
	return &mine
}

// WithOp returns a copy of err, which several callers may share, as that of one
// operation. Nil stays nil; what is no *cloud.Error becomes one of code Unknown.
func WithOp(op string, err error) error {
	if err == nil {
		return nil
	}
	e, ok := err.(*cloud.Error) //nolint:errorlint // one inside another has an operation of its own
	if !ok {
		return cloud.Errorf(cloud.Unknown, op, "Unclassified", "%w", err)
	}
	mine := *e
	mine.Op = op
	return &mine
}

// Restrict returns an error of a call other than Create. Its code stays if it is Denied,
// Throttled, Unavailable or one of also, and becomes Unknown otherwise: no class is wrong
// and no stock exhausted because of a look or a deletion. It changes a copy of err, which
// several callers may share; nil stays nil.
func Restrict(err error, also ...cloud.Code) error {
	e, ok := errors.AsType[*cloud.Error](err)
	if !ok {
		return err
	}
	known := append([]cloud.Code{cloud.Denied, cloud.Throttled, cloud.Unavailable}, also...)
	if slices.Contains(known, e.Code) {
		return e
	}
	mine := *e
	mine.Code, mine.Problems, mine.Offering = cloud.Unknown, nil, nil
	return &mine
}

// Busy returns an error of a reboot, which becomes one of cloud.ReasonVMBusy if its reason is one
// of those by which the cloud refuses calls because of the VM's state. It changes a copy of err;
// nil stays nil.
func Busy(err error, reasons ...string) error {
	e, ok := errors.AsType[*cloud.Error](err)
	if !ok || e.Code != cloud.Unavailable || !slices.Contains(reasons, e.Reason) {
		return err
	}
	mine := *e
	mine.Reason = cloud.ReasonVMBusy
	return &mine
}

// NotSent returns the error of a call whose context ended before it was sent; nil if
// the context goes on.
func NotSent(ctx context.Context, op string) *cloud.Error {
	if ended := ctx.Err(); ended != nil {
		return cloud.Errorf(cloud.Unavailable, op, "NotSent", "request not sent: %w", ended)
	}
	return nil
}

// NoAnswer returns the error of a call that was sent and got no answer that can be read.
// The cloud may have carried it out, unless no connection was made; see Uncertain.
func NoAnswer(ctx context.Context, op string, err error) *cloud.Error {
	text, cause := "no answer from the cloud, or a broken one: %w", Innermost(err)
	if ended := ctx.Err(); ended != nil {
		text, cause = "no answer from the cloud: %w", ended
	}
	if mayHaveArrived(err) {
		cause = uncertain{cause}
	}
	return cloud.Errorf(cloud.Unavailable, op, "NoAnswer", text, cause)
}

// Innermost returns the innermost cause with a short text. The texts around it may quote
// whole requests, with what is secret in them.
func Innermost(err error) error {
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return errors.New(Brief(err.Error()))
		}
		err = next
	}
}

// Brief returns a text on one line, cut if it is long.
func Brief(text string) string {
	const most = 500
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + " …"
	}
	return text
}
