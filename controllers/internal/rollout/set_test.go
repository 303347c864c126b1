package rollout

import "testing"

// TestWithUnavailable: machines that are about to leave service do not count as available. Nor do they count as
// unhealthy, because a set deletes a healthy machine as readily as one of them.
func TestWithUnavailable(t *testing.T) {
	t.Parallel()
	s := Set{Spec: 4, Live: 4, Available: 3}
	for n, want := range []int{3, 2, 1, 0, 0} {
		got := s.WithUnavailable(n)
		if got.Available != want || unhealthy(got) != unhealthy(s) {
			t.Errorf("%d machines leave: %d are available and %d unhealthy, want %d and %d", n, got.Available, unhealthy(got),
				want, unhealthy(s))
		}
	}
}
