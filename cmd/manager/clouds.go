package main

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/klog/v2"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/aws"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/openstack"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/vsphere"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/wrap"
	"github.com/capmcm/cluster-api-provider-mcm/fence"
)

// drivers is the one list of clouds. A new cloud is a folder, a line here, and its
// name in cloud/names.go.
func drivers() []cloud.Driver {
	return []cloud.Driver{
		aws.NewDriver(aws.Options{Ambient: true}),
		openstack.NewDriver(openstack.Options{Ambient: true}),
		sim.NewDriver(nil),
		vsphere.NewDriver(time.Now, nil),
	}
}

// newClouds returns the clouds. Calls of their accounts that change something
// pass the fence, are kept within the account's rates and measured on r, and
// errors are redacted. A shortage is remembered no longer than the wait after one.
func newClouds(r prometheus.Registerer, f *fence.Fence, o *options) (*cloud.Registry, error) {
	wraps, err := around(r, f, o)
	if err != nil {
		return nil, err
	}
	return cloud.NewRegistry(drivers(), time.Now, wraps...)
}

// around is what is put around every account, the first innermost: the fence is
// asked last, after waits for the account's rate.
func around(r prometheus.Registerer, f *fence.Fence, o *options) ([]cloud.Middleware, error) {
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
		SoldOut: wrap.SoldOut(exhausted),
		Rates:   rates,
		OnPanic: func(driver, op string, stack []byte) {
			klog.Background().Error(nil, "A driver panicked", "driver", driver, "operation", op, "stack", string(stack))
		},
	})
	return append([]cloud.Middleware{f.Account}, wraps...), nil
}
