package machine

import (
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// Nodes that are missing when the manager starts, as after a restore of the target
// cluster, are judged like unhealthy ones: health timeout, one at a time, and not at all
// while several are missing together. A restart restarts nothing.
func TestMissingNodesAreUnhealthy(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		lost   []string
		ignore bool
		wait   time.Duration
		want   string // phases of a and b
	}{
		"Unknown": {
			reason: "Within the health timeout it may come back.", lost: []string{"a"}, wait: 9 * time.Minute,
			want: "Unknown Running",
		},
		"Lone": {
			reason: "One alone is replaced after the timeout.", lost: []string{"a"}, wait: 11 * time.Minute,
			want: "Failed Running",
		},
		"Together": {
			reason: "Several together are an outage.", lost: []string{"a", "b"}, wait: 90 * time.Minute,
			want: "Unknown Unknown",
		},
		"OneByOne": {
			reason: "Without that protection they go one at a time.", lost: []string{"a", "b"}, ignore: true,
			wait: 11 * time.Minute, want: "Failed Unknown",
		},
		"OverLimit": {
			reason: "Protection ends after two hours, and then they go one at a time.", lost: []string{"a", "b"},
			wait: 132 * time.Minute, want: "Failed Unknown",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, interceptor.Funcs{})
			w.options.IgnoreOutages = tc.ignore
			for _, m := range []string{"a", "b"} {
				w.runningIn(m, "pool", "z")
				_, _ = w.reconcile(m)
			}
			for _, m := range tc.lost {
				w.delete(w.nodeNamed(m))
			}
			for range 3 {
				w.restart()
				w.wait(tc.wait/3, "a", "b")
			}
			if got := w.phases("a", "b"); got != tc.want {
				t.Errorf("%s after %s, want %s: %s", got, tc.wait, tc.want, tc.reason)
			}
			if _, live := w.vms(); live != 2 {
				t.Errorf("%d VMs: %s", live, tc.reason)
			}
		})
	}
}
