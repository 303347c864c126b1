package naming

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

func TestParseOrdinals(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		text   string
		want   Ordinals
		bad    bool
	}{
		"None":   {reason: "A set without record has made nothing.", text: ""},
		"Closed": {reason: "Without open, nothing is reserved.", text: "next=17", want: Ordinals{Next: 17, Open: 17}},
		"Open": {
			reason: "Open to next are reserved; earlier versions wrote when.", text: "next=17,open=12,at=99",
			want: Ordinals{Next: 17, Open: 12},
		},
		"FromZero": {
			reason: "The first reservation starts at 0.", text: "next=2,open=0",
			want: Ordinals{Next: 2, Open: 0},
		},
		"Negative":   {reason: "There is no negative ordinal.", text: "next=-1", bad: true},
		"OpenBeyond": {reason: "What is reserved is below next.", text: "next=1,open=2", bad: true},
		"TooLarge":   {reason: "There are only so many names.", text: "next=14348908", bad: true},
		"Unknown":    {reason: "A record of another kind is not guessed at.", text: "next=1,last=2", bad: true},
		"Garbage":    {reason: "Text is no record.", text: "seventeen", bad: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := ParseOrdinals(tc.text)
			if (err != nil) != tc.bad {
				t.Fatalf("%s error: %v", tc.reason, err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s\n%s", tc.reason, diff)
			}
			if again, _ := ParseOrdinals(got.String()); again != got {
				t.Errorf("%+v is not the same after writing and reading", got)
			}
		})
	}
}

func FuzzParseOrdinals(f *testing.F) {
	f.Add("next=17,open=12,at=1700000000")
	f.Add("next=,=,")
	f.Fuzz(func(t *testing.T, text string) {
		o, err := ParseOrdinals(text)
		if err != nil {
			return
		}
		if o.Open > o.Next || o.Next > NameCount || o.Open < 0 {
			t.Errorf("%q is read as %+v", text, o)
		}
	})
}

func TestReserve(t *testing.T) {
	t.Parallel()
	o, err := Ordinals{}.Reserve(3)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Ordinals{Next: 3, Open: 0}, o); diff != "" {
		t.Error(diff)
	}
	if second, err := o.Reserve(2); err != nil || second.Open != 0 || second.Next != 5 {
		t.Errorf("a second reservation keeps the first open, whose requests may be late: %+v, %v", second, err)
	}
	if second, err := o.Close().Reserve(2); err != nil || second.Open != 3 || second.Next != 5 {
		t.Errorf("a second reservation follows the first when nothing can be late: %+v, %v", second, err)
	}
	if o.Close().IsOpen() || o.Close().Next != 3 {
		t.Errorf("closed: %+v", o.Close())
	}
	if _, err := (Ordinals{Next: NameCount - 1, Open: NameCount - 1}).Reserve(2); err == nil {
		t.Error("there are not that many names")
	}
}

func TestUnfinished(t *testing.T) {
	t.Parallel()
	o := Ordinals{Next: 8, Open: 4}
	cases := map[string]struct {
		reason string
		exist  []int64
		want   []int64
	}{
		"None":   {reason: "Nothing was created.", want: []int64{4, 5, 6, 7}},
		"Some":   {reason: "The first two were created.", exist: []int64{4, 5}, want: []int64{6, 7}},
		"Gap":    {reason: "4 and 5 were created before 6, and are gone.", exist: []int64{6}, want: []int64{7}},
		"All":    {reason: "All were created.", exist: []int64{4, 5, 6, 7}},
		"Last":   {reason: "All were created, all but one are gone.", exist: []int64{7}},
		"Others": {reason: "Machines of other reservations say nothing.", exist: []int64{3, 8}, want: []int64{4, 5, 6, 7}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := o.Unfinished(func(i int64) bool { return slices.Contains(tc.exist, i) })
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s\n%s", tc.reason, diff)
			}
		})
	}
}

func TestRecover(t *testing.T) {
	t.Parallel()
	n := namesOf("set", "uid")
	machine := func(ordinal int64, owner string) *machinev1.Machine {
		return &machinev1.Machine{ObjectMeta: metav1.ObjectMeta{
			Name: n.Name(ordinal), Annotations: map[string]string{machinev1.OwnerIDAnnotation: owner},
		}}
	}
	if got := Recover(n, []*machinev1.Machine{machine(70000, "made by MCM")}); got.Next != 0 || got.IsOpen() {
		t.Errorf("a machine that MCM made has no ordinal, got %+v", got)
	}
	got := Recover(n, []*machinev1.Machine{machine(5, n.OwnerID(5)), machine(3, n.OwnerID(3))})
	if got.Next <= 5+1000 || got.IsOpen() {
		t.Errorf("a lost record goes on well behind the machines there are, got %+v", got)
	}
	last := NameCount - 1
	if got := Recover(n, []*machinev1.Machine{machine(last, n.OwnerID(last))}); got.Next > NameCount {
		t.Errorf("a record stays within the names, got %+v", got)
	}
}
