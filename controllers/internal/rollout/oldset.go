package rollout

import "slices"

// oldReplicas returns how many machines each of the old sets keeps during a
// rolling update, in the order of old. Unhealthy machines go first, whichever
// set they are in, then as many as availability allows; older sets before
// younger ones. Old machines that are kept for examination are not missed, as in
// the condition Available: nothing could be replaced otherwise while there are as
// many of them as machines may be unavailable.
func oldReplicas(b Bounds, newSet Set, old []Set) []int {
	keep := make([]int, len(old))
	for i, s := range old {
		keep[i] = s.Spec
	}
	missing := max(newSet.Spec-newSet.Available, 0)
	budget := sum(old, spec) + newSet.Spec - b.MinAvailable() - missing
	if budget <= 0 {
		return keep
	}
	order := byAge(old)
	for _, i := range order {
		n := min(budget, unhealthy(old[i]))
		keep[i] -= n
		budget -= n
	}
	// What is left of the budget bounds this too: available machines that a set has
	// in excess of its spec go anyway, and would otherwise be counted on.
	removable := min(budget, sum(old, available)+newSet.Available-b.MinAvailable()+sum(old, preserved))
	for _, i := range order {
		if removable <= 0 {
			break
		}
		n := min(removable, keep[i])
		keep[i] -= n
		removable -= n
	}
	return keep
}

// unhealthy is how many machines s loses if it is asked for fewer, before it
// loses one that is available. Those that are kept for examination go last, and
// others go late while a healthy one has a priority, so they do not count; MCM
// counts them and then loses available ones instead.
func unhealthy(s Set) int {
	return max(s.Spec-s.Available-s.Preserved-s.ProtectedUnavailable, 0)
}

// byAge returns the indexes of sets, oldest first.
func byAge(sets []Set) []int {
	order := make([]int, len(sets))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return older(sets[i], sets[j]) })
	return order
}
