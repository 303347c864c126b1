package v1alpha1

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// FallbackClassesAnnotation on a MachineDeployment, or on a MachineSet without one, names
	// MachineClasses of the same provider, separated by commas, in the order of preference.
	// While the cloud has no capacity for the class of the template, new machines get the
	// first of these that has room.
	FallbackClassesAnnotation = "mcm.cluster.x-k8s.io/fallback-classes"
	// NextClassAnnotation on a Machine or MCMMachine without VM is the MachineClass that it
	// gets once nothing is left of the VM that was requested from its present one.
	NextClassAnnotation = "mcm.cluster.x-k8s.io/next-class"
)

// EventClassFallback on a Machine or MCMMachine tells that its VM is created from another of
// its classes, since the cloud has no capacity for the one before.
const EventClassFallback = "ClassFallback"

// maxFallbackClasses is how many classes FallbackClassesAnnotation may name; more are ignored.
const maxFallbackClasses = 8

// FallbackClasses returns the classes that FallbackClassesAnnotation of o names, each once and
// without first; nil if there are none.
func FallbackClasses(o metav1.Object, first string) []string {
	var names []string
	for name := range strings.SplitSeq(o.GetAnnotations()[FallbackClassesAnnotation], ",") {
		name = strings.TrimSpace(name)
		if name == "" || name == first || slices.Contains(names, name) || len(names) == maxFallbackClasses {
			continue
		}
		names = append(names, name)
	}
	return names
}
