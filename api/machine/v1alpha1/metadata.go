package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// SetAnnotation sets an annotation of o in memory. Objects of a cache must be copied first.
func SetAnnotation(o metav1.Object, key, value string) {
	o.SetAnnotations(withEntry(o.GetAnnotations(), key, value))
}

// SetOrRemoveAnnotation sets an annotation of o in memory; an empty value removes it.
func SetOrRemoveAnnotation(o metav1.Object, key, value string) {
	if value == "" {
		delete(o.GetAnnotations(), key)
		return
	}
	SetAnnotation(o, key, value)
}

// SetLabel sets a label of o in memory. Objects of a cache must be copied first.
func SetLabel(o metav1.Object, key, value string) {
	o.SetLabels(withEntry(o.GetLabels(), key, value))
}

func withEntry(all map[string]string, key, value string) map[string]string {
	if all == nil {
		all = map[string]string{}
	}
	all[key] = value
	return all
}
