package rollout

import (
	"slices"
	"strconv"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// A Step is what a reconcile of a MachineDeployment does about its replicas.
type Step int

// The steps.
const (
	StepNone          Step = iota // the strategy is none of those that there are
	StepScale                     // distributes changed replicas over the sets
	StepRollBack                  // gives the deployment the template of an earlier revision
	StepRollingUpdate             // replaces old machines gradually
	StepRecreate                  // deletes all old machines before it creates new ones
	StepInPlaceUpdate             // updates old machines without replacing their VMs
)

// NextStep returns the one step that the spec of d asks for. newSet is nil while no set has
// the template.
func NextStep(d *machinev1.MachineDeployment, b Bounds, newSet *Set, others []Set) Step {
	switch {
	case d.Spec.Paused:
		return StepScale
	case d.Spec.RollbackTo != nil:
		return StepRollBack
	case newSet != nil && PausedTo(d, newSet.Name), Scaling(b.Replicas, newSet, others):
		return StepScale
	}
	switch d.Spec.Strategy.Type {
	case machinev1.RollingUpdateStrategyType:
		return StepRollingUpdate
	case machinev1.RecreateStrategyType:
		return StepRecreate
	case machinev1.InPlaceUpdateStrategyType:
		return StepInPlaceUpdate
	}
	return StepNone
}

// PausedTo reports whether the rollout to that set is paused, because its machines do not join.
func PausedTo(d *machinev1.MachineDeployment, set string) bool {
	return set != "" && d.Annotations[machinev1.RolloutPausedAnnotation] == set
}

// MarkFailing returns the index of the set that replicas belong to: that with the template, at current.
// While the rollout to it is paused it is marked as failing, and -1 returned: there is no such set.
func MarkFailing(d *machinev1.MachineDeployment, sets []Set, current int) int {
	if current < 0 || !PausedTo(d, sets[current].Name) {
		return current
	}
	sets[current].Failing = true
	return -1
}

// Proportional reports whether changed replicas of d are distributed over all its sets.
// Other strategies distribute by themselves.
func Proportional(d *machinev1.MachineDeployment) bool {
	return d.Spec.Paused || d.Spec.Strategy.Type == machinev1.RollingUpdateStrategyType
}

// Gone reports whether sets have no machine and are about to have none.
func Gone(sets []Set) bool { return sum(sets, replicas) == 0 }

// A Roll is how large a rolling update makes each set.
type Roll struct {
	New  int
	Keep []int // in the order of the old sets
	// CapacityMissing is that the cloud has no capacity for surge, FellBack that an old
	// machine goes before there is a new one because of that.
	CapacityMissing, FellBack bool
}

// RollOf returns what a rolling update of d does next. While the cloud has no capacity for surge
// one more machine goes, if d allows it.
func RollOf(d *machinev1.MachineDeployment, b Bounds, newSet Set, old []Set) Roll {
	r := Roll{New: NewReplicas(b, newSet, old)}
	newSet.Spec = r.New
	r.Keep = oldReplicas(b, newSet, old)
	r.CapacityMissing = CapacityMissing(b, newSet, old)
	if !surgeStuck(b, newSet, old) || !FallbackAllowed(d) {
		return r
	}
	fewer := oldReplicas(Fallback(b), newSet, old)
	r.FellBack = !slices.Equal(r.Keep, fewer)
	r.Keep = fewer
	return r
}

// Annotate annotates a set with the replicas of d, as MCM does whenever it scales one.
func Annotate(set *machinev1.MachineSet, d *machinev1.MachineDeployment, b Bounds) {
	machinev1.SetAnnotation(set, machinev1.DesiredReplicasAnnotation, strconv.Itoa(b.Replicas))
	machinev1.SetAnnotation(set, machinev1.MaxReplicasAnnotation, strconv.Itoa(b.Replicas+annotatedSurge(d, b)))
}
