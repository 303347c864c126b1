package recovery

import (
	"fmt"
	"strings"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/objects"
)

// HoldPrefix begins the value of the annotation with which a recovery holds an object:
// [machinev1.MigrationHoldAnnotation] on the native API, cluster.x-k8s.io/paused on
// Cluster API. A run that was interrupted leaves it behind, and the next one goes on.
const HoldPrefix = "recovery-"

// HoldValue returns the value of the annotation for a set or deployment: the name of the run
// and the size that the object has.
func HoldValue(run string, o client.Object) string {
	return fmt.Sprintf("%s%s.%d", HoldPrefix, run, replicasOf(o))
}

// HoldKey returns the annotation that keeps the controllers of o from acting on it.
func HoldKey(o client.Object) string {
	if objects.IsNative(o) {
		return machinev1.MigrationHoldAnnotation
	}
	return clusterv1.PausedAnnotation
}

// Held reports whether a recovery holds o.
func Held(o client.Object) bool { return strings.HasPrefix(o.GetAnnotations()[HoldKey(o)], HoldPrefix) }

// heldByOther reports whether somebody else holds o.
func heldByOther(o client.Object) bool {
	_, held := o.GetAnnotations()[HoldKey(o)]
	return held && !Held(o)
}

// Answered reports whether the controllers of o have acknowledged that they leave it alone.
func Answered(o client.Object) bool {
	if objects.IsNative(o) {
		return machinev1.HoldAnswered(o)
	}
	_, asked := o.GetAnnotations()[clusterv1.PausedAnnotation]
	return asked && objects.Paused(o)
}

// Family names what is released together with o: the MachineDeployment, its MachineSets and
// their Machines. Machines of no set, and sets of no deployment, are for themselves.
func Family(s *State, o client.Object) string {
	native := objects.IsNative(o)
	if ref := objects.ControllerOf(o, machinev1.MachineSetKind); ref != nil {
		for _, p := range pools(s) {
			if p.set.GetName() == ref.Name && objects.IsNative(p.set) == native {
				o = p.set
			}
		}
	}
	if ref := objects.ControllerOf(o, machinev1.MachineDeploymentKind); ref != nil {
		return fmt.Sprintf("%s %s %t", ref.Kind, ref.Name, native)
	}
	return fmt.Sprintf("%s %s %t", objects.KindOf(o), o.GetName(), native)
}

// Stays returns why a pool stays held, and what to do about it; empty if it can be released.
// An object of it that somebody else holds may not have the right size yet.
func Stays(s *State, family string) string {
	all := pools(s)
	for _, p := range all {
		if o := p.heldByOther(all); o != nil && Family(s, p.set) == family {
			why := heldProblem(o)
			return why.reason + ": " + why.remedy
		}
	}
	return ""
}
