package rollout

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

func revised(revision string) *machinev1.MachineSet {
	return &machinev1.MachineSet{ObjectMeta: metav1.ObjectMeta{
		Annotations: map[string]string{machinev1.RevisionAnnotation: revision},
	}}
}

func TestRevisions(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reason    string
		revisions []string
		max, last int64
	}{
		"None":       {"Without sets there is none.", nil, 0, 0},
		"One":        {"One set has no earlier one.", []string{"1"}, 1, 0},
		"Several":    {"The second highest is the last.", []string{"3", "1", "2"}, 3, 2},
		"Unparsable": {"Others are skipped.", []string{"3", "x", "1"}, 3, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var sets []*machinev1.MachineSet
			for _, r := range tc.revisions {
				sets = append(sets, revised(r))
			}
			if highest, last := maxRevision(sets), LastRevision(sets); highest != tc.max || last != tc.last {
				t.Errorf("%s\ngot %d, %d; want %d, %d", tc.reason, highest, last, tc.max, tc.last)
			}
		})
	}
}

func TestPromote(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reason  string
		own     map[string]string
		others  []*machinev1.MachineSet
		want    map[string]string
		changed bool
	}{
		"First": {"The first set has revision 1.", nil, nil, map[string]string{machinev1.RevisionAnnotation: "1"}, true},
		"Next": {
			"The next has one more.", nil,
			[]*machinev1.MachineSet{revised("4")},
			map[string]string{machinev1.RevisionAnnotation: "5"},
			true,
		},
		"Unchanged": {
			"The highest one stays, and its history does not grow (facts 9.3.13).",
			map[string]string{machinev1.RevisionAnnotation: "5", "other": "changed"},
			[]*machinev1.MachineSet{revised("4")},
			map[string]string{machinev1.RevisionAnnotation: "5", "other": "changed"},
			false,
		},
		"Back": {
			"A set that is used again keeps its former revisions.",
			map[string]string{machinev1.RevisionAnnotation: "3", machinev1.RevisionHistoryAnnotation: "1"},
			[]*machinev1.MachineSet{revised("4")},
			map[string]string{machinev1.RevisionAnnotation: "5", machinev1.RevisionHistoryAnnotation: "1,3"},
			true,
		},
		"Unparsable": {
			"An unparsable one is replaced.",
			map[string]string{machinev1.RevisionAnnotation: "x"},
			nil,
			map[string]string{machinev1.RevisionAnnotation: "1"},
			true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &machinev1.MachineSet{ObjectMeta: metav1.ObjectMeta{Annotations: tc.own}}
			if changed := SetNewRevision(s, tc.others); changed != tc.changed {
				t.Errorf("%s\nchanged is %t", tc.reason, changed)
			}
			if diff := cmp.Diff(tc.want, s.Annotations); diff != "" {
				t.Errorf("%s\n%s", tc.reason, diff)
			}
		})
	}
}

func TestHistoryIsBounded(t *testing.T) {
	t.Parallel()
	list := ""
	for i := range 5000 {
		list = history(list, int64(i+1))
	}
	if len(list) > historyMax {
		t.Errorf("history has %d bytes", len(list))
	}
	if entries := strings.Split(list, ","); entries[len(entries)-1] != strconv.Itoa(5000) {
		t.Errorf("the newest revision is lost: %s", entries[len(entries)-1])
	}
}

func TestSuperfluous(t *testing.T) {
	t.Parallel()
	set := func(name string, created int64, change func(*machinev1.MachineSet)) *machinev1.MachineSet {
		s := &machinev1.MachineSet{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.Unix(created, 0)}}
		if change != nil {
			change(s)
		}
		return s
	}
	a, b, c := set("a", 1, nil), set("b", 2, nil), set("c", 3, nil)
	for name, tc := range map[string]struct {
		reason string
		old    []*machinev1.MachineSet
		limit  *int32
		want   []string
	}{
		"All":      {"Without a limit all are kept.", []*machinev1.MachineSet{a, b, c}, nil, nil},
		"Oldest":   {"The oldest go.", []*machinev1.MachineSet{c, a, b}, new(int32(1)), []string{"a", "b"}},
		"Enough":   {"Up to the limit none goes.", []*machinev1.MachineSet{a, b}, new(int32(2)), nil},
		"Zero":     {"None is kept.", []*machinev1.MachineSet{a}, new(int32(0)), []string{"a"}},
		"Negative": {"Less than none is none.", []*machinev1.MachineSet{a}, new(int32(-3)), []string{"a"}},
		"HasWish": {"A set that shall have machines stays.", []*machinev1.MachineSet{set("x", 0,
			func(s *machinev1.MachineSet) { s.Spec.Replicas = 1 }), b}, new(int32(0)), []string{"b"}},
		"HasMachine": {"A set that has machines stays.", []*machinev1.MachineSet{set("x", 0, func(s *machinev1.MachineSet) {
			s.Status.Replicas = 1
		}), b}, new(int32(0)), []string{"b"}},
		"Unseen": {"A set that has not seen its size stays.", []*machinev1.MachineSet{set("x", 0,
			func(s *machinev1.MachineSet) { s.Generation = 2 }), b}, new(int32(0)), []string{"b"}},
		"Going": {"A set that goes does not count.", []*machinev1.MachineSet{set("x", 0, func(s *machinev1.MachineSet) {
			s.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
		}), b}, new(int32(1)), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, s := range BeyondHistoryLimit(tc.old, tc.limit) {
				got = append(got, s.Name)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s\n%s", tc.reason, diff)
			}
		})
	}
}
