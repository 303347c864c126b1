package nodetemplate

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// taints returns the taints that a node shall have: those of the template as
// they are there, none that only the last template had, and all others as they
// are. A taint is known by key and effect. The order of what stays does not
// change; what is new comes last.
func taints(have, last, wanted []corev1.Taint) []corev1.Taint {
	var out []corev1.Taint
	for _, t := range have {
		switch i, j := find(wanted, t), find(last, t); {
		case i >= 0 && sameTaint(t, wanted[i]):
			out = append(out, t) // with the time at which it was added
		case i >= 0:
			out = append(out, wanted[i])
		case j < 0:
			out = append(out, t)
		}
	}
	for _, t := range wanted {
		if find(out, t) < 0 {
			out = append(out, t)
		}
	}
	return out
}

// find returns the last taint of that key and effect, or -1.
func find(all []corev1.Taint, t corev1.Taint) int {
	for i := range slices.Backward(all) {
		if all[i].MatchTaint(&t) {
			return i
		}
	}
	return -1
}

// sameTaint compares all but the time at which a taint was added.
func sameTaint(a, b corev1.Taint) bool {
	return a.Key == b.Key && a.Value == b.Value && a.Effect == b.Effect
}
