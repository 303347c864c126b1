package rollout

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// day returns a set that was created on a day.
func day(n int, s Set) Set {
	s.Created = time.Date(2026, 1, n, 0, 0, 0, 0, time.UTC)
	return s
}

func TestOldReplicas(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reason  string
		bounds  Bounds
		current Set
		old     []Set
		want    []int
	}{
		"FirstStep": {
			"As many go as may be missing; what was just asked for is not there.",
			Bounds{10, 2, 1},
			Set{Spec: 2, Replicas: 2},
			[]Set{{Spec: 10, Available: 10}},
			[]int{9},
		},
		"NewAvailable": {
			"Each new machine that is available frees an old one.",
			Bounds{10, 2, 1},
			Set{Spec: 2, Available: 2},
			[]Set{{Spec: 9, Available: 9}},
			[]int{7},
		},
		"NoneMayBeMissing": {
			"Without unavailability the surge must be available first.",
			Bounds{10, 2, 0},
			Set{Spec: 2, Available: 1},
			[]Set{{Spec: 10, Available: 10}},
			[]int{9},
		},
		"UnhealthyFirst": {
			"Broken machines cost no availability, in whichever set they are.",
			Bounds{10, 0, 2},
			Set{},
			[]Set{day(1, Set{Spec: 6, Available: 6}), day(2, Set{Spec: 4, Available: 2})},
			[]int{6, 2},
		},
		"OldestFirst": {
			"Older sets shrink before younger ones, whatever their order here.",
			Bounds{10, 0, 3},
			Set{},
			[]Set{day(2, Set{Spec: 8, Available: 8}), day(1, Set{Spec: 2, Available: 2})},
			[]int{7, 0},
		},
		"StaleReport": {
			"A set that still reports machines it was told to give up loses none twice.",
			Bounds{10, 2, 1},
			Set{Spec: 2},
			[]Set{{Spec: 9, Available: 10}},
			[]int{9},
		},
		"PreservedStays": {
			"A failed machine that is kept hides no healthy one: it would go last.",
			Bounds{10, 2, 0},
			Set{Spec: 7, Available: 7},
			[]Set{{Spec: 4, Available: 3, Preserved: 1}},
			[]int{3},
		},
		"PriorityFirst": {
			"A healthy machine with a priority goes before a broken one, so the broken one frees nothing.",
			Bounds{4, 0, 1},
			Set{},
			[]Set{{Spec: 4, Available: 3, ProtectedUnavailable: 1}},
			[]int{4},
		},
		"NotEnough": {
			"With too few available nothing goes.",
			Bounds{10, 0, 1},
			Set{Spec: 3, Available: 0},
			[]Set{{Spec: 6, Available: 6}},
			[]int{6},
		},
		"Nothing": {
			"With nothing wanted everything goes.",
			Bounds{0, 1, 0},
			Set{},
			[]Set{{Spec: 3, Available: 3}, {Spec: 2, Available: 0}},
			[]int{0, 0},
		},
		"Last": {
			"When all new ones are available the rest goes.",
			Bounds{10, 2, 1},
			Set{Spec: 10, Available: 10},
			[]Set{{Spec: 2, Available: 1}},
			[]int{0},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, oldReplicas(tc.bounds, tc.current, tc.old)); diff != "" {
				t.Errorf("%s\n%s", tc.reason, diff)
			}
		})
	}
}

// TestStepsKeepBounds tries many states: no step asks for more machines than
// replicas + surge, and none leaves fewer available ones than there must be,
// even if every machine that goes is an available one after the broken ones.
func TestStepsKeepBounds(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for range 20000 {
		b := Bounds{Replicas: r.IntN(20), Surge: r.IntN(5)}
		b.Unavailable = min(r.IntN(5), b.Replicas)
		newSet, old := anySet(r), []Set{day(1, anySet(r)), day(2, anySet(r))}
		size := NewReplicas(b, newSet, old)
		if before := sum(old, replicas) + newSet.Replicas; size > newSet.Spec && before+size-newSet.Spec > b.Allowed() {
			t.Fatalf("%+v: %+v grows to %d beside %+v", b, newSet, size, old)
		}
		newSet.Spec = size
		staying := func(s Set) int { return min(s.Available, s.Spec) }
		before := sum(old, staying) + staying(newSet)
		after := staying(newSet)
		for i, keep := range oldReplicas(b, newSet, old) {
			if keep < 0 || keep > old[i].Spec {
				t.Fatalf("%+v: old set of %d shall keep %d", b, old[i].Spec, keep)
			}
			// Failed machines go first, then available ones, then preserved ones.
			after += min(staying(old[i]), max(keep-old[i].Preserved, 0))
		}
		if missed := b.MinAvailable() - sum(old, preserved); after < min(before, missed) {
			t.Fatalf("%+v: %d of %d stay available\ncurrent %+v\nold %+v", b, after, before, newSet, old)
		}
	}
}

func anySet(r *rand.Rand) Set {
	s := Set{Spec: r.IntN(12)}
	s.Live = s.Spec + r.IntN(3)
	s.Available = r.IntN(s.Live + 1)
	s.Preserved = r.IntN(max(s.Spec-s.Available, 0) + 1)
	s.Replicas = s.Live + r.IntN(3)
	return s
}
