package rollout

import "testing"

func TestInPlaceReplicas(t *testing.T) {
	t.Parallel()
	at := func(n int) Set { return Set{Spec: n, Replicas: n, Live: n} }
	for name, tc := range map[string]struct {
		reason   string
		bounds   Bounds
		current  Set
		old      []Set
		fresh    bool
		want     int
		transfer bool

		undergoing int
	}{
		"First":   {"Without old machines all are made.", Bounds{5, 1, 1}, Set{}, nil, true, 5, false, 0},
		"Surge":   {"A new set begins with the surge.", Bounds{5, 1, 1}, Set{}, []Set{at(5)}, true, 1, false, 0},
		"NoSurge": {"Without surge it begins empty.", Bounds{5, 0, 1}, Set{}, []Set{at(5)}, true, 0, true, 0},
		"SurgeOnce": {
			"The surge is made once, not again and again.",
			Bounds{5, 1, 1},
			Set{},
			[]Set{at(5)},
			false, 0,
			true, 0,
		},
		"BackAgain": {
			"Nothing could be updated if none may be missing, so a set that exists gets the surge, too.",
			Bounds{5, 1, 0},
			Set{},
			[]Set{at(5)},
			false, 1,
			false, 0,
		},
		"SurgeLost": {
			"The surge is created once more where an old machine broke and none may be missing.",
			Bounds{5, 1, 0},
			at(2),
			[]Set{at(3)},
			false, 3,
			false, 0,
		},
		"SurgeLostWhileUpdating": {
			"No machine is created for one that is being updated, and will move.",
			Bounds{5, 2, 0},
			at(2),
			[]Set{at(3)},
			false, 3,
			false, 2,
		},
		"AllUpdating": {
			"Those that are being updated may move.",
			Bounds{2, 1, 0},
			at(1),
			[]Set{at(1)},
			false, 1,
			true, 1,
		},
		"MovedAway": {
			"After a rollback a set does not replace a machine that had moved away from it.",
			Bounds{4, 0, 1},
			Set{Spec: 4, Replicas: 4, Live: 3, Available: 3},
			[]Set{at(1)},
			false, 3,
			false, 0,
		},
		"SurgeKept": {
			"With the surge a machine may be missing.",
			Bounds{5, 1, 0},
			at(2),
			[]Set{at(4)},
			false, 2,
			true, 0,
		},
		"SurgeTerminating": {
			"A terminating machine still takes up the surge; those that are updated move meanwhile.",
			Bounds{5, 1, 0},
			at(2),
			[]Set{{Spec: 3, Replicas: 4, Live: 3}},
			false, 2,
			true, 0,
		},
		"Moving": {
			"Machines move while there are enough in all.",
			Bounds{5, 1, 1},
			at(1),
			[]Set{at(5)},
			false, 1,
			true, 0,
		},
		"Done": {"Nothing moves beyond what is wanted.", Bounds{5, 1, 1}, at(5), []Set{at(1)}, false, 5, false, 0},
		"TooLarge": {
			"A set that is too large shrinks.",
			Bounds{3, 1, 1},
			Set{Spec: 5, Replicas: 5, Live: 5, Available: 5},
			nil, false, 3, false, 0,
		},
		"TooLargeProtected": {
			"It shrinks only as far as availability allows.",
			Bounds{3, 1, 0},
			Set{Spec: 5, Replicas: 5, Live: 5, Available: 3, ProtectedUnavailable: 1},
			nil, false, 4, false, 0,
		},
		"ScaledOut": {
			"More wanted in the middle: the new set makes them.",
			Bounds{8, 0, 1},
			at(2),
			[]Set{at(3)},
			false,
			5, false, 0,
		},
		"OldLost": {"An old machine that broke is recreated.", Bounds{5, 0, 1}, at(2), []Set{at(2)}, false, 3, false, 0},
		"OldEmpty": {
			"With nothing left to update the rest is made.",
			Bounds{5, 0, 1},
			at(2),
			[]Set{at(0)},
			false, 5,
			false, 0,
		},
		"NotGivenUp": {
			"Old machines that are still there are not made once more.",
			Bounds{5, 0, 1},
			at(2),
			[]Set{{Spec: 2, Live: 3}},
			false, 2, true, 0,
		},
		"SeveralOldSets": {"All old sets count.", Bounds{5, 0, 1}, at(1), []Set{at(2), at(2)}, false, 1, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, transfer := InPlaceReplicas(tc.bounds, tc.current, tc.old, tc.undergoing, tc.fresh)
			if got != tc.want || transfer != tc.transfer {
				t.Errorf("%s\ngot %d, %t; want %d, %t", tc.reason, got, transfer, tc.want, tc.transfer)
			}
		})
	}
}

func TestInPlaceKeep(t *testing.T) {
	t.Parallel()
	at := func(n, available int) Set { return Set{Spec: n, Replicas: n, Live: n, Available: available} }
	for name, tc := range map[string]struct {
		reason  string
		current Set
		want    int
	}{
		"Updating": {"Machines that can be updated stay.", at(2, 2), 2},
		"Joining":  {"Machines of the new set that have not joined replace none.", at(3, 1), 2},
		"Joined":   {"As many go as have joined.", at(3, 2), 1},
		"Complete": {"None is needed any more.", at(3, 3), 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := InPlaceKeep(Bounds{3, 1, 0}, tc.current, []Set{at(2, 2)}); got[0] != tc.want {
				t.Errorf("%s\ngot %d, want %d", tc.reason, got[0], tc.want)
			}
		})
	}
}

func TestSelectable(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reason string
		bounds Bounds
		state  InPlace
		want   int
	}{
		"First": {"As many as may be missing.", Bounds{10, 0, 2}, InPlace{Asked: 10, Available: 10}, 2},
		"Busy": {
			"Those that are being updated are missing already.",
			Bounds{10, 0, 2},
			InPlace{Asked: 10, Available: 8, Undergoing: 2},
			0,
		},
		"OneBack": {
			"One that is back makes room for the next, though another is away.",
			Bounds{10, 0, 2},
			InPlace{Asked: 10, New: 1, NewAvailable: 1, Available: 9, Undergoing: 1},
			1,
		},
		"SurgeMissing": {
			"A surge machine that has not joined replaces nobody.",
			Bounds{10, 1, 0},
			InPlace{Asked: 11, New: 1, Available: 10},
			0,
		},
		"SurgeThere": {
			"One that has joined does.",
			Bounds{10, 1, 0},
			InPlace{Asked: 11, New: 1, NewAvailable: 1, Available: 11},
			1,
		},
		"Broken": {"Old machines that are broken are missing.", Bounds{10, 0, 2}, InPlace{Asked: 10, Available: 9}, 1},
		"AlmostDone": {
			"No more than are wanted in the end.",
			Bounds{10, 2, 5},
			InPlace{Asked: 12, New: 9, NewAvailable: 9, Available: 12},
			1,
		},
		"Enough": {
			"None when those under way suffice.",
			Bounds{10, 2, 5},
			InPlace{Asked: 12, New: 9, NewAvailable: 9, Available: 11, Undergoing: 1},
			0,
		},
		"ScaledIn": {
			"One of five is about to go, and it may be one that is available.",
			Bounds{4, 0, 1},
			InPlace{Asked: 5, Available: 5},
			1,
		},
		"TooFew": {"None below the minimum.", Bounds{10, 0, 1}, InPlace{Asked: 10, Available: 5}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := Selectable(tc.bounds, tc.state); got != tc.want {
				t.Errorf("%s\ngot %d, want %d", tc.reason, got, tc.want)
			}
		})
	}
}
