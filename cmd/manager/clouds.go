package main

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/klog/v2"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/wrap"
)

// drivers is the one list of clouds. A new cloud is a folder and a line here.
func drivers() []cloud.Driver {
	return []cloud.Driver{
		sim.NewDriver(nil),
	}
}

// newClouds returns the clouds. Their accounts are measured on r, kept within
// their rates, and finish what they have begun.
func newClouds(r prometheus.Registerer) (*cloud.Registry, error) {
	wraps := wrap.StandardWith(r, wrap.Options{OnPanic: func(driver, op string, stack []byte) {
		klog.Background().Error(nil, "A driver panicked", "driver", driver, "operation", op, "stack", string(stack))
	}})
	return cloud.NewRegistry(drivers(), time.Now, append(wraps, finishing)...)
}
