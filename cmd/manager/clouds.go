package main

import (
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
)

// drivers is the one list of clouds. A new cloud is a folder and a line here.
func drivers() []cloud.Driver {
	return []cloud.Driver{
		sim.NewDriver(nil),
	}
}

// newClouds returns the clouds, each account wrapped by these, the first of
// them innermost.
func newClouds(wraps ...cloud.Middleware) (*cloud.Registry, error) {
	return cloud.NewRegistry(drivers(), time.Now, wraps...)
}
