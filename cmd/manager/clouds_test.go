package main

import (
	"testing"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// TestDriversAreKnown: a command that links no driver judges fleets by their names.
func TestDriversAreKnown(t *testing.T) {
	t.Parallel()
	for _, d := range drivers() {
		traits := d.Traits()
		for _, name := range append([]string{traits.Name}, traits.Aliases...) {
			if !cloud.HasDriver(name) {
				t.Errorf("there is a driver for %q, and package cloud does not know", name)
			}
		}
	}
	for _, name := range []string{"", "GCP"} {
		if cloud.HasDriver(name) {
			t.Errorf("package cloud knows a driver for %q, and there is none", name)
		}
	}
}
