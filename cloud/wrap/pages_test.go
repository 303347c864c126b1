package wrap_test

import (
	"context"
	"iter"
	"testing"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/wrap"
)

// paged is an account whose listing has pages.
type paged struct {
	account
	list func(ctx context.Context) iter.Seq2[cloud.Resource, error]
}

func (p *paged) List(ctx context.Context, _ cloud.Class, _ ...cloud.Kind) iter.Seq2[cloud.Resource, error] {
	return p.list(ctx)
}

// TestBudgetChargesPages: a cloud counts each page of a listing as a call, and so does the budget: a listing
// that has begun is read to its end, and the next one waits until its pages have come in again.
func TestBudgetChargesPages(t *testing.T) {
	t.Parallel()
	const pages = 20
	clk := newClock()
	bare := &paged{list: func(ctx context.Context) iter.Seq2[cloud.Resource, error] {
		return driverkit.Pages(ctx, func(_ context.Context, token string) ([]cloud.Resource, string, error) {
			if len(token) < pages-1 {
				return []cloud.Resource{{}}, token + "x", nil
			}
			return []cloud.Resource{{}}, "", nil
		})
	}}
	of := info()
	of.Driver.Rates.List = cloud.Rate{PerSecond: 1, Burst: 11}
	a := wrap.Budget(wrap.Rate{}, nil, wrap.Clock{Now: clk.Now, Rand: never})(of, bare)
	list := func() (n int, err error) {
		for _, err := range a.List(t.Context(), cloud.Class{}) {
			if err != nil {
				return n, err
			}
			n++
		}
		return n, nil
	}
	if n, err := list(); n != pages || err != nil {
		t.Fatalf("the first listing: got %d pages, %v, want %d", n, err, pages)
	}
	if _, err := list(); cloud.CodeOf(err) != cloud.Throttled {
		t.Errorf("the next listing at once: got %v, want Throttled", err)
	}
	clk.pass(9 * time.Second)
	if _, err := list(); cloud.CodeOf(err) != cloud.Throttled {
		t.Errorf("the next listing before its pages have come in: got %v, want Throttled", err)
	}
	clk.pass(5 * time.Second)
	if n, err := list(); n != pages || err != nil {
		t.Errorf("the next listing after that: got %d pages, %v, want %d", n, err, pages)
	}
}
