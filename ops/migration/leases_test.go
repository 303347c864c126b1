package migration

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

func TestHolderOf(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	lease := func(mark, identity string, ago time.Duration) *coordinationv1.Lease {
		l := &coordinationv1.Lease{}
		if mark != "" {
			l.Labels = map[string]string{machinev1.LeaseHolderLabel: mark}
		}
		l.Spec.HolderIdentity, l.Spec.LeaseDurationSeconds = &identity, new(int32(15))
		l.Spec.RenewTime = new(metav1.NewMicroTime(now.Add(-ago)))
		return l
	}
	const ours, others = "host_2f0c5a3e-98b5-4b8e-a8a4-8a4d3c6f0f53", "host_d8ad0a7b-0b3e-4f3f-9d57-5d3a2b1c0e4f"
	mark := machinev1.LeaseMark(ours)
	eternal := lease("", others, time.Hour)
	eternal.Spec.RenewTime = nil
	endless := lease(mark, ours, time.Hour)
	endless.Spec.LeaseDurationSeconds = nil
	cases := map[string]struct {
		reason string
		lease  *coordinationv1.Lease
		want   Holder
	}{
		"None":       {"There is no such Lease.", nil, HolderNobody},
		"Empty":      {"It never had a holder.", &coordinationv1.Lease{}, HolderNobody},
		"GivenBack":  {"Its holder gave it back; the mark stays.", lease(mark, "", 0), HolderNobody},
		"Ours":       {"The mark fits the holder.", lease(mark, ours, 3*time.Second), HolderOurs},
		"MCM":        {"MCM marks nothing.", lease("", others, 3*time.Second), HolderForeign},
		"MCMAfterUs": {"MCM took the Lease over, and left our mark.", lease(mark, others, 3*time.Second), HolderForeign},
		"RanOut":     {"The holder died.", lease(mark, ours, time.Minute), HolderNobody},
		"MCMRanOut":  {"MCM died.", lease("", others, time.Minute), HolderNobody},
		"Late": {
			"Clocks differ, so a Lease that has just run out is held.", lease("", others, 40*time.Second),
			HolderForeign,
		},
		"Future":  {"They differ in the other direction, too.", lease(mark, ours, -time.Minute), HolderOurs},
		"Eternal": {"A holder that does not say when it renewed is there.", eternal, HolderForeign},
		"Endless": {"Or for how long.", endless, HolderOurs},
		"Unnamed": {"An identity without uuid fits no mark but its own.", lease(mark, "me", 0), HolderForeign},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := HolderOf(tc.lease, now); got != tc.want {
				t.Errorf("%s got %s, want %s", tc.reason, got, tc.want)
			}
		})
	}
}
