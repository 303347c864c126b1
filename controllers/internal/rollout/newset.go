package rollout

// NewReplicas is how many machines the set with the current template may be
// asked to have: as many more as there is room for below replicas + surge, but
// never more than replicas. others are all other sets.
//
// Terminating machines take up room, as they do in MCM, so a machine is
// replaced only when it is gone. MCM counts status.replicas alone and so grows
// the set twice before its first machines are reported; here those that are
// asked for count as well.
func NewReplicas(b Bounds, newSet Set, others []Set) int {
	if newSet.Spec > b.Replicas {
		return b.Replicas
	}
	room := b.Replicas + b.Surge - sum(others, replicas) - newSet.Replicas
	if room <= 0 {
		return newSet.Spec
	}
	return newSet.Spec + min(room, b.Replicas-newSet.Spec)
}
