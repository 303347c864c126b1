package joining

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// machineThat is one that joined, or failed to, at that time.
func machineThat(status corev1.ConditionStatus, reason string, at time.Time) *machinev1.Machine {
	m := &machinev1.Machine{}
	m.Status.Conditions = Record(nil, corev1.NodeCondition{
		Status: status, Reason: reason, LastTransitionTime: metav1.NewTime(at),
	})
	return m
}

func TestRolloutNext(t *testing.T) {
	t.Parallel()
	failed := machineThat(corev1.ConditionFalse, machinev1.ReasonFailedJoin, noon)
	joined := machineThat(corev1.ConditionTrue, machinev1.ReasonJoined, ago(time.Hour))
	cases := map[string]struct {
		reason   string
		before   Rollout
		machines []*machinev1.Machine
		after    Rollout
	}{
		"Creating": {
			"A machine that is being created has not failed.",
			Rollout{},
			[]*machinev1.Machine{{}},
			Rollout{Set: "new"},
		},
		"First": {
			"One failure may be the machine's own fault.",
			Rollout{},
			[]*machinev1.Machine{failed},
			Rollout{Set: "new", Cycles: 1, Counted: noon},
		},
		"SameCycle": {
			"What fails together is counted once.",
			Rollout{Set: "new", Cycles: 1, Counted: ago(19 * time.Minute)},
			[]*machinev1.Machine{failed},
			Rollout{Set: "new", Cycles: 1, Counted: ago(19 * time.Minute)},
		},
		"Pauses": {
			"The second cycle shows that it is the template.",
			Rollout{Set: "new", Cycles: 1, Counted: ago(20 * time.Minute)},
			[]*machinev1.Machine{failed},
			Rollout{Set: "new", Cycles: 2, Counted: noon, Paused: true},
		},
		"Joined": {
			"A machine that joined shows that the template works.",
			Rollout{Set: "new", Cycles: 2, Counted: noon, Paused: true},
			[]*machinev1.Machine{failed, joined},
			Rollout{},
		},
		"OtherTemplate": {
			"A corrected template starts over.",
			Rollout{Set: "bad", Cycles: 2, Counted: noon, Paused: true},
			nil,
			Rollout{Set: "new"},
		},
		"Stays": {
			"The pause does not end by itself.",
			Rollout{Set: "new", Cycles: 2, Counted: ago(time.Hour), Paused: true},
			[]*machinev1.Machine{failed},
			Rollout{Set: "new", Cycles: 2, Counted: ago(time.Hour), Paused: true},
		},
		"Resumed": {
			"What failed before the user resumed the rollout is not counted again.",
			Rollout{Set: "new", Cycles: 2, Counted: noon},
			[]*machinev1.Machine{failed},
			Rollout{Set: "new", Counted: noon},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := tc.before.Next("new", 20*time.Minute, 2, tc.machines); got != tc.after {
				t.Errorf("%+v, want %+v: %s", got, tc.after, tc.reason)
			}
		})
	}
}

// TestRolloutAnnotations: the record outlives the manager and the status.
func TestRolloutAnnotations(t *testing.T) {
	t.Parallel()
	for _, want := range []Rollout{
		{},
		{Set: "new", Counted: noon},
		{Set: "new", Cycles: 1, Counted: noon},
		{Set: "new", Cycles: 2, Counted: noon, Paused: true},
	} {
		d := &machinev1.MachineDeployment{}
		Rollout{Set: "former", Cycles: 9, Counted: noon, Paused: true}.Annotate(d)
		want.Annotate(d)
		if got := RolloutOf(d); got != want {
			t.Errorf("read %+v, want %+v", got, want)
		}
	}
	for _, broken := range []string{
		"new", "new x 2026-01-01T12:00:00Z", "new 2 noon", "new -1 2026-01-01T12:00:00Z", "a b c d",
	} {
		d := &machinev1.MachineDeployment{}
		machinev1.SetAnnotation(d, machinev1.FailedRolloutAnnotation, broken)
		if got := RolloutOf(d); got != (Rollout{}) {
			t.Errorf("%q was read as %+v, want nothing", broken, got)
		}
	}
}
