package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// OwnerID returns the durable ID of o that its cloud resources are tagged with: the
// value of OwnerIDAnnotation, or the UID of an object that does not have it.
func OwnerID(o metav1.Object) string {
	if id := o.GetAnnotations()[OwnerIDAnnotation]; id != "" {
		return id
	}
	return string(o.GetUID())
}

// Held reports whether o is being migrated to the other API, so that no controller
// acts on it or on what belongs to it.
func Held(o metav1.Object) bool {
	_, held := o.GetAnnotations()[MigrationHoldAnnotation]
	return held
}

// HoldAnswered reports whether o is held and its controller has answered this hold:
// all that it had begun is complete.
func HoldAnswered(o metav1.Object) bool {
	value, held := o.GetAnnotations()[MigrationHoldAnnotation]
	answer, answered := o.GetAnnotations()[MigrationHeldAnnotation]
	return held && answered && answer == value
}

// DropHold removes hold and answer from o, in memory, and reports whether there was
// anything to remove. Both are removed with one write: otherwise a later hold of the
// same value would look answered.
func DropHold(o metav1.Object) bool {
	all := o.GetAnnotations()
	before := len(all)
	for _, key := range []string{MigrationHoldAnnotation, MigrationHeldAnnotation, MigrationHeldSinceAnnotation} {
		delete(all, key)
	}
	return len(all) != before
}
