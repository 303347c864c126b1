package machine

import (
	"fmt"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// problems returns what is wrong with the spec of m: MCM's rules, which a
// Machine without VM must keep. Each names the field and the remedy.
func problems(m *machinev1.Machine) []string {
	var found []string
	switch m.Spec.Class.Kind {
	case machinev1.MachineClassKind:
	case "":
		found = append(found, "spec.class.kind: required, set it to MachineClass")
	default:
		found = append(found, fmt.Sprintf("spec.class.kind: %q is not supported, set it to MachineClass", m.Spec.Class.Kind))
	}
	if m.Spec.Class.Name == "" {
		found = append(found, "spec.class.name: required, name a MachineClass of this namespace")
	}
	return found
}
