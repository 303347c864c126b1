package aws

import "github.com/capmcm/cluster-api-provider-mcm/cloud"

// Interruptible reports whether VMs of c are spot instances: those with a spotPrice,
// an empty one included, which means the price on demand.
func (d *Driver) Interruptible(c cloud.Class) bool {
	s, ok := c.Spec.(*spec)
	return ok && s.SpotPrice != nil
}
