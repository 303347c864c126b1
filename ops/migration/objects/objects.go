// Package objects has what the packages below migration ask of objects of both APIs: how
// they are found, named and related.
package objects

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// Object is what points at a T, which is a type of objects.
type Object[T any] interface {
	*T
	client.Object
}

// Sort brings objects into the order of their names.
func Sort[T any, P Object[T]](list []T) {
	slices.SortFunc(list, func(a, b T) int { return cmp.Compare(P(&a).GetName(), P(&b).GetName()) })
}

// Merge returns a copy of all with the entries of each of more.
func Merge(all map[string]string, more ...map[string]string) map[string]string {
	out := maps.Clone(all)
	if out == nil {
		out = map[string]string{}
	}
	for _, m := range more {
		maps.Copy(out, m)
	}
	return out
}

// CopyOf is the value of the annotation migrated-from.
func CopyOf(kind string, o metav1.Object) string {
	return kind + "/" + o.GetName() + "/" + string(o.GetUID())
}

// SameVM reports whether two providerIDs can name the same VM: all forms of all
// clouds end in the VM's own name.
func SameVM(a, b string) bool { return strings.EqualFold(LastSegment(a), LastSegment(b)) }

// LastSegment returns what follows the last slash.
func LastSegment(id string) string { return id[strings.LastIndexByte(id, '/')+1:] }

// ControllerRef is the reference to an owner that controls, without its UID: that is
// known once it is made.
func ControllerRef(kind schema.GroupVersionKind, name string) metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Name: name, Controller: new(true),
		BlockOwnerDeletion: new(true),
	}
}

// CopiedFrom is the name of the object of that kind that o was copied from; empty if
// it was not.
func CopiedFrom(o metav1.Object, kind string) string {
	parts := strings.Split(o.GetAnnotations()[machinev1.MigratedFromAnnotation], "/")
	if len(parts) != 3 || parts[0] != kind {
		return ""
	}
	return parts[1]
}

// Value returns what p points at; nil is the zero value.
func Value[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}

// ControllerOf returns the reference to the controller of an object, if it is of that kind.
func ControllerOf(o metav1.Object, kind string) *metav1.OwnerReference {
	owner := metav1.GetControllerOf(o)
	if owner == nil || owner.Kind != kind {
		return nil
	}
	return owner
}

// Keys are the keys of a map in the order of text.
func Keys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// Find returns the element of that name; nil if there is none.
func Find[T any, P Object[T]](list []T, name string) P {
	for i := range list {
		if P(&list[i]).GetName() == name {
			return &list[i]
		}
	}
	return nil
}

// Pointers returns the elements as objects.
func Pointers[T any, P Object[T]](list []T) []client.Object {
	out := make([]client.Object, 0, len(list))
	for i := range list {
		out = append(out, P(&list[i]))
	}
	return out
}

// Names are the names of objects.
func Names[T any, P Object[T]](list []T) map[string]bool {
	out := map[string]bool{}
	for i := range list {
		out[P(&list[i]).GetName()] = true
	}
	return out
}

// Related reports whether an object of Cluster API and a native one of that kind are
// copies of each other.
func Related(o, native metav1.Object, kind string) bool {
	return CopiedFrom(o, kind) == native.GetName() || CopiedFrom(native, kind) == o.GetName()
}

// ByName are objects by their names.
func ByName[T any, P Object[T]](list []T) map[string]metav1.Object {
	out := map[string]metav1.Object{}
	for i := range list {
		out[P(&list[i]).GetName()] = P(&list[i])
	}
	return out
}

// Selects reports whether a selector that can be read matches labels, of which there are some.
func Selects(s *metav1.LabelSelector, all map[string]string) bool {
	if s == nil {
		return false
	}
	selector, err := metav1.LabelSelectorAsSelector(s)
	return err == nil && len(all) > 0 && selector.Matches(labels.Set(all))
}

// Paused reports whether the controller of an object of Cluster API says that it is paused.
func Paused(o client.Object) bool {
	getter, ok := o.(conditions.Getter)
	if !ok {
		return false
	}
	c := meta.FindStatusCondition(getter.GetConditions(), clusterv1.PausedCondition)
	return c != nil && c.Status == metav1.ConditionTrue
}

// Replicas is how many machines a set or deployment is asked for; nil for what is neither.
func Replicas(o client.Object) *int32 {
	switch o := o.(type) {
	case *machinev1.MachineDeployment:
		return &o.Spec.Replicas
	case *machinev1.MachineSet:
		return &o.Spec.Replicas
	case *clusterv1.MachineDeployment:
		return o.Spec.Replicas
	case *clusterv1.MachineSet:
		return o.Spec.Replicas
	}
	return nil
}

// SetReplicas asks a set or deployment for that many machines.
func SetReplicas(o client.Object, n int32) {
	switch o := o.(type) {
	case *machinev1.MachineDeployment:
		o.Spec.Replicas = n
	case *machinev1.MachineSet:
		o.Spec.Replicas = n
	case *clusterv1.MachineDeployment:
		o.Spec.Replicas = &n
	case *clusterv1.MachineSet:
		o.Spec.Replicas = &n
	}
}

// ProviderID is that of a Machine or MCMMachine; empty for other objects.
func ProviderID(o client.Object) string {
	switch o := o.(type) {
	case *machinev1.Machine:
		return o.Spec.ProviderID
	case *clusterv1.Machine:
		return o.Spec.ProviderID
	case *infrav1.MCMMachine:
		return o.Spec.ProviderID
	}
	return ""
}

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

// Joined is the status of a native Machine whose node has joined: its health is judged from here on.
func Joined(machine string, node *corev1.Node) machinev1.MachineStatus {
	since := node.CreationTimestamp
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			since = c.LastTransitionTime
		}
	}
	return machinev1.MachineStatus{
		Conditions: node.DeepCopy().Status.Conditions, NodeRef: &machinev1.NodeReference{Kind: "Node", Name: node.Name},
		CurrentStatus: machinev1.CurrentStatus{Phase: machinev1.MachineRunning, LastUpdateTime: since},
		LastOperation: machinev1.LastOperation{
			Description: "Machine " + machine + " successfully joined the cluster", State: machinev1.MachineStateSuccessful,
			Type: machinev1.MachineOperationCreate, LastUpdateTime: since,
		},
	}
}
