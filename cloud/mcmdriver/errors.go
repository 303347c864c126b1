package mcmdriver

import (
	"context"
	"errors"
	"strings"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// MCM's codes that decide what comes next.
const (
	codeNotFound      = "NotFound"
	codeUnimplemented = "Unimplemented"
	codeUninitialized = "Uninitialized"

	codeInvalidArgument = "InvalidArgument"
	codeOutOfRange      = "OutOfRange"
)

// statusOf returns the code and the message of MCM's error in err's chain; empty if there
// is none. MCM writes "machine codes error: code = [X] message = [Y]" and reads its
// codes from that text. Brackets in Y, which MCM trips over, and text around do not matter.
func statusOf(err error) (code, message string) {
	if err == nil {
		return "", ""
	}
	_, rest, ok := strings.Cut(err.Error(), "machine codes error: code = [")
	if !ok {
		return "", ""
	}
	code, rest, ok = strings.Cut(rest, "]")
	if !ok {
		return "", ""
	}
	if _, message, ok = strings.Cut(rest, "message = ["); ok {
		message = strings.TrimSuffix(message, "]")
	}
	return code, message
}

// codes are MCM's codes by what can be done about them. Others are Unknown: they are tried
// again with back-off.
var codes = map[string]cloud.Code{
	codeNotFound:        cloud.NotFound,
	codeInvalidArgument: cloud.Invalid,
	codeOutOfRange:      cloud.Invalid,
	"PermissionDenied":  cloud.Denied,
	"Unauthenticated":   cloud.Denied,
	"ResourceExhausted": cloud.Exhausted,
	"Unavailable":       cloud.Unavailable,
	"Aborted":           cloud.Unavailable,
	"DeadlineExceeded":  cloud.Unavailable,
	"Canceled":          cloud.Unavailable,
}

// isRefusal reports whether err is the answer of a cloud that did not carry out a request for a VM. The other
// codes, and errors without one, leave open whether it did.
func isRefusal(err error) bool {
	status, _ := statusOf(err)
	code := codes[status]
	return code == cloud.Invalid || code == cloud.Denied || code == cloud.Exhausted
}

// isUnreadable reports whether err is about a class that the driver cannot decode, or does not accept: it has
// called no cloud then. Drivers report what they cannot decode with any code.
func isUnreadable(err error) bool {
	code, message := statusOf(err)
	return code == codeInvalidArgument || code == codeOutOfRange || strings.Contains(message, "json: cannot unmarshal")
}

// failedCreate returns the error of a request that makes something as one of package cloud;
// nil stays nil. NotFound is an image or a network there, which may still come.
func failedCreate(op string, c cloud.Class, err error) error {
	return classified(op, err, func(e *cloud.Error) {
		if e.Code == cloud.NotFound {
			e.Code = cloud.Unknown
		}
		if e.Code == cloud.Exhausted && c.InstanceType != "" {
			e.Offering = &cloud.Offering{Region: c.Region, Zone: c.Zone, InstanceType: c.InstanceType}
		}
	})
}

// failed is failedCreate for all other requests. Nothing that they are given can be
// wrong or too much: that is tried again.
func failed(op string, err error) error {
	return classified(op, err, func(e *cloud.Error) {
		if e.Code != cloud.Denied && e.Code != cloud.Unavailable {
			e.Code = cloud.Unknown
		}
	})
}

// classified returns err as an error of package cloud that adjust has been applied to. One that
// is of package cloud already stays as it is.
func classified(op string, err error, adjust func(e *cloud.Error)) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*cloud.Error](err); ok {
		return e
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return cloud.Errorf(cloud.Unavailable, op, "NoAnswer", "%w", err)
	}
	code, message := statusOf(err)
	if code == "" {
		return cloud.Errorf(cloud.Unknown, op, "Unknown", "%w", err)
	}
	if message == "" {
		message = "the driver gives no reason"
	}
	e := &cloud.Error{Code: codes[code], Op: op, Reason: code, Err: statusError{message, err}}
	adjust(e)
	return e
}

// statusError is the message of an error of MCM's, which it keeps.
type statusError struct {
	message string
	cause   error
}

func (e statusError) Error() string { return e.message }

func (e statusError) Unwrap() error { return e.cause }
