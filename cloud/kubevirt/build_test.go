package kubevirt

import (
	"testing"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// TestBootVolume: Ignition before its version 2.24 does not look at a disk of NoCloud, and the machine would
// boot without its user data.
func TestBootVolume(t *testing.T) {
	t.Parallel()
	for userData, want := range map[string]string{
		"#cloud-config\n": "cloudInitNoCloud", `{"ignition":{"version":"3.4.0"}}`: "cloudInitConfigDrive",
	} {
		if v := (&spec{}).bootVolume(cloud.CreateRequest{UserData: []byte(userData)}); len(v[want]) == 0 {
			t.Errorf("%s: %v, want %s", userData, v, want)
		}
	}
}
