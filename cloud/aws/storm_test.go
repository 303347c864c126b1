package aws_test

import (
	"errors"
	"testing"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/aws/ec2test"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/wrap"
)

// TestStorm: EC2 throttles every other call; 200 machines come all the same, and
// nobody storms EC2 in turn.
func TestStorm(t *testing.T) {
	t.Parallel()
	const n, each = 200, 20 * time.Millisecond
	w := newWorld(t)
	w.cloud.Inject(ec2test.Fault{Code: "RequestLimitExceeded", Message: "Request limit exceeded.", Status: 503, Every: 2})
	a, c := w.open(class("c", nil), credentials())
	a = wrap.Budget(wrap.Rate{}, nil, wrap.Clock{Now: w.now.Now})(cloud.AccountInfo{}, a)
	due := make([]time.Time, n) // zero is at once
	left := map[int]bool{}
	for i := range n {
		left[i] = true
	}
	perSecond, start := map[int]int{}, w.now.Now()
	for len(left) > 0 && w.now.Now().Sub(start) < time.Hour {
		for i := range n {
			if !left[i] || w.now.Now().Before(due[i]) {
				continue
			}
			before := len(w.cloud.Calls())
			_, err := a.Create(t.Context(), w.request(c, i))
			perSecond[int(w.now.Now().Sub(start).Seconds())] += len(w.cloud.Calls()) - before
			e, failed := errors.AsType[*cloud.Error](err)
			if !failed {
				delete(left, i)
				continue
			}
			if e.Code != cloud.Throttled || e.RetryAfter <= 0 {
				t.Fatalf("got %v, want Throttled and when to come back", err)
			}
			due[i] = w.now.Now().Add(e.RetryAfter)
		}
		w.now.Advance(each)
	}
	if len(left) > 0 {
		t.Errorf("after an hour %d machines have no VM", len(left))
	}
	for second, calls := range perSecond {
		if calls > 25 {
			t.Errorf("%d calls in second %d: a burst", calls, second)
		}
	}
	vms := 0
	for _, r := range w.cloud.Ledger() {
		if r.Kind == ec2test.KindInstance {
			vms++
		}
	}
	if vms != n {
		t.Errorf("%d VMs for %d machines", vms, n)
	}
	t.Logf("%d calls in %v", len(w.cloud.Calls()), w.now.Now().Sub(start))
}
