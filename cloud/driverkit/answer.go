package driverkit

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// Answer is how a cloud refuses a call, or explains why a VM failed.
type Answer struct {
	Status     int           // of HTTP; 0 if there is none
	Code       string        // the cloud's own code; empty if it gave none
	Message    string        // the cloud's own text; free of secrets
	RetryAfter time.Duration // the cloud's hint; 0 if it gave none
	RequestID  string        // by which the cloud's support finds the call; empty if unknown
}

// Scope is what of an offering is exhausted.
type Scope uint8

// The scopes.
const (
	ScopeNone   Scope = iota // something that other types and zones need too, e.g. addresses
	ScopeRegion              // the type in the whole region, e.g. a quota
	ScopeZone                // the type in one zone
)

// Of returns the part of an offering that is exhausted; nil for ScopeNone.
func (s Scope) Of(all cloud.Offering) *cloud.Offering {
	switch s {
	case ScopeZone:
		return &all
	case ScopeRegion:
		all.Zone = ""
		return &all
	case ScopeNone:
	}
	return nil
}

// Row is what answers of one kind mean. It fits an answer that has its status, one of
// its codes and one of its texts; what is empty fits any.
type Row struct {
	Status int
	Codes  []string // a code that ends in a star stands for all that begin like it
	Texts  []string // parts of the message, in lower case

	Means  cloud.Code
	Reason string // in place of the cloud's code; empty keeps that
	Scope  Scope  // with cloud.Exhausted

	// Field and Remedy, with cloud.Invalid, are the field of the provider spec that is
	// wrong, as "disks[0].size", and what to do about it.
	Field, Remedy string
}

// Table is the errors of a cloud. The first row that fits an answer counts.
type Table []Row

// Row returns the row of an answer. Where none fits, its status alone decides.
func (t Table) Row(a Answer) Row {
	message := strings.ToLower(a.Message)
	for _, r := range t {
		if r.fits(a, message) {
			return r
		}
	}
	return Row{Means: StatusCode(a.Status)}
}

func (r Row) fits(a Answer, message string) bool {
	code := func(want string) bool {
		beginning, open := strings.CutSuffix(want, "*")
		return want == a.Code || open && strings.HasPrefix(a.Code, beginning)
	}
	text := func(want string) bool { return strings.Contains(message, want) }
	return (r.Status == 0 || r.Status == a.Status) &&
		(len(r.Codes) == 0 || slices.ContainsFunc(r.Codes, code)) &&
		(len(r.Texts) == 0 || slices.ContainsFunc(r.Texts, text))
}

// Error returns the error of a call that the cloud answered like this. Its cause is the
// cloud's code and message on one line, "<code>: <message>": who looks for a cause by the code, as
// Gardener does in what a machine shows, finds it. AnswerOf and ScopeOf find the rest in it.
//
// Only an error that the table does not know ends with the id of the request. The text
// of others is the same each time, because conditions and Events show it.
func (t Table) Error(op string, a Answer) *cloud.Error {
	row := t.Row(a)
	reason, text := cmp.Or(row.Reason, CamelCase(a.Code), fmt.Sprintf("HTTP%d", a.Status)), Brief(a.Message)
	switch {
	case text == "" && a.Code == "":
		text = fmt.Sprintf("the cloud answered HTTP status %d without an error code", a.Status)
	case text == "":
		text = "the cloud answered " + a.Code
	case !strings.Contains(text, a.Code):
		text = a.Code + ": " + text
	}
	if row.Means == cloud.Unknown && a.RequestID != "" {
		text += " (request " + a.RequestID + ")"
	}
	var cause error = answered{errors.New(text), a, row.Scope}
	if a.Status >= http.StatusInternalServerError || a.Status == http.StatusRequestTimeout {
		cause = uncertain{cause}
	}
	e := cloud.Errorf(row.Means, op, reason, "%w", cause)
	e.RetryAfter = a.RetryAfter
	if row.Field != "" {
		return WithField(e, row.Field, row.Remedy)
	}
	return e
}

// answered is a cause that an answer of the cloud explains.
type answered struct {
	error

	answer Answer
	scope  Scope
}

// AnswerOf returns the answer that err comes from; ok is false if there was none.
func AnswerOf(err error) (a Answer, ok bool) {
	cause, ok := errors.AsType[answered](err)
	return cause.answer, ok
}

// ScopeOf returns what is exhausted according to the answer that err comes from.
func ScopeOf(err error) Scope {
	cause, _ := errors.AsType[answered](err)
	return cause.scope
}

// StatusCode returns what an HTTP status means if the cloud gives no code that is known,
// e.g. because a proxy answers in its place.
func StatusCode(status int) cloud.Code {
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return cloud.Denied
	case status == http.StatusTooManyRequests:
		return cloud.Throttled
	case status >= http.StatusInternalServerError, status == http.StatusRequestTimeout:
		return cloud.Unavailable
	}
	return cloud.Unknown
}

// RetryAfter returns the hint in the header Retry-After: seconds, or the time until a
// date. It is 0 without a hint, or if that time is over.
func RetryAfter(h http.Header, now time.Time) time.Duration {
	text := h.Get("Retry-After")
	if seconds, err := strconv.Atoi(text); err == nil {
		return time.Duration(max(seconds, 0)) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(at.Sub(now), 0)
	}
	return 0
}

// CamelCase returns the letters and digits of a cloud's code, each word with a capital:
// "resource_limit_exceeded" becomes "ResourceLimitExceeded". A dot is kept.
func CamelCase(code string) string {
	var b strings.Builder
	begins := true
	for _, r := range code {
		switch {
		case r == '.':
			begins = true
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			begins = true
			continue
		case begins:
			r, begins = unicode.ToUpper(r), false
		}
		b.WriteRune(r)
	}
	return b.String()
}
