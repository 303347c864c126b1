package wrap_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/wrap"
)

func TestStandardClosesTheAccount(t *testing.T) {
	t.Parallel()
	bare := &account{}
	var a cloud.Account = bare
	for _, w := range wrap.StandardWith(prometheus.NewRegistry(), wrap.Options{}) {
		a = w(info(), a)
		if _, ok := a.(io.Closer); !ok {
			t.Fatalf("%T hides the Closer below", a)
		}
	}
	if err := a.(io.Closer).Close(); err != nil || bare.closed != 1 {
		t.Errorf("close: %v, reached the account %d times, want once", err, bare.closed)
	}
}

func TestStandardOrder(t *testing.T) {
	t.Parallel()
	clk := newClock()
	reg := prometheus.NewRegistry()
	bare := &account{}
	var a cloud.Account = bare
	for _, w := range wrap.StandardWith(reg, wrap.Options{
		Now: clk.Now, Rand: never,
		Rate: wrap.Rate{PerSecond: 1, Burst: 1},
	}) {
		a = w(info(), a)
	}
	if _, err := a.Create(t.Context(), request("1")); err != nil {
		t.Fatalf("create: %v", err)
	}
	if _, err := a.Create(t.Context(), request("2")); cloud.CodeOf(err) != cloud.Throttled {
		t.Fatalf("create beyond the budget: got %v, want Throttled", err)
	}
	if got := metric(t, reg, "mcm_cloud_api_requests_total"); got != 1 {
		t.Errorf("requests measured: %v, want 1: a call that is refused here is none to the cloud", got)
	}
}

// TestStandardAdmits: an outer decorator must not hide what an inner one refuses.
func TestStandardAdmits(t *testing.T) {
	t.Parallel()
	clk := newClock()
	bare := &account{create: func(context.Context, cloud.CreateRequest) (cloud.VM, error) { return cloud.VM{}, full("") }}
	var a cloud.Account = bare
	for _, w := range wrap.Standard(wrap.Options{Now: clk.Now, Rand: never, Rate: wrap.Rate{PerSecond: 1, Burst: 1}}) {
		a = w(info(), a)
	}
	if err := cloud.Admit(t.Context(), a, request("1")); err != nil {
		t.Fatalf("the first creation is not admitted: %v", err)
	}
	if err := cloud.Admit(t.Context(), a, request("2")); cloud.CodeOf(err) != cloud.Throttled {
		t.Errorf("admitted beyond the rate: %v", err)
	}
	if _, err := a.Create(t.Context(), request("1")); cloud.CodeOf(err) != cloud.Exhausted {
		t.Fatalf("create: got %v, want what the cloud said", err)
	}
	if err := cloud.Admit(t.Context(), a, request("3")); cloud.CodeOf(err) != cloud.Exhausted {
		t.Errorf("admitted what is sold out: %v", err)
	}
	if bare.made("create") != 1 {
		t.Errorf("the cloud was asked %d times, want once: to admit makes no call", bare.made("create"))
	}
}

// TestStandardSetsTags: a change of tags has a rate and a time of its own, its errors are
// redacted, and it reaches the driver.
func TestStandardSetsTags(t *testing.T) {
	t.Parallel()
	now := newClock()
	fake := &account{tags: func(ctx context.Context, r cloud.Ref, obsolete []string) error {
		if _, limited := ctx.Deadline(); !limited || r.Name != "m" || !slices.Equal(obsolete, []string{"team"}) {
			t.Errorf("the driver gets %v and %v", r, obsolete)
		}
		return errors.New("refused with s3cret-value")
	}}
	var a cloud.Account = fake
	for _, around := range wrap.Standard(wrap.Options{
		Now: now.Now, Rand: never,
		Rates: map[string]cloud.Rates{"Fake": {Tags: cloud.Rate{PerSecond: 1, Burst: 2}}},
	}) {
		a = around(info("s3cret-value"), a)
	}
	set := func() error { return cloud.SetTags(t.Context(), a, cloud.Ref{Name: "m"}, []string{"team"}) }
	if err := set(); cloud.CodeOf(err) != cloud.Unknown || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("got %v, want an error of code Unknown without the secret", err)
	}
	if err := set(); cloud.CodeOf(err) != cloud.Throttled || fake.made("tags") != 1 {
		t.Errorf("got %v after %d calls, want the account's own limit", err, fake.made("tags"))
	}
	if _, err := a.Get(t.Context(), cloud.Ref{}); err != nil {
		t.Errorf("a change of tags that waits keeps lookups waiting: %v", err)
	}
}

// TestRetentionPassesThrough: a decorator that did not ask the account below would leave what outlives
// its VM without a record, and say nothing.
func TestRetentionPassesThrough(t *testing.T) {
	t.Parallel()
	fake := &account{}
	var a cloud.Account = fake
	for _, around := range wrap.Standard(wrap.Options{}) {
		a = around(info("s3cret-value"), a)
	}
	err := cloud.RecordRetention(t.Context(), a, cloud.Class{}, []cloud.Resource{{ID: "d-1"}})
	if cloud.CodeOf(err) != cloud.Unknown || strings.Contains(err.Error(), "s3cret") || fake.made("retention") != 1 {
		t.Errorf("got %v after %d calls, want one, and its error without the secret", err, fake.made("retention"))
	}
}

// plain is an account without tags that can change.
type plain struct{ cloud.Account }

func TestTagsOfAPlainAccount(t *testing.T) {
	t.Parallel()
	var a cloud.Account = plain{&account{}}
	for _, around := range wrap.Standard(wrap.Options{}) {
		a = around(info(), a)
	}
	err := cloud.SetTags(t.Context(), a, cloud.Ref{}, nil)
	e, ok := errors.AsType[*cloud.Error](err)
	if !ok || e.Code != cloud.Invalid || e.Reason != cloud.ReasonTagsUnsupported {
		t.Errorf("got %v, want Invalid, %s", err, cloud.ReasonTagsUnsupported)
	}
}

// TestMembersPassThrough: load balancers are reached through all decorators, which count both calls
// within one rate of their own, and keep secrets.
func TestMembersPassThrough(t *testing.T) {
	t.Parallel()
	now := newClock()
	fake := &account{members: errors.New("refused with s3cret-value")}
	var a cloud.Account = fake
	for _, around := range wrap.Standard(wrap.Options{
		Now: now.Now, Rand: never,
		Rates: map[string]cloud.Rates{"Fake": {Members: cloud.Rate{PerSecond: 1, Burst: 3}}},
	}) {
		a = around(info("s3cret-value"), a)
	}
	for name, call := range map[string]func() (cloud.Registration, error){
		"register":   func() (cloud.Registration, error) { return cloud.Register(t.Context(), a, cloud.Ref{}, nil) },
		"deregister": func() (cloud.Registration, error) { return cloud.Deregister(t.Context(), a, cloud.Ref{}, nil) },
	} {
		if _, err := call(); cloud.CodeOf(err) != cloud.Unknown || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: got %v, want an error of code Unknown without the secret", name, err)
		}
	}
	fake.members = nil
	_, err := cloud.Register(t.Context(), a, cloud.Ref{}, nil)
	if cloud.CodeOf(err) != cloud.Throttled || fake.made("register") != 1 || fake.made("deregister") != 1 {
		t.Errorf("got %v after %d and %d calls, want the account's own limit", err, fake.made("register"),
			fake.made("deregister"))
	}
	if _, err := a.Get(t.Context(), cloud.Ref{}); err != nil {
		t.Errorf("a registration that waits keeps lookups waiting: %v", err)
	}
}

// TestMembersOfAPlainAccount: a driver without load balancers says so.
func TestMembersOfAPlainAccount(t *testing.T) {
	t.Parallel()
	var a cloud.Account = plain{&account{}}
	for _, around := range wrap.Standard(wrap.Options{}) {
		a = around(info(), a)
	}
	_, err := cloud.Register(t.Context(), a, cloud.Ref{}, nil)
	_, err2 := cloud.Deregister(t.Context(), a, cloud.Ref{}, nil)
	for _, err := range []error{err, err2} {
		e, ok := errors.AsType[*cloud.Error](err)
		if !ok || e.Code != cloud.Invalid || e.Reason != cloud.ReasonLoadBalancersUnsupported {
			t.Errorf("got %v, want Invalid, %s", err, cloud.ReasonLoadBalancersUnsupported)
		}
	}
}
