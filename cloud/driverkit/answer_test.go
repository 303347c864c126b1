package driverkit_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

var table = driverkit.Table{
	{Codes: []string{"Stock", "SoldOut*"}, Means: cloud.Exhausted, Scope: driverkit.ScopeZone},
	{
		Texts: []string{"over quota", "quota exceeded"}, Means: cloud.Exhausted, Reason: "OverQuota",
		Scope: driverkit.ScopeRegion,
	},
	{Status: http.StatusForbidden, Codes: []string{"rate_limit"}, Means: cloud.Throttled},
	{Codes: []string{"BadImage"}, Means: cloud.Invalid, Field: "image", Remedy: "name another"},
	{Status: http.StatusNotFound, Means: cloud.NotFound},
}

func TestTable(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer driverkit.Answer
		want   cloud.Error
		text   string
	}{
		"Code": {
			driverkit.Answer{Code: "Stock", Message: "none  left\n"},
			cloud.Error{Code: cloud.Exhausted, Reason: "Stock"},
			"op: Stock: none left",
		},
		"Beginning": {
			driverkit.Answer{Code: "SoldOutHere"},
			cloud.Error{Code: cloud.Exhausted, Reason: "SoldOutHere"},
			"op: the cloud answered SoldOutHere",
		},
		"TextAndReason": {
			driverkit.Answer{Status: 403, Code: "forbidden", Message: "Quota exceeded for cores"},
			cloud.Error{Code: cloud.Exhausted, Reason: "OverQuota"},
			"op: forbidden: Quota exceeded for cores",
		},
		"AllOfARow": {
			driverkit.Answer{Status: 403, Code: "rate_limit", RetryAfter: time.Minute},
			cloud.Error{Code: cloud.Throttled, Reason: "RateLimit", RetryAfter: time.Minute},
			"op: the cloud answered rate_limit",
		},
		"Status": {
			driverkit.Answer{Status: 503}, cloud.Error{Code: cloud.Unavailable, Reason: "HTTP503"}, "without an error code",
		},
		"Unknown": {
			driverkit.Answer{Status: 418, Code: "teapot", Message: "short", RequestID: "r-1"},
			cloud.Error{Code: cloud.Unknown, Reason: "Teapot"},
			"op: teapot: short (request r-1)",
		},
		"KnownHasNoRequestID": {
			driverkit.Answer{Status: 404, Code: "x", Message: "gone", RequestID: "r-1"},
			cloud.Error{Code: cloud.NotFound, Reason: "X"},
			"op: x: gone",
		},
		"Field": {
			driverkit.Answer{Code: "BadImage", Message: "no such image."},
			cloud.Error{Code: cloud.Invalid, Reason: "BadImage", Problems: []cloud.Problem{{
				Severity: cloud.BlocksCreate, Field: "providerSpec.image", Message: "BadImage: no such image; name another",
			}}},
			"op: BadImage: no such image.",
		},
		"CodeInTheMessage": {
			driverkit.Answer{Code: "Stock", Message: "Stock: none left"},
			cloud.Error{Code: cloud.Exhausted, Reason: "Stock"},
			"op: Stock: none left",
		},
	} {
		got := table.Error("op", c.answer)
		if !strings.HasSuffix(got.Error(), c.text) {
			t.Errorf("%s: got %q, want %q", name, got.Error(), c.text)
		}
		if a, ok := driverkit.AnswerOf(got); !ok || a != c.answer {
			t.Errorf("%s: AnswerOf returns %v, %v", name, a, ok)
		}
		mine := *got
		mine.Op, mine.Err = "", nil
		if diff := cmp.Diff(c.want, mine, cmp.Comparer(func(x, y error) bool { return x == nil && y == nil })); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestScopes(t *testing.T) {
	t.Parallel()
	all := cloud.Offering{Region: "r", Zone: "z", InstanceType: "t"}
	if got := driverkit.ScopeNone.Of(all); got != nil {
		t.Errorf("none: got %v", got)
	}
	if got := driverkit.ScopeRegion.Of(all); *got != (cloud.Offering{Region: "r", InstanceType: "t"}) {
		t.Errorf("region: got %v", got)
	}
	err := table.Error("op", driverkit.Answer{Code: "Stock"})
	if got := driverkit.ScopeOf(err).Of(all); *got != all {
		t.Errorf("zone: got %v", got)
	}
	if got := driverkit.ScopeOf(errors.New("x")); got != driverkit.ScopeNone {
		t.Errorf("another error: got %v", got)
	}
}

func TestUncertainAnswers(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]bool{400: false, 404: false, 408: true, 409: false, 500: true, 503: true} {
		if got := driverkit.Uncertain(table.Error("op", driverkit.Answer{Status: status})); got != want {
			t.Errorf("%d: got %v, want %v", status, got, want)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"": 0, "7": 7 * time.Second, "-1": 0, "soon": 0,
		"Fri, 02 Jan 2026 03:05:05 GMT": time.Minute, "Fri, 02 Jan 2026 03:04:00 GMT": 0,
	} {
		if got := driverkit.RetryAfter(http.Header{"Retry-After": {text}}, now); got != want {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
}

func TestCamelCase(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]string{
		"itemNotFound": "ItemNotFound", "resource_limit_exceeded": "ResourceLimitExceeded", "Bad Request": "BadRequest",
		"InvalidAMIID.NotFound": "InvalidAMIID.NotFound", "": "", "_": "",
	} {
		if got := driverkit.CamelCase(code); got != want {
			t.Errorf("%q: got %q, want %q", code, got, want)
		}
	}
}
