package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of the native kinds.
var GroupVersion = schema.GroupVersion{Group: "machine.sapcloud.io", Version: "v1alpha1"}

var schemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

// AddToScheme registers the native kinds with a scheme.
var AddToScheme = schemeBuilder.AddToScheme

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&Machine{}, &MachineList{},
		&MachineSet{}, &MachineSetList{},
		&MachineDeployment{}, &MachineDeploymentList{},
		&MachineClass{}, &MachineClassList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
