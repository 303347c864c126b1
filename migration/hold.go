package migration

import (
	"context"
	"fmt"
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// tiers are the objects of a door that have controllers, from the head down: who
// is above makes and deletes what is below, so it is put to rest first and
// started last.
func (s *Scene) tiers(d Door) [][]client.Object {
	var head, sets, machines []client.Object
	if d == DoorNative {
		if s.Native.Deployment != nil {
			head = append(head, s.Native.Deployment)
		}
		sets, machines = pointers(s.Native.Sets), pointers(s.Native.Machines)
		return [][]client.Object{head, sets, machines}
	}
	if s.ClusterAPI.Deployment != nil {
		head = append(head, s.ClusterAPI.Deployment)
	}
	sets, machines = pointers(s.ClusterAPI.Sets), pointers(s.ClusterAPI.Machines)
	return [][]client.Object{head, sets, machines, pointers(s.ClusterAPI.MCMMachines)}
}

// pointers returns the elements as objects.
func pointers[T any, P interface {
	*T
	client.Object
}](list []T) []client.Object {
	out := make([]client.Object, 0, len(list))
	for i := range list {
		out = append(out, P(&list[i]))
	}
	return out
}

// rest asks the controllers of objects to leave them alone, and returns those
// that have not acknowledged it yet. Objects of the Cluster API door keep their
// VMs from then on.
func (e *Engine) rest(ctx context.Context, hold string, objects []client.Object) (missing []client.Object, err error) {
	for _, o := range objects {
		if atRest(o) {
			continue
		}
		missing = append(missing, o)
		if asked(o) || starting(o) {
			continue // it is the controller's turn
		}
		if err := e.annotate(ctx, o, restAnnotations(o, hold)); err != nil {
			return nil, err
		}
	}
	return missing, nil
}

// start lets the controllers of objects work again, and returns those that they
// have not noticed yet. MCMMachines keep their VM.
func (e *Engine) start(ctx context.Context, objects []client.Object) (missing []client.Object, err error) {
	for _, o := range objects {
		drop := map[string]*string{}
		for _, key := range []string{
			machinev1.MigrationHoldAnnotation, machinev1.MigrationHeldAnnotation,
			machinev1.MigrationHeldSinceAnnotation, clusterv1.PausedAnnotation,
		} {
			if _, there := o.GetAnnotations()[key]; there {
				drop[key] = nil
			}
		}
		if len(drop) > 0 {
			if err := e.annotate(ctx, o, drop); err != nil {
				return nil, err
			}
		}
		if len(drop) > 0 && !native(o) || starting(o) {
			missing = append(missing, o)
		}
	}
	return missing, nil
}

// asked reports whether o's controllers have been asked to leave it alone, by this
// move or an earlier one that never let it go.
func asked(o client.Object) bool {
	for key, value := range restAnnotations(o, "") {
		have, there := o.GetAnnotations()[key]
		if !there || key == machinev1.RetainVMAnnotation && have != *value {
			return false
		}
	}
	return true
}

// atRest reports whether o's controllers have been asked and have acknowledged it.
func atRest(o client.Object) bool {
	if !asked(o) {
		return false
	}
	if native(o) {
		hold := o.GetAnnotations()[machinev1.MigrationHoldAnnotation]
		return hold != "" && o.GetAnnotations()[machinev1.MigrationHeldAnnotation] == hold
	}
	return paused(o)
}

// starting reports whether an object of the Cluster API door may run, but its
// controller still says that it does not. To pause it now could be answered by
// that old word.
func starting(o client.Object) bool {
	_, annotated := o.GetAnnotations()[clusterv1.PausedAnnotation]
	return !native(o) && !annotated && paused(o)
}

// paused reports whether the controller of o says that it is paused.
func paused(o client.Object) bool {
	switch o := o.(type) {
	case conditions.Getter:
		c := meta.FindStatusCondition(o.GetConditions(), clusterv1.PausedCondition)
		return c != nil && c.Status == metav1.ConditionTrue
	default:
		return false
	}
}

// restAnnotations are what an object carries that is to be left alone.
func restAnnotations(o client.Object, hold string) map[string]*string {
	empty, yes := "", "true"
	switch o.(type) {
	case *infrav1.MCMMachine:
		return map[string]*string{clusterv1.PausedAnnotation: &empty, machinev1.RetainVMAnnotation: &yes}
	case *clusterv1.MachineDeployment, *clusterv1.MachineSet, *clusterv1.Machine:
		return map[string]*string{clusterv1.PausedAnnotation: &empty}
	default:
		return map[string]*string{machinev1.MigrationHoldAnnotation: &hold}
	}
}

// native reports whether o is of the native door.
func native(o client.Object) bool {
	switch o.(type) {
	case *machinev1.Machine, *machinev1.MachineSet, *machinev1.MachineDeployment:
		return true
	}
	return false
}

// annotate sets annotations of o, nil takes one away, with one write that leaves
// everything else alone. An object that is gone is fine; another one of that name
// is not touched.
func (e *Engine) annotate(ctx context.Context, o client.Object, values map[string]*string) error {
	changed := o.DeepCopyObject().(client.Object)
	all := maps.Clone(changed.GetAnnotations())
	if all == nil {
		all = map[string]string{}
	}
	for key, value := range values {
		if value == nil {
			delete(all, key)
			continue
		}
		all[key] = *value
	}
	changed.SetAnnotations(all)
	return e.patch(ctx, o, changed)
}

// patch writes the difference between o and changed, unless somebody else has
// changed the object since.
func (e *Engine) patch(ctx context.Context, o, changed client.Object) error {
	err := e.Control.Patch(ctx, changed, client.MergeFromWithOptions(o, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write %s: %w", title(o), err)
	}
	return nil
}

// title names an object for a person: "native Machine default/m-1".
func title(o client.Object) string {
	return fmt.Sprintf("%s %s/%s", doorKind(o), o.GetNamespace(), o.GetName())
}

// doorKind is the kind of an object, and its door where both have that kind.
func doorKind(o client.Object) string {
	if native(o) {
		return "native " + kindOf(o)
	}
	return kindOf(o)
}

// kindOf is the kind of an object as Go names its type.
func kindOf(o client.Object) string {
	name := fmt.Sprintf("%T", o)
	return name[strings.LastIndexByte(name, '.')+1:]
}

// some names the first objects of a list, and counts the others.
func some(objects []client.Object) string {
	const most = 3
	var names []string
	for _, o := range objects[:min(len(objects), most)] {
		names = append(names, doorKind(o)+" "+o.GetName())
	}
	text := strings.Join(names, ", ")
	if more := len(objects) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
