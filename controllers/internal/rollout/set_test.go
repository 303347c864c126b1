package rollout

import "testing"

// TestWithUnavailable: machines that are about to leave service do not count as available. Nor do they count as
// unhealthy while others are available, because a set deletes one of these as readily.
func TestWithUnavailable(t *testing.T) {
	t.Parallel()
	s := Set{Spec: 4, Live: 4, Available: 3}
	for n, want := range [][2]int{{3, 1}, {2, 1}, {1, 1}, {0, 4}, {0, 4}} {
		got := s.WithUnavailable(n)
		if got.Available != want[0] || unhealthy(got) != want[1] {
			t.Errorf("%d machines leave: %d are available and %d unhealthy, want %v", n, got.Available, unhealthy(got), want)
		}
	}
}
