package cloud

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Code is what a controller can do about an error. There is one per reaction,
// not one per cause; a new Code needs a new reaction in package outcome.
type Code uint8

// The codes.
const (
	Unknown     Code = iota // not classified: retry with back-off
	NotFound                // this VM does not exist; never an image or a subnet
	Invalid                 // the class or machine is wrong: wait for a change
	Denied                  // credentials refused: retry slowly
	Exhausted               // no capacity or quota: retry slowly, tell the autoscaler
	Throttled               // too many calls: retry after RetryAfter
	Unavailable             // the cloud is failing or the answer was lost: retry with back-off
	TokenUsed               // the token was used with other parameters: look the VM up, then start a new attempt
)

// String is the name of the code.
func (c Code) String() string {
	switch c {
	case Unknown:
		return "Unknown"
	case NotFound:
		return "NotFound"
	case Invalid:
		return "Invalid"
	case Denied:
		return "Denied"
	case Exhausted:
		return "Exhausted"
	case Throttled:
		return "Throttled"
	case Unavailable:
		return "Unavailable"
	case TokenUsed:
		return "TokenUsed"
	}
	return "Code"
}

// Error is the only error type that an Account returns.
type Error struct {
	Code       Code
	Op         string        // what was tried, e.g. "run instance"
	Reason     string        // the cloud's own code or another stable word, CamelCase
	RetryAfter time.Duration // the cloud's own hint; 0 if it gave none
	Remembered bool          // the cloud was not asked: it gave this answer a moment ago
	Offering   *Offering     // what is exhausted; nil unless Code is Exhausted and it is known
	Problems   []Problem     // what is wrong; only with Invalid
	Err        error         // the cause, never nil; free of secrets
}

// Offering is something a cloud can run out of. Empty fields are unknown.
type Offering struct {
	Region, Zone, InstanceType, CapacityType string
}

// A Stocker is a Class.Spec of a cloud whose zones share what they can run out of.
type Stocker interface {
	// Stock names the stock of a zone, which is equal for zones that share one.
	Stock(zone string) string
}

// String is "<type> in <zone or region>".
func (o Offering) String() string {
	place := o.Zone
	if place == "" {
		place = o.Region
	}
	return strings.TrimSpace(o.InstanceType + " in " + place)
}

// Error is "<op>: <cause>". Nothing may parse it.
func (e *Error) Error() string { return e.Op + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// CodeOf returns the code of the first *Error in err's chain, else Unknown.
func CodeOf(err error) Code {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return Unknown
}

// OutcomeUnknown reports whether what a call that failed with err asked for may still happen: the
// cloud gave no answer, or none that tells. False for nil.
func OutcomeUnknown(err error) bool {
	code := CodeOf(err)
	return err != nil && (code == Unavailable || code == Unknown)
}

// Severity is which calls a problem rules out; of a pool of machines, which work.
type Severity uint8

// The severities.
const (
	Warning      Severity = iota // none: told to the user
	BlocksCreate                 // Create
	BlocksAll                    // all
)

// Problem is something wrong with a class, a Secret, a machine or a pool of machines.
type Problem struct {
	Severity Severity
	Field    string // path as the author wrote it, e.g. providerSpec.networkInterfaces[0].subnetID
	Message  string // what is wrong and what to do, without a full stop
}

// String is "<field>: <message>".
func (p Problem) String() string { return p.Field + ": " + p.Message }

// Worst returns the problems of at least that severity as an *Error of code
// Invalid, or nil if there are none.
func Worst(op string, problems []Problem, least Severity) error {
	var found []Problem
	var text []string
	for _, p := range problems {
		if p.Severity >= least {
			found = append(found, p)
			text = append(text, p.String())
		}
	}
	if len(found) == 0 {
		return nil
	}
	return &Error{Code: Invalid, Op: op, Reason: "InvalidSpec", Problems: found, Err: errors.New(strings.Join(text, "; "))}
}

// Errorf returns an *Error whose cause is formatted; %w keeps a cause.
func Errorf(code Code, op, reason, format string, args ...any) *Error {
	return &Error{Code: code, Op: op, Reason: reason, Err: fmt.Errorf(format, args...)}
}
