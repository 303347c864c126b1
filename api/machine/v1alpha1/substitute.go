package v1alpha1

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SubstituteClassAnnotation on a Machine or MCMMachine that is being deleted and whose
// MachineClass is gone or cannot be used: "<name>/<hash>", the MachineClass with which its VM
// is deleted instead, and where that one looks for VMs. It is written before the VM is deleted.
const SubstituteClassAnnotation = "mcm.cluster.x-k8s.io/substitute-class"

// SubstituteClass returns what SubstituteClassAnnotation has recorded; both are empty if
// there is nothing.
func SubstituteClass(o metav1.Object) (name, place string) {
	name, place, _ = strings.Cut(o.GetAnnotations()[SubstituteClassAnnotation], "/")
	return name, place
}
