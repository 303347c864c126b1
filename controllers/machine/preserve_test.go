package machine

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

func TestActOf(t *testing.T) {
	t.Parallel()
	cases := []struct {
		value           string
		failed, expired bool
		want            act
		reason          string
	}{
		{"", true, false, actStop, "no wish ends preservation"},
		{"false", true, false, actStop, "false ends preservation"},
		{"when-failed", false, false, actStop, "a machine that recovered is not kept, the wish stays"},
		{"when-failed", true, false, actKeep, "a failed machine is kept"},
		{"when-failed", true, true, actStopClear, "its time is over"},
		{"now", false, false, actKeep, "now means any phase"},
		{"now", true, true, actStopClear, "its time is over"},
		{"auto-preserved", true, false, actKeep, "kept by the set"},
		{"auto-preserved", false, false, actStopClear, "a machine that recovered gives its place back"},
		{"auto-preserved", true, true, actStopClear, "its time is over"},
	}
	for _, tc := range cases {
		if got := actOf(tc.value, tc.failed, tc.expired); got != tc.want {
			t.Errorf("actOf(%q, failed %v, expired %v) = %d, want %d: %s", tc.value, tc.failed, tc.expired, got, tc.want, tc.reason)
		}
	}
}

func TestWishOf(t *testing.T) {
	t.Parallel()
	const key, last = machinev1.PreserveAnnotation, machinev1.LastAppliedNodePreserveAnnotation
	type notes = map[string]string
	cases := map[string]struct {
		reason   string
		machine  notes
		node     notes
		noNode   bool
		want     wish
		warns    bool
		disabled bool
	}{
		"MachineOnly":     {reason: "Without a word on the node the Machine's counts.", machine: notes{key: "now"}, want: wish{"now", false}},
		"NodeWins":        {reason: "The node's word wins.", machine: notes{key: "now"}, node: notes{key: "false"}, want: wish{"false", true}},
		"NodeTakenBack":   {reason: "A word on the node that was taken back ends it.", machine: notes{key: "now", last: "now"}, want: wish{"", true}},
		"NoNode":          {reason: "Without a node the Machine's counts.", machine: notes{key: "when-failed", last: "now"}, noNode: true, want: wish{"when-failed", false}},
		"BadOnMachine":    {reason: "A bad value on the Machine counts as none, and is told.", machine: notes{key: "yes"}, want: wish{}, warns: true},
		"BadOnNode":       {reason: "A bad value on the node changes nothing, and is told.", machine: notes{key: "now"}, node: notes{key: "yes"}, warns: true, disabled: true},
		"NothingAnywhere": {reason: "Nobody asks for anything.", want: wish{}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, n := &machinev1.Machine{}, &corev1.Node{}
			m.Annotations, n.Annotations = tc.machine, tc.node
			if tc.noNode {
				n = nil
			}
			got, warning, ok := wishOf(m, n)
			if got != tc.want || (warning != "") != tc.warns || ok == tc.disabled {
				t.Errorf("wishOf() = %+v, %q, %v; want %+v: %s", got, warning, ok, tc.want, tc.reason)
			}
		})
	}
}
