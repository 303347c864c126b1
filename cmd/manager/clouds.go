package main

import (
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/aws"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/openstack"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/vsphere"
)

// drivers is the one list of clouds. A new cloud is a folder and a line here. With
// ambient, a Secret without credentials stands for those of this process.
func drivers(ambient bool) []cloud.Driver {
	return []cloud.Driver{
		aws.NewDriver(aws.Options{Ambient: ambient}),
		openstack.NewDriver(openstack.Options{Ambient: ambient}),
		sim.NewDriver(nil),
		vsphere.NewDriver(time.Now, nil),
	}
}
