package sim

import "github.com/capmcm/cluster-api-provider-mcm/cloud"

// Interruptible reports whether VMs of c are spot VMs, which the cloud may reclaim.
func (d *Driver) Interruptible(c cloud.Class) bool {
	s, ok := c.Spec.(*spec)
	return ok && s.Spot
}
