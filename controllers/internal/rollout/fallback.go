package rollout

import machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"

// CapacityMissing reports whether the cloud refuses every machine of the new set of a
// rolling update that is not available yet, while old machines have what it lacks.
func CapacityMissing(b Bounds, newSet Set, old []Set) bool {
	return b.Surge > 0 && newSet.Exhausted > 0 && newSet.Exhausted >= expected(newSet)-newSet.Available &&
		max(sum(old, replicas), sum(old, expected)) > 0
}

// surgeStuck reports whether a rolling update waits for capacity alone: it is missing, and
// no machine is going, which would make room.
func surgeStuck(b Bounds, newSet Set, old []Set) bool {
	return CapacityMissing(b, newSet, old) && going(newSet)+sum(old, going) == 0
}

// going is how many machines of a set are terminating.
func going(s Set) int { return max(s.Replicas-expected(s), 0) }

// Fallback returns the bounds of a rolling update whose surge is stuck, if its
// MachineDeployment allows it: one more machine may be unavailable.
func Fallback(b Bounds) Bounds {
	b.Unavailable = min(b.Unavailable+1, b.Replicas)
	return b
}

// FallbackAllowed reports whether an old machine of d may go before there is a new one.
func FallbackAllowed(d *machinev1.MachineDeployment) bool {
	return d.Annotations[machinev1.SurgeFallbackAnnotation] == "true"
}

// LeastAvailable is how many machines d keeps available at any time, b being its bounds.
func LeastAvailable(d *machinev1.MachineDeployment, b Bounds) int {
	if b.Surge > 0 && FallbackAllowed(d) {
		return Fallback(b).MinAvailable()
	}
	return b.MinAvailable()
}
