package clouds

import (
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/aws"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/azure"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/gcp"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/hetzner"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/kubevirt"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/openstack"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/vsphere"
)

// Offline returns what Drivers returns, without the accounts: for programs that judge classes and
// Secrets and call no cloud. They are linked without the clouds' SDKs.
func Offline(o Options) []cloud.Driver {
	return []cloud.Driver{
		aws.Offline(aws.Options{Ambient: o.Ambient, TokenFolders: o.TokenFolders}),
		azure.Offline(azure.Options{Ambient: o.Ambient, TokenFolders: o.TokenFolders}),
		gcp.Offline(),
		hetzner.Offline(),
		kubevirt.Offline(),
		openstack.Offline(openstack.Options{Ambient: o.Ambient}),
		sim.Offline(),
		vsphere.Offline(),
	}
}
