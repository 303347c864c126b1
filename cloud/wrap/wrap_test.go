package wrap_test

import (
	"context"
	"io"
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
