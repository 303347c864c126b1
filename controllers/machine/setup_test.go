package machine

import (
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func TestRetriesStayFrequentThroughALongOutage(t *testing.T) {
	t.Parallel()
	r, wait := retries(), time.Duration(0)
	for range 100 {
		wait = r.When(reconcile.Request{})
	}
	if wait != longRetry {
		t.Errorf("the hundredth retry comes after %s, want %s: a machine must not sleep long after the cloud is back", wait,
			longRetry)
	}
}
