package manager

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/klog/v2"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/wrap"
	"github.com/capmcm/cluster-api-provider-mcm/internal/fence"
	"github.com/capmcm/cluster-api-provider-mcm/internal/logging"
)

// newClouds returns the clouds of these drivers. Calls of their accounts that change something
// pass the fence, are kept within the account's rates and measured on r, and
// errors are redacted. A shortage is remembered no longer than the wait after one.
func newClouds(drivers []cloud.Driver, r prometheus.Registerer, f *fence.Fence, o *Options) (*cloud.Registry, error) {
	wraps, err := around(r, f, o)
	if err != nil {
		return nil, err
	}
	return cloud.NewRegistry(drivers, time.Now, wraps...)
}

// namesOf are the names that MachineClasses may give these drivers.
func namesOf(drivers []cloud.Driver) []string {
	var names []string
	for _, d := range drivers {
		t := d.Traits()
		names = append(append(names, t.Name), t.Aliases...)
	}
	return names
}

// around is what is put around every account, the first innermost: the fence is
// asked last, after waits for the account's rate, and failures are logged redacted.
func around(r prometheus.Registerer, f *fence.Fence, o *Options) ([]cloud.Middleware, error) {
	const usual = time.Minute
	rates, err := wrap.ParseRates(o.cloudRates)
	if err != nil {
		return nil, err
	}
	exhausted := o.machines.resourceExhaustedRetry
	if exhausted <= 0 || exhausted > usual {
		exhausted = usual
	}
	wraps := wrap.StandardWith(r, wrap.Options{
		Spans:   o.spans(),
		SoldOut: wrap.SoldOut(exhausted),
		Rates:   rates,
		OnPanic: func(driver, op string, stack []byte) {
			klog.Background().Error(nil, "A driver panicked", "driver", driver, "operation", op, "stack", string(stack))
		},
	})
	return append(append([]cloud.Middleware{f.Account}, wraps...), logging.Account), nil
}

// spans is what makes the spans of calls to clouds; nil if nothing is traced.
func (o *Options) spans() wrap.StartSpan {
	if o.tracer == nil {
		return nil
	}
	return o.tracer.Call
}
