package rollout

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/util/intstr"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

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
