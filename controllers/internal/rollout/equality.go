package rollout

import (
	"slices"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// SameTemplate reports whether machines of the one template need not be replaced to be
// machines of the other, see [machinev1.SameTemplate].
func SameTemplate(a, b *machinev1.MachineTemplateSpec) bool { return machinev1.SameTemplate(a, b) }

// Current returns the set that has the template, the oldest if several have it;
// nil if none has. Sets that are being deleted do not count: they make no
// machines any more. The name of a set says nothing: the hash in it covers more
// than what is compared.
func Current(template *machinev1.MachineTemplateSpec, sets []*machinev1.MachineSet) *machinev1.MachineSet {
	var found *machinev1.MachineSet
	for _, s := range sets {
		if !s.DeletionTimestamp.IsZero() || !SameTemplate(template, &s.Spec.Template) {
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
