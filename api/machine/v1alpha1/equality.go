package v1alpha1

import apiequality "k8s.io/apimachinery/pkg/api/equality"

// SameTemplate reports whether machines of the one template need not be replaced
// to be machines of the other. It compares labels without the hash, annotations
// and the rest of the metadata, class.name, class.apiGroup and providerID. It
// does not compare nodeTemplate, timeouts and limits, and class.kind: those are
// changed in place. Comparing more would roll every cluster that MCM ran
// (MCM deployment_util.go EqualIgnoreHash).
func SameTemplate(a, b *MachineTemplateSpec) bool {
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
			if key != TemplateHashLabel && a[key] != b[key] {
				return false
			}
		}
	}
	return true
}
