package rollout

import (
	"slices"

	apiequality "k8s.io/apimachinery/pkg/api/equality"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// SyncInPlace copies to spec what the template changes without new machines:
// node template, timeouts and limits, and class.kind.
func SyncInPlace(spec, template *machinev1.MachineSpec) {
	source := template.DeepCopy()
	spec.NodeTemplateSpec = source.NodeTemplateSpec
	spec.MachineConfiguration = source.MachineConfiguration
	spec.Class.Kind = source.Class.Kind
}

// InSync reports whether SyncInPlace would change nothing. Missing timeouts and
// limits equal empty ones.
func InSync(spec, template *machinev1.MachineSpec) bool {
	return spec.Class.Kind == template.Class.Kind &&
		apiequality.Semantic.DeepEqual(spec.NodeTemplateSpec, template.NodeTemplateSpec) &&
		apiequality.Semantic.DeepEqual(configuration(spec), configuration(template))
}

func configuration(spec *machinev1.MachineSpec) machinev1.MachineConfiguration {
	if spec.MachineConfiguration == nil {
		return machinev1.MachineConfiguration{}
	}
	return *spec.MachineConfiguration
}

// FindNewSet returns the MachineSet that has the template, the oldest if several
// have it; nil if none has. Sets that are being deleted do not count, because
// they create no machines. The template decides, not the name of the set: the
// hash in the name covers more fields than are compared.
func FindNewSet(template *machinev1.MachineTemplateSpec, sets []*machinev1.MachineSet) *machinev1.MachineSet {
	var found *machinev1.MachineSet
	for _, s := range sets {
		if !s.DeletionTimestamp.IsZero() || !machinev1.SameTemplate(template, &s.Spec.Template) {
			continue
		}
		if found == nil || ByAge(s, found) < 0 {
			found = s
		}
	}
	return found
}

// ByAge orders MachineSets by creation, then by name.
func ByAge(a, b *machinev1.MachineSet) int {
	return older(
		Set{Name: a.Name, Created: a.CreationTimestamp.Time},
		Set{Name: b.Name, Created: b.CreationTimestamp.Time})
}

// SortByAge orders sets, oldest first.
func SortByAge(sets []*machinev1.MachineSet) { slices.SortFunc(sets, ByAge) }
