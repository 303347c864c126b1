package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// OwnerID is the durable id of o that its cloud resources are tagged with: what
// the annotation says, and the UID of an object without it.
func OwnerID(o metav1.Object) string {
	if id := o.GetAnnotations()[OwnerIDAnnotation]; id != "" {
		return id
	}
	return string(o.GetUID())
}

// Held reports whether o is being moved to another door, so that nobody acts on it
// or on what belongs to it.
func Held(o metav1.Object) bool {
	_, held := o.GetAnnotations()[MigrationHoldAnnotation]
	return held
}

// HoldAnswered reports whether o is held and its controller has answered just this
// hold: what it had begun is over.
func HoldAnswered(o metav1.Object) bool {
	value, held := o.GetAnnotations()[MigrationHoldAnnotation]
	answer, answered := o.GetAnnotations()[MigrationHeldAnnotation]
	return held && answered && answer == value
}

// DropHold takes hold and answer off o, for one write, and reports whether there
// was anything. Both go at once: a later hold of the same value would else be
// taken for answered.
func DropHold(o metav1.Object) bool {
	all := o.GetAnnotations()
	before := len(all)
	for _, key := range []string{MigrationHoldAnnotation, MigrationHeldAnnotation, MigrationHeldSinceAnnotation} {
		delete(all, key)
	}
	return len(all) != before
}
