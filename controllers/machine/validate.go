package machine

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// problems returns what is wrong with the spec of m: MCM's rules, which a
// Machine without VM must keep. Each names the field and the remedy. A Machine
// whose node joins a cluster carries the node's name, most often its own, as a
// label.
func problems(m *machinev1.Machine, joins bool) []string {
	var found []string
	if joins && !isLabelValue(m.Name) {
		found = append(found, fmt.Sprintf("metadata.name: %d characters, and label %s holds %d; delete the Machine and "+
			"make one with a shorter name",
			len(m.Name), machinev1.NodeLabel, validation.LabelValueMaxLength))
	}
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

func isLabelValue(name string) bool { return len(validation.IsValidLabelValue(name)) == 0 }
