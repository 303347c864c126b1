// Package clouds is the one list of the clouds that the programs of this project know.
package clouds

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

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

// Options are those of the drivers of this project's programs.
type Options struct {
	// Ambient lets a Secret without credentials stand for those of this process.
	Ambient bool
	// TokenFolders are more folders of which Secrets may name files with tokens, beside those of
	// driverkit.TokenFolders.
	TokenFolders []string
}

// Validate fails if an option can have no effect.
func (o Options) Validate() error {
	for _, folder := range o.TokenFolders {
		if !filepath.IsAbs(folder) {
			return fmt.Errorf("--token-folders: %q is no absolute path; write one, e.g. /var/run/secrets/tokens", folder)
		}
	}
	return nil
}

// Drivers returns the drivers. A new cloud is a folder and a line here.
func Drivers(o Options) []cloud.Driver {
	return []cloud.Driver{
		aws.NewDriver(aws.Options{Ambient: o.Ambient, TokenFolders: o.TokenFolders}),
		azure.NewDriver(azure.Options{
			Ambient: o.Ambient, TokenFolders: o.TokenFolders, Endpoint: os.Getenv(azure.EndpointVariable),
		}),
		gcp.NewDriver(gcp.Options{Now: time.Now}),
		hetzner.NewDriver(hetzner.Options{Endpoint: os.Getenv(hetzner.EndpointVariable)}),
		kubevirt.NewDriver(time.Now, nil),
		openstack.NewDriver(openstack.Options{Ambient: o.Ambient}),
		sim.NewDriver(nil),
		vsphere.NewDriver(time.Now, nil),
	}
}
