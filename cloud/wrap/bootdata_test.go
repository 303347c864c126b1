package wrap_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/wrap"
)

// keeper is an account that keeps boot data.
type keeper struct {
	*account
	calls int
	limit bool // its context ends
	err   error
}

func (k *keeper) RemoveBootData(ctx context.Context, _ cloud.Ref) error {
	k.calls++
	_, k.limit = ctx.Deadline()
	return k.err
}

// Every decorator has to pass the optional call on, each with what it adds.
func TestBootDataPassesAllDecorators(t *testing.T) {
	t.Parallel()
	clk := newClock()
	k := &keeper{account: &account{}}
	about := info("very-secret-key")
	var a cloud.Account = k
	for _, decorate := range wrap.StandardWith(prometheus.NewRegistry(), wrap.Options{
		Now: clk.Now, Rand: never, Rate: wrap.Rate{PerSecond: 1, Burst: 2},
	}) {
		a = decorate(about, a)
	}
	if err := cloud.RemoveBootData(t.Context(), a, cloud.Ref{}); err != nil || k.calls != 1 || !k.limit {
		t.Errorf("got %v, %d calls, limited %v, want one call that ends in time", err, k.calls, k.limit)
	}
	k.err = cloud.Errorf(cloud.Denied, "remove", "AccessDenied", "very-secret-key is refused")
	err := cloud.RemoveBootData(t.Context(), a, cloud.Ref{})
	if cloud.CodeOf(err) != cloud.Denied || strings.Contains(err.Error(), "very-secret-key") {
		t.Errorf("got %v, want Denied without the secret", err)
	}
	k.err = nil
	for range 5 {
		err = cloud.RemoveBootData(t.Context(), a, cloud.Ref{})
	}
	if cloud.CodeOf(err) != cloud.Throttled || k.calls > 3 {
		t.Errorf("got %v after %d calls, want the account's budget to count", err, k.calls)
	}
	clk.pass(time.Minute)
	if err := cloud.RemoveBootData(t.Context(), a, cloud.Ref{}); err != nil {
		t.Error(err)
	}
	if err := cloud.RemoveBootData(t.Context(), &account{}, cloud.Ref{}); err != nil {
		t.Errorf("an account that keeps no boot data has none to remove: %v", err)
	}
}
