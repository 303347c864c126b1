package userdata

import (
	"fmt"

	"github.com/capmcm/cluster-api-provider-mcm/bootstrap/userdata/cloudconfig"
	"github.com/capmcm/cluster-api-provider-mcm/bootstrap/userdata/ignition"
)

// Version is that of the newest output. One that a spec names stays available, so that an update of
// this project replaces no machine.
const Version = "v1"

var versions = []string{Version}

// The formats.
const (
	CloudConfig = "cloud-config"
	Ignition    = "ignition"
)

// Output is the user data of a MachineClass.
type Output struct {
	Format           string
	GeneratorVersion string
	Data             []byte
}

// Format is the one that the operating system reads.
func (m *MachineUserData) Format() string {
	if m.Spec.OperatingSystem.Name == flatcar {
		return Ignition
	}
	return CloudConfig
}

// Generate returns the boot data of a spec that Decode has returned.
func Generate(m *MachineUserData) (*Output, error) {
	plan, err := m.Spec.plan()
	if err != nil {
		return nil, fmt.Errorf("make boot data: %w; read the spec with Decode first", err)
	}
	if m.masked {
		plan.Comments = append(plan.Comments, "Secrets are left out: this is for reading, and no machine works with it.")
	}
	render := cloudconfig.Render
	if m.Format() == Ignition {
		render = ignition.Render
	}
	data, err := render(plan)
	if err != nil {
		return nil, err
	}
	return &Output{Format: m.Format(), GeneratorVersion: m.Spec.GeneratorVersion, Data: data}, nil
}
