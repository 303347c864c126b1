package vsphere

import (
	"context"
	"strings"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// Scope is the vCenter, by the id that it keeps for ever and that its sessions tell without a further call.
// UUIDs of VMs are looked for in all of it.
func (a *account) Scope(context.Context, cloud.Class) (string, error) {
	id := a.v.ServiceContent.About.InstanceUuid
	if id == "" {
		return "", cloud.Errorf(cloud.Unavailable, "name the vCenter", "NoInstanceUUID", "the vCenter has no instance UUID")
	}
	return "vCenter " + strings.ToLower(id), nil
}
