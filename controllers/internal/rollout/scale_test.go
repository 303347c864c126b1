package rollout

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// asked is a set of n machines, all there, that was scaled for a deployment of
// desired replicas and a surge of 2.
func asked(created, n, desired int) Set {
	return day(created, Set{Spec: n, Replicas: n, Live: n, Available: n, Desired: new(desired), Max: new(desired + 2)})
}

func TestScaling(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reason  string
		wanted  int
		current *Set
		others  []Set
		want    bool
	}{
		"Same":           {"Nothing has changed.", 10, new(asked(2, 3, 10)), []Set{asked(1, 7, 10)}, false},
		"Out":            {"The annotation tells.", 12, new(asked(2, 3, 10)), []Set{asked(1, 7, 10)}, true},
		"OldTells":       {"An old active set tells as well.", 12, new(asked(2, 3, 12)), []Set{asked(1, 7, 10)}, true},
		"NoTemplate":     {"A new template goes first.", 12, nil, []Set{asked(1, 7, 10)}, false},
		"InactiveSilent": {"Sets without machines tell nothing.", 10, new(asked(2, 10, 10)), []Set{asked(1, 0, 7)}, false},
		"Unannotated":    {"A set that was never scaled tells nothing.", 10, &Set{Spec: 10}, nil, false},
		"FromZero":       {"Growing from nothing is scaling.", 3, &Set{}, nil, true},
		"FromZeroBusy": {
			"Not while old machines are terminating: Recreate waits for them.", 3, &Set{},
			[]Set{{Replicas: 2}},
			false,
		},
		"StillZero": {"Nothing wanted and nothing there.", 0, &Set{}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := Scaling(tc.wanted, tc.current, tc.others); got != tc.want {
				t.Errorf("%s\ngot %t", tc.reason, got)
			}
		})
	}
}

func TestScaled(t *testing.T) {
	t.Parallel()
	marks := func(n int, s Set) Set { s.Marked = n; return s }
	terminating := func(n int, s Set) Set { s.Replicas += n; return s }
	unspent := func(n int, s Set) Set { s.Live += n; s.Replicas += n; return s }
	broken := func(n int, s Set) Set { s.Available -= n; return s }
	rolling := func(replicas int) Bounds { return Bounds{replicas, 2, 1} }
	for name, tc := range map[string]struct {
		reason  string
		bounds  Bounds
		sets    []Set
		current int
		passive bool
		want    []int
	}{
		"Single":    {"The only active set gets all.", rolling(12), []Set{asked(1, 10, 10)}, 0, false, []int{12}},
		"SingleOld": {"Even if it is an old one.", rolling(12), []Set{asked(1, 10, 10), {}}, 1, false, []int{12, 0}},
		"SingleIn":  {"In as well.", rolling(3), []Set{asked(1, 10, 10)}, 0, false, []int{3}},
		"Latest": {
			"From zero the set with the template grows.", rolling(5),
			[]Set{day(1, Set{}), day(2, Set{})},
			1,
			false,
			[]int{0, 5},
		},
		"YoungestOfAll": {
			"Without one the youngest grows.", rolling(5),
			[]Set{day(1, Set{}), day(2, Set{})},
			-1, false,
			[]int{0, 5},
		},
		"LatestBusy": {
			"Machines that were not given up yet leave less room.", rolling(5),
			[]Set{unspent(4, day(1, Set{})), day(2, Set{})},
			1, false,
			[]int{0, 3},
		},
		"None": {"Without sets there is nothing to scale.", rolling(5), nil, -1, false, []int{}},
		"Out": {
			"Out goes to the new set alone.", rolling(20),
			[]Set{asked(1, 7, 10), asked(2, 5, 10)},
			1, false,
			[]int{7, 15},
		},
		"OutSurge": {
			"The surge makes no set larger than all replicas: it would give a machine up at once.", rolling(5),
			[]Set{asked(1, 1, 4), asked(2, 4, 4)},
			1, false,
			[]int{1, 5},
		},
		"OutUnspent": {
			"Machines that were not given up yet are not made once more.", rolling(20),
			[]Set{unspent(3, asked(1, 7, 10)), asked(2, 5, 10)},
			1, false,
			[]int{7, 12},
		},
		"OutPaused": {
			"Without a new set the largest grows.", rolling(20),
			[]Set{asked(1, 7, 10), asked(2, 5, 10)},
			-1,
			false,
			[]int{17, 5},
		},
		"OutPassive": {
			"An update in place distributes by itself.", rolling(20),
			[]Set{asked(1, 7, 10), asked(2, 5, 10)},
			1, true,
			[]int{7, 5},
		},
		"InProportion": {
			"In is taken from all in proportion to their size.", rolling(4),
			[]Set{asked(1, 8, 10), asked(2, 4, 10)},
			1, false,
			[]int{4, 2},
		},
		"InRounded": {
			"The largest bears what rounding leaves.", rolling(9),
			[]Set{asked(1, 6, 10), asked(2, 3, 10), asked(3, 3, 10)},
			2, false,
			[]int{5, 3, 3},
		},
		"InToZero": {
			"Zero takes everything.", rolling(0),
			[]Set{asked(1, 6, 10), asked(2, 6, 10)},
			1, false,
			[]int{0, 0},
		},
		"InPassive": {
			"In is taken in an update in place as well.", rolling(4),
			[]Set{asked(1, 8, 10), asked(2, 4, 10)},
			1, true,
			[]int{4, 2},
		},
		"InMarked": {
			"A machine that was chosen goes, though it is in the smaller set.", rolling(9),
			[]Set{asked(1, 8, 10), marks(1, asked(2, 4, 10))},
			1, false,
			[]int{8, 3},
		},
		"InTwoMarked": {
			"Each set loses those chosen in it.", rolling(8),
			[]Set{marks(1, asked(1, 8, 10)), marks(1, asked(2, 4, 10))},
			1, false,
			[]int{7, 3},
		},
		"InManyMarked": {
			"More were chosen than shall go: only as many go.", rolling(9),
			[]Set{asked(1, 8, 10), marks(4, asked(2, 4, 10))},
			1, false,
			[]int{8, 3},
		},
		"InKeepsAvailable": {
			"While a rollout is stuck, the machines that serve stay.",
			Bounds{3, 1, 1},
			[]Set{asked(1, 2, 7), broken(5, asked(2, 5, 7))},
			1, false,
			[]int{2, 2},
		},
		"InKeepsNoMore": {
			"What may be unavailable goes in proportion.",
			Bounds{4, 1, 2},
			[]Set{asked(1, 4, 8), broken(4, asked(2, 4, 8))},
			1, false,
			[]int{2, 3},
		},
		"InKeepsAllThereIs": {
			"Fewer are available than may be: those that are stay.",
			Bounds{6, 1, 1},
			[]Set{broken(2, asked(1, 6, 9)), broken(4, asked(2, 4, 9))},
			1, false,
			[]int{4, 3},
		},
		"InEqual": {
			"Of equal sets the older one shrinks.", rolling(9),
			[]Set{asked(2, 6, 10), asked(1, 6, 10)},
			0,
			false,
			[]int{6, 5},
		},
		"Within": {
			"While the surge covers it nothing is taken.", rolling(9),
			[]Set{asked(1, 6, 10), asked(2, 5, 10)},
			1, false,
			[]int{6, 5},
		},
		"Saturated": {
			"A new set that has all lets the old ones go.", rolling(10),
			[]Set{asked(1, 2, 8), asked(2, 10, 10)},
			1, false,
			[]int{0, 10},
		},
		"Terminating": {
			"Terminating machines do not keep a set from growing.", rolling(20),
			[]Set{terminating(5, asked(1, 7, 10)), asked(2, 5, 10)},
			1, false,
			[]int{7, 15},
		},
		"Unannotated": {
			"Without annotation the present size is the whole.", rolling(4),
			[]Set{{Spec: 8, Replicas: 8, Live: 8}, {Name: "b", Spec: 4, Replicas: 4, Live: 4}},
			1, false,
			[]int{4, 2},
		},
		"ZeroAnnotated": {
			"A whole of zero divides nothing.", rolling(1),
			[]Set{{Spec: 3, Max: new(0)}, {Spec: 3, Name: "b", Max: new(0)}},
			1, false,
			[]int{0, 3},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, Scaled(tc.bounds, tc.sets, tc.current, !tc.passive)); diff != "" {
				t.Errorf("%s\n%s", tc.reason, diff)
			}
		})
	}
}
