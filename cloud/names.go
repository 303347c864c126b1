package cloud

import (
	"slices"
	"strings"
)

// providers are the names of all drivers, for those who link none of them. A test
// of cmd/manager holds them and the drivers together.
var providers = []string{"aws", "openstack", "sim", "vsphere"}

// HasDriver reports whether the manager has a driver for MachineClass.provider,
// however that is spelled.
func HasDriver(provider string) bool { return slices.Contains(providers, strings.ToLower(provider)) }
