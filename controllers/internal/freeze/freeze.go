// Package freeze decides when a MachineSet has so many machines that it is frozen:
// it creates no further one until the surplus is gone.
package freeze

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// LabelValue is what FreezeLabel has on a frozen object. Any other value means
// that the object is not frozen.
const LabelValue = "True"

// Messages of the Events. They never vary, so that repetitions are counted on
// one Event.
const (
	MessageFrozen   = "MachineSet has too many machines, none is created until the surplus is gone"
	MessageUnfrozen = "MachineSet may create machines again"
)

// Limits are numbers of machines.
type Limits struct {
	// Higher and more machines freeze a set.
	Higher int64
	// Lower and fewer machines unfreeze it; it is below Higher.
	Lower int64
}

// Margins are how far the limits are from what is wanted.
type Margins struct {
	// Up is how many machines more than wanted freeze a set.
	Up int32
	// Down is how many fewer than that unfreeze it.
	Down int32
}

// LimitsOf returns the limits of a MachineSet: those that follow from the
// MachineDeployment it belongs to, or twice its own replicas if it has none.
func LimitsOf(set *machinev1.MachineSet, deployment *machinev1.MachineDeployment, m Margins) Limits {
	higher := 2*int64(set.Spec.Replicas) + int64(m.Up)
	if deployment != nil {
		higher = int64(deployment.Spec.Replicas) + surge(deployment) + int64(m.Up)
	}
	return Limits{Higher: higher, Lower: min(higher-int64(m.Down), higher-1)}
}

// surge is what a MachineDeployment may have in excess. One that names none, or
// none that can be read, has none.
func surge(d *machinev1.MachineDeployment) int64 {
	var value *intstr.IntOrString
	switch strategy := d.Spec.Strategy; {
	case strategy.RollingUpdate != nil:
		value = strategy.RollingUpdate.MaxSurge
	case strategy.InPlaceUpdate != nil:
		value = strategy.InPlaceUpdate.MaxSurge
	}
	if value == nil {
		return 0
	}
	scaled, err := intstr.GetScaledValueFromIntOrPercent(value, int(d.Spec.Replicas), true)
	if err != nil {
		return 0
	}
	return int64(max(scaled, 0))
}

// A Change is what becomes of a set.
type Change int

// The changes.
const (
	Keep Change = iota
	Freeze
	Unfreeze
)

// Evaluate decides what becomes of a set with that many machines. One without
// machines is never frozen.
func (l Limits) Evaluate(frozen bool, machines int) Change {
	count := int64(machines)
	switch {
	case !frozen && count > 0 && count >= l.Higher:
		return Freeze
	case frozen && (count <= l.Lower || count == 0):
		return Unfreeze
	}
	return Keep
}

// IsFrozen reports whether a MachineSet or MachineDeployment is labelled as frozen.
func IsFrozen(o metav1.Object) bool { return o.GetLabels()[machinev1.FreezeLabel] == LabelValue }

// Message is that of the condition Frozen.
func (l Limits) Message(set string, machines int) string {
	return fmt.Sprintf("The number of machines backing MachineSet: %s is %d >= %d which is the Max-ScaleUp-Limit", set,
		machines, l.Higher)
}
