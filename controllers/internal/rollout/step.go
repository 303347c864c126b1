package rollout

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/util/intstr"

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

// Bounds are what a rollout must keep to.
type Bounds struct {
	// Replicas wanted.
	Replicas int
	// Surge is how many machines may exist beyond Replicas.
	Surge int
	// Unavailable is how many of Replicas may be missing.
	Unavailable int
}

// MinAvailable is how many machines must stay available.
func (b Bounds) MinAvailable() int { return b.Replicas - b.Unavailable }

// Allowed is how many machines may exist; none if none are wanted.
func (b Bounds) Allowed() int {
	if b.Replicas == 0 {
		return 0
	}
	return b.Replicas + b.Surge
}

// BoundsOf resolves the strategy of d. Recreate has neither surge nor
// unavailable; an InPlaceUpdate that a person orchestrates has no surge. The
// error says which field is missing or cannot be parsed.
func BoundsOf(d *machinev1.MachineDeployment) (Bounds, error) {
	b := Bounds{Replicas: int(d.Spec.Replicas)}
	config, surging := strategyBounds(d)
	if config == nil {
		return b, nil
	}
	surge := config.MaxSurge
	if !surging {
		surge = &intstr.IntOrString{}
	}
	var err error
	b.Surge, b.Unavailable, err = resolveFenceposts(surge, config.MaxUnavailable, b.Replicas)
	if err != nil {
		return b, err
	}
	b.Unavailable = min(b.Unavailable, b.Replicas)
	return b, nil
}

// annotatedSurge is the surge that MCM writes into max-replicas annotations: 0
// unless d is a RollingUpdate.
func annotatedSurge(d *machinev1.MachineDeployment, b Bounds) int {
	if d.Spec.Strategy.Type == machinev1.RollingUpdateStrategyType {
		return b.Surge
	}
	return 0
}

// resolveFenceposts resolves surge and unavailable, numbers or percentages of
// replicas. Percentages of surge are rounded up, of unavailable down. If both
// come out as 0, unavailable is 1, because nothing could be replaced otherwise.
func resolveFenceposts(surge, unavailable *intstr.IntOrString, replicas int) (surging, missing int, err error) {
	surging, surgeErr := ResolveIntOrPercent("maxSurge", surge, replicas, true)
	missing, missingErr := ResolveIntOrPercent("maxUnavailable", unavailable, replicas, false)
	if err := errors.Join(surgeErr, missingErr); err != nil {
		return 0, 0, err
	}
	if surging == 0 && missing == 0 {
		missing = 1
	}
	return surging, missing, nil
}

// ResolveIntOrPercent turns a number or a percentage of replicas into a number. The error
// names the field.
func ResolveIntOrPercent(field string, value *intstr.IntOrString, replicas int, up bool) (int, error) {
	if value == nil {
		return 0, fmt.Errorf("%s is missing", field)
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(value, replicas, up)
	if err != nil {
		return 0, fmt.Errorf("%s %q is neither a number nor a percentage", field, value.String())
	}
	if n < 0 {
		return 0, fmt.Errorf("%s %q is negative", field, value.String())
	}
	return n, nil
}

// strategyBounds is the part of the strategy that bounds it, nil if there is
// none, and whether surge counts in it.
func strategyBounds(d *machinev1.MachineDeployment) (config *machinev1.UpdateConfiguration, surging bool) {
	strategy := d.Spec.Strategy
	switch strategy.Type {
	case machinev1.RollingUpdateStrategyType:
		if strategy.RollingUpdate != nil {
			return &strategy.RollingUpdate.UpdateConfiguration, true
		}
	case machinev1.InPlaceUpdateStrategyType:
		if strategy.InPlaceUpdate != nil {
			manual := strategy.InPlaceUpdate.OrchestrationType == machinev1.OrchestrationTypeManual
			return &strategy.InPlaceUpdate.UpdateConfiguration, !manual
		}
	case machinev1.RecreateStrategyType:
	}
	return nil, false
}
