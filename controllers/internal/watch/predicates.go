// Package watch has the event filters and lookups that several controllers need.
package watch

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// Updates passes an update if changed reports so, and every other event. changed
// is called with the old and the new object.
func Updates[T client.Object](changed func(before, after T) bool) predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(T)
		after, also := e.ObjectNew.(T)
		return ok && also && changed(before, after)
	}}
}

// ExceptStatus leaves out updates of the status and of metadata that no
// controller reads.
func ExceptStatus() predicate.Predicate { return Updates(BesidesStatus) }

// BesidesStatus reports whether an object has changed in its spec or in metadata
// that controllers read.
func BesidesStatus(before, after client.Object) bool {
	return before.GetUID() != after.GetUID() ||
		before.GetGeneration() != after.GetGeneration() ||
		!maps.Equal(before.GetLabels(), after.GetLabels()) ||
		!maps.Equal(before.GetAnnotations(), after.GetAnnotations()) ||
		!slices.Equal(before.GetFinalizers(), after.GetFinalizers()) ||
		!equality.Semantic.DeepEqual(before.GetOwnerReferences(), after.GetOwnerReferences()) ||
		!before.GetDeletionTimestamp().Equal(after.GetDeletionTimestamp())
}

// SpecOrDeletion leaves out updates that change neither the spec nor whether the
// object is being deleted.
func SpecOrDeletion() predicate.Predicate {
	return Updates(func(before, after client.Object) bool {
		return before.GetGeneration() != after.GetGeneration() ||
			!before.GetDeletionTimestamp().Equal(after.GetDeletionTimestamp())
	})
}

// SecretContent leaves out updates of a Secret that change neither its data nor
// the namespaces that may use it.
func SecretContent() predicate.Predicate {
	return Updates(func(before, after *corev1.Secret) bool {
		const allowed = machinev1.AllowedNamespacesAnnotation
		return !equality.Semantic.DeepEqual(before.Data,
			after.Data) || before.Annotations[allowed] != after.Annotations[allowed]
	})
}

// SecretContentOrOwner leaves out updates of a Secret that change neither its
// data nor the metadata that says whose it is.
func SecretContentOrOwner() predicate.Predicate {
	return Updates(func(before, after *corev1.Secret) bool {
		return !equality.Semantic.DeepEqual(before.Data, after.Data) || BesidesStatus(before, after)
	})
}
