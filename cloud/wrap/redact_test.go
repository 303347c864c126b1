package wrap_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/wrap"
)

const (
	secret = "p@ss/w0rd+of the=clöud?>"
	token  = "abcdef.0123456789abcdef"
	boot   = "#cloud-config\nwrite_files: [{content: \"token: " + token + "\"}]\n"
)

// failing returns an account whose Create fails with err.
func failing(err error, secrets ...string) cloud.Account {
	return wrap.Redact(nil)(info(secrets...), &account{
		create: func(context.Context, cloud.CreateRequest) (cloud.VM, error) { return cloud.VM{}, err },
	})
}

func TestRedactTexts(t *testing.T) {
	t.Parallel()
	b := []byte(secret)
	forms := map[string]string{
		"plain":           secret,
		"query":           url.QueryEscape(secret),
		"path":            url.PathEscape(secret),
		"base64":          base64.StdEncoding.EncodeToString(b),
		"raw base64":      base64.RawURLEncoding.EncodeToString(b),
		"base64 for URLs": base64.URLEncoding.EncodeToString(b),
		"quoted":          fmt.Sprintf("%q", secret),
		"user data":       boot,
		"encoded boot":    base64.StdEncoding.EncodeToString([]byte(boot)),
		"bootstrap token": token,
	}
	r := request("1")
	r.UserData = []byte(boot)
	for name, form := range forms {
		t.Run(name, func(t *testing.T) {
			given := &cloud.Error{
				Code: cloud.Invalid, Op: "run instance", Reason: "BadParameter",
				Problems: []cloud.Problem{{Field: "spec." + form, Message: "is " + form}},
				Err:      fmt.Errorf("cannot take %s: %w", form, context.Canceled),
			}
			_, err := failing(given, secret).Create(t.Context(), r)
			text := fmt.Sprintf("%v %+v %#v", err, err, errors.Unwrap(err))
			for _, p := range problems(err) {
				text += p.String()
			}
			if strings.Contains(text, form) || strings.Contains(text, token) {
				t.Errorf("shows the secret: %s", text)
			}
			if !strings.Contains(err.Error(), "cannot take") {
				t.Errorf("got %v, want the rest of the text", err)
			}
			e, _ := errors.AsType[*cloud.Error](err)
			if e.Code != cloud.Invalid || e.Reason != "BadParameter" || !errors.Is(err, context.Canceled) {
				t.Errorf("got %+v, want code, reason and chain as they were", e)
			}
			if !strings.Contains(given.Err.Error(), form) || given.Problems[0].Field != "spec."+form {
				t.Errorf("the driver's own error was changed: %v", given)
			}
		})
	}
}

func problems(err error) []cloud.Problem {
	e, _ := errors.AsType[*cloud.Error](err)
	return e.Problems
}

func TestRedactKeepsWhatIsClean(t *testing.T) {
	t.Parallel()
	cause := errors.New("no such image")
	_, err := failing(&cloud.Error{Code: cloud.Invalid, Op: "run", Reason: "NoImage", Err: cause},
		secret).Create(t.Context(), request("1"))
	if e, ok := errors.AsType[*cloud.Error](err); !ok || e.Err != cause { //nolint:errorlint // the very same
		t.Errorf("got %#v, want the cause itself", err)
	}
}

func TestRedactForms(t *testing.T) {
	t.Parallel()
	inner := &cloud.Error{
		Code: cloud.Exhausted, Op: "run", Reason: "Quota", Offering: &cloud.Offering{Zone: "z"},
		Err: errors.New("full"),
	}
	cases := map[string]struct {
		reason string
		err    error
		code   cloud.Code
		word   string
	}{
		"Plain": {"anything else is Unknown", errors.New("boom"), cloud.Unknown, "Unclassified"},
		"Context": {
			"also a context's error, which stays in the chain", fmt.Errorf("ask: %w", context.DeadlineExceeded),
			cloud.Unknown, "Unclassified",
		},
		"Wrapped": {"the code of a wrapped error counts", fmt.Errorf("outer: %w", inner), cloud.Exhausted, "Quota"},
		"No cause": {"an error without cause can be printed", &cloud.Error{
			Code: cloud.Denied, Op: "log in",
			Reason: "Denied",
		}, cloud.Denied, "Denied"},
		"No op": {"an error without operation gets one", &cloud.Error{
			Code: cloud.Denied, Reason: "Denied",
			Err: errors.New("no"),
		}, cloud.Denied, "Denied"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := failing(c.err).Create(t.Context(), request("1"))
			e, ok := err.(*cloud.Error) //nolint:errorlint // the type itself is asked for
			if !ok || e.Code != c.code || e.Reason != c.word || e.Op == "" || e.Error() == "" {
				t.Errorf("got %#v, want a *cloud.Error %v, %s; reason: %s", err, c.code, c.word, c.reason)
			}
			if errors.Is(c.err, context.DeadlineExceeded) && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v, which lost its chain; reason: %s", err, c.reason)
			}
		})
	}
}

func TestRedactVM(t *testing.T) {
	t.Parallel()
	a := wrap.Redact(nil)(info(secret), &account{get: func(context.Context, cloud.Ref) (cloud.VM, error) {
		return cloud.VM{Message: "build failed with " + secret}, nil
	}})
	vm, err := a.Get(t.Context(), cloud.Ref{})
	if err != nil || strings.Contains(vm.Message, secret) || !strings.Contains(vm.Message, "build failed") {
		t.Errorf("got %q, %v, want the message without the secret", vm.Message, err)
	}
}

func TestRedactPanics(t *testing.T) {
	t.Parallel()
	var reports []string
	report := func(driver, op string, stack []byte) {
		reports = append(reports, fmt.Sprintf("%s %s %t", driver, op, len(stack) > 0))
	}
	a := wrap.Redact(report)(info(secret), &account{
		create: func(context.Context, cloud.CreateRequest) (cloud.VM, error) { panic("nil map with " + secret) },
		list: func(yield func(cloud.Resource, error) bool) {
			if yield(cloud.Resource{ID: "1"}, nil) {
				panic("page 2")
			}
		},
	})
	_, err := a.Create(t.Context(), request("1"))
	if cloud.CodeOf(err) != cloud.Unknown || !strings.Contains(err.Error(), "panicked") ||
		strings.Contains(err.Error(), secret) {
		t.Errorf("create: got %v, want Unknown, a panic, no secret", err)
	}
	all, err := listAll(t.Context(), a, cloud.Class{})
	if len(all) != 1 || cloud.CodeOf(err) != cloud.Unknown {
		t.Errorf("list: got %v, %v, want one resource and then Unknown", all, err)
	}
	if len(reports) != 2 || reports[0] != "Fake create VM true" {
		t.Errorf("reports: %q", reports)
	}
	for range a.List(t.Context(), cloud.Class{}) {
		break // a loop that is left is none of the driver's panics
	}
	if len(reports) != 2 {
		t.Errorf("leaving a loop is reported as a panic: %q", reports)
	}
}

func TestRedactLetsTheCallersPanicPass(t *testing.T) {
	t.Parallel()
	a := wrap.Redact(nil)(info(), &account{list: func(yield func(cloud.Resource, error) bool) {
		yield(cloud.Resource{}, nil)
	}})
	defer func() {
		if p := recover(); p != "mine" {
			t.Errorf("recovered %v, want the caller's own panic", p)
		}
	}()
	for range a.List(t.Context(), cloud.Class{}) {
		panic("mine")
	}
}
