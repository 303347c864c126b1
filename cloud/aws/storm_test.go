package aws_test

import (
	"cmp"
	"errors"
	"testing"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/aws"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/ec2test"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/wrap"
)

// TestStorm: EC2 throttles every other call; 200 machines come all the same, without a
// storm of calls in turn.
func TestStorm(t *testing.T) {
	t.Parallel()
	const n, each = 200, 20 * time.Millisecond
	w := newEnv(t)
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

// TestDocumentedRates: within the rates of its Traits, a manager is never throttled by
// an account that has EC2's default limits, and creates at nine tenths of them or more.
func TestDocumentedRates(t *testing.T) {
	t.Parallel()
	const n, each = 100, 50 * time.Millisecond
	w := newEnv(t)
	w.cloud.Change(func(s *ec2test.Settings) { s.Buckets = ec2test.DocumentedBuckets() })
	a, c := w.open(class("c", nil), credentials())
	about := cloud.AccountInfo{Driver: aws.NewDriver(w.options).Traits()}
	a = wrap.Budget(wrap.Rate{}, nil, wrap.Clock{Now: w.now.Now})(about, a)
	start, left, due := w.now.Now(), n, make([]time.Time, n)
	requests := make([]cloud.CreateRequest, n)
	for i := range n {
		requests[i] = w.request(c, i)
	}
	for ; left > 0 && w.now.Now().Sub(start) < time.Hour; w.now.Advance(each) {
		for i := range n {
			if requests[i].Token == "" || w.now.Now().Before(due[i]) {
				continue
			}
			vm, err := a.Create(t.Context(), requests[i])
			wait := vm.RetryAfter
			if e, failed := errors.AsType[*cloud.Error](err); failed {
				wait = e.RetryAfter
			}
			if requests[i].ProviderID = cmp.Or(vm.ProviderID, requests[i].ProviderID); err == nil && wait == 0 {
				requests[i].Token = "" // it runs
				left--
			}
			due[i] = w.now.Now().Add(wait)
		}
	}
	for _, call := range w.cloud.Calls() {
		if call.Code == "RequestLimitExceeded" {
			t.Fatalf("EC2 throttled a %s", call.Action)
		}
	}
	ideal := (n-5)/2*time.Second + settings().Boot
	if took := w.now.Now().Sub(start); left > 0 || float64(ideal) < 0.9*float64(took) {
		t.Errorf("%d of %d VMs do not run after %v, want all after %v", left, n, took, ideal)
	}
}
