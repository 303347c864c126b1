package objects

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// Kinds in references and in [machinev1.MigratedFromAnnotation].
const (
	KindMCMMachine         = "MCMMachine"
	KindMCMMachineTemplate = "MCMMachineTemplate"
	KindMCMConfigTemplate  = "MCMConfigTemplate"
	KindCluster            = "Cluster"
	KindHealthCheck        = "MachineHealthCheck"
)

// Name names an object as findings do: "Machine default/m-1".
func Name(kind string, o metav1.Object) string {
	return kind + " " + types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}.String()
}

// BootDataSuffix is how the Secret that stands for a machine's boot data is called
// after the machine.
const BootDataSuffix = "-migrated"

// IsNative reports whether o is of the native API.
func IsNative(o client.Object) bool {
	switch o.(type) {
	case *machinev1.Machine, *machinev1.MachineSet, *machinev1.MachineDeployment:
		return true
	}
	return false
}

// Title names an object for a person: "native Machine default/m-1".
func Title(o client.Object) string {
	return fmt.Sprintf("%s %s/%s", kindWithAPI(o), o.GetNamespace(), o.GetName())
}

// kindWithAPI is the kind of an object, and its API where both have that kind.
func kindWithAPI(o client.Object) string {
	if IsNative(o) {
		return "native " + KindOf(o)
	}
	return KindOf(o)
}

// KindOf is the kind of an object as Go names its type.
func KindOf(o client.Object) string {
	name := fmt.Sprintf("%T", o)
	return name[strings.LastIndexByte(name, '.')+1:]
}

// List names the first objects of a list, and counts the others.
func List(objects []client.Object) string {
	const most = 3
	var names []string
	for _, o := range objects[:min(len(objects), most)] {
		names = append(names, kindWithAPI(o)+" "+o.GetName())
	}
	text := strings.Join(names, ", ")
	if more := len(objects) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
