package rollout

import "testing"

func TestNewReplicas(t *testing.T) {
	t.Parallel()
	// at is a set that has all it is asked for, all available.
	at := func(n int) Set { return Set{Spec: n, Replicas: n, Live: n, Available: n} }
	for name, tc := range map[string]struct {
		reason  string
		bounds  Bounds
		current Set
		others  []Set
		want    int
	}{
		"Alone":      {"Without other sets everything is new at once.", Bounds{6, 10, 0}, at(2), nil, 6},
		"FirstSurge": {"A rollout starts with the surge.", Bounds{10, 2, 1}, Set{}, []Set{at(10)}, 2},
		"NoRoom":     {"Without surge an old machine must go first.", Bounds{10, 0, 1}, Set{}, []Set{at(10)}, 0},
		"TooLarge":   {"A set that is too large shrinks to what is wanted.", Bounds{1, 1, 0}, at(5), nil, 1},
		"TooLargeAndUnavailable": {
			"Which one goes is up to the set: a user's priority would choose an available machine.",
			Bounds{3, 1, 0},
			Set{Spec: 4, Replicas: 4, Live: 4, Available: 2, ProtectedUnavailable: 2},
			nil,
			4,
		},
		"TooLargeAndUnhealthy": {
			"An unhealthy machine goes at once.",
			Bounds{3, 1, 0},
			Set{Spec: 4, Replicas: 4, Live: 4, Available: 3},
			nil,
			3,
		},
		"TooLargeAndGone": {
			"A machine that is gone does not come back only to go again.",
			Bounds{3, 1, 0},
			Set{Spec: 4, Replicas: 4, Live: 3, Available: 1, ProtectedUnavailable: 3},
			nil,
			3,
		},
		"NoReplicas":   {"Nothing wanted, nothing made, whatever the surge.", Bounds{0, 2, 0}, Set{}, nil, 0},
		"NeverTooMany": {"Room beyond the replicas stays unused.", Bounds{4, 4, 0}, at(3), []Set{at(1)}, 4},
		"Terminating": {
			"Terminating machines take up room until they are gone.",
			Bounds{10, 2, 1},
			at(2),
			[]Set{{Spec: 8, Replicas: 10, Live: 8}},
			2,
		},
		"Gone": {"Room appears when they are gone.", Bounds{10, 2, 1}, at(2), []Set{at(8)}, 4},
		"NotYetMade": {
			"Machines that were asked for count before they are reported.",
			Bounds{10, 2, 1},
			Set{Spec: 2, Replicas: 2},
			[]Set{at(10)},
			2,
		},
		"SeveralOlds": {"All old sets take up room.", Bounds{10, 3, 1}, at(1), []Set{at(4), at(5)}, 4},
		"LessWanted":  {"With fewer wanted than exist the set keeps its size.", Bounds{5, 1, 0}, at(3), []Set{at(9)}, 3},
		"BeingDeleted": {
			"A set that is being deleted still has machines.",
			Bounds{10, 0, 1},
			Set{},
			[]Set{{Spec: 0, Replicas: 10}},
			0,
		},
		"MillionsFit": {
			"The largest number of replicas does not overflow.",
			Bounds{1<<31 - 1, 1<<31 - 1, 0},
			Set{},
			nil,
			1<<31 - 1,
		},
		"SurgeOfAtMost": {
			"Integration step 2e: 2 -> 4 replicas and a new template at once.",
			Bounds{4, 2, 1},
			Set{},
			[]Set{at(2)},
			4,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := NewReplicas(tc.bounds, tc.current, tc.others); got != tc.want {
				t.Errorf("%s\ngot %d, want %d", tc.reason, got, tc.want)
			}
		})
	}
}
