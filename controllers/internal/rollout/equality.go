package rollout

import (
	"slices"

	apiequality "k8s.io/apimachinery/pkg/api/equality"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// SameTemplate reports whether machines of the one template need not be replaced
// to be machines of the other. It compares labels without the hash, annotations
// and the rest of the metadata, class.name, class.apiGroup and providerID. It
// does not compare nodeTemplate, timeouts and limits, and class.kind: those are
// changed in place. Comparing more would roll every cluster that MCM ran
// (MCM deployment_util.go EqualIgnoreHash).
func SameTemplate(a, b *machinev1.MachineTemplateSpec) bool {
	if !sameLabels(a.Labels, b.Labels) ||
		a.Spec.ProviderID != b.Spec.ProviderID ||
		a.Spec.Class.Name != b.Spec.Class.Name ||
		a.Spec.Class.APIGroup != b.Spec.Class.APIGroup {
		return false
	}
	left, right := a.ObjectMeta, b.ObjectMeta
	left.Labels, right.Labels = nil, nil
	return apiequality.Semantic.DeepEqual(left, right)
}

// sameLabels compares labels without the hash; a missing one equals an empty one.
func sameLabels(a, b map[string]string) bool {
	for _, labels := range []map[string]string{a, b} {
		for key := range labels {
			if key != machinev1.TemplateHashLabel && a[key] != b[key] {
				return false
			}
		}
	}
	return true
}

// FindNewSet returns the set that has the template, the oldest if several have it;
// nil if none has. Sets that are being deleted do not count: they make no
// machines any more. The name of a set says nothing: the hash in it covers more
// than what is compared.
func FindNewSet(template *machinev1.MachineTemplateSpec, sets []*machinev1.MachineSet) *machinev1.MachineSet {
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
