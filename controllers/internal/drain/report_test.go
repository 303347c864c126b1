package drain

import (
	"strings"
	"testing"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// An eviction that a budget denies comes and goes, and must not hide what needs somebody
// to act.
func TestReasonIsTheOneThatNeedsAction(t *testing.T) {
	t.Parallel()
	for _, reason := range []string{ReasonBudgetMisconfigured, ReasonEvictionFailed, ReasonPodOverdue} {
		got, text := summarise([]obstacle{
			{machinev1.ReasonEvictionDenied, "denied"}, {machinev1.ReasonDetachingVolumes, "volume"}, {reason, "act"},
		})
		if got != reason || !strings.HasPrefix(text, "act; denied") {
			t.Errorf("%s: %q, want %s first", got, text, reason)
		}
	}
}
