package rollout

// NewReplicas is how many machines the set with the current template may be
// asked to have: as many more as there is room for below replicas + surge, but
// not beyond replicas. others are all other sets. A set that is larger already, because
// a rollout to another template was paused and the user rolled back, shrinks to replicas
// as far as availability allows.
//
// Terminating machines take up room, as they do in MCM, so a machine is
// replaced only when it is gone. MCM counts status.replicas alone and so grows
// the set twice before its first machines are reported; here those that are
// asked for count as well.
func NewReplicas(b Bounds, newSet Set, others []Set) int {
	if newSet.Spec > b.Replicas {
		return max(b.Replicas, newSet.Spec-dispensable(b, newSet))
	}
	room := b.Replicas + b.Surge - sum(others, replicas) - newSet.Replicas
	if room <= 0 {
		return newSet.Spec
	}
	return newSet.Spec + min(room, b.Replicas-newSet.Spec)
}

// dispensable is how many replicas s can lose while MinAvailable of its machines stay
// available: those that it has no machines for, or the unhealthy ones and the available
// ones beyond MinAvailable. Which machines go is up to the set, and a healthy one with a
// priority goes first.
func dispensable(b Bounds, s Set) int {
	return max(s.Spec-s.Live, unhealthy(s)+max(s.Available-b.MinAvailable(), 0))
}
