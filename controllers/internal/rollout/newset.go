package rollout

// NewReplicas is how many machines the set with the current template may be
// asked to have: as many more as there is room for below replicas + surge, but
// never more than replicas. others are all other sets.
//
// Terminating machines take up room, as they do in MCM, so a machine is
// replaced only when it is gone. MCM counts status.replicas alone and so grows
// the set twice before its first machines are reported; here those that are
// asked for count as well.
func NewReplicas(b Bounds, current Set, others []Set) int {
	if current.Spec > b.Replicas {
		return b.Replicas
	}
	room := b.Replicas + b.Surge - sum(others, replicas) - current.Replicas
	if room <= 0 {
		return current.Spec
	}
	return current.Spec + min(room, b.Replicas-current.Spec)
}
