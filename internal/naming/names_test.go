package naming

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

func namesOf(name, uid string) Names {
	return NewNames(&machinev1.MachineSet{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(uid)}})
}

// Every ordinal has a name of its own, and every name its ordinal.
func TestNamesAreABijection(t *testing.T) {
	t.Parallel()
	step := int64(1)
	if testing.Short() {
		step = 97
	}
	for _, uid := range []string{"", "0b1cf5a5-6c1a-4a2e-8f0e-7d1a3b1c2d3e"} {
		n := namesOf("set", uid)
		seen := make([]uint64, NameCount/64+1)
		for ordinal := int64(0); ordinal < NameCount; ordinal += step {
			value := n.permute(ordinal)
			if value < 0 || value >= NameCount || seen[value/64]&(1<<(value%64)) != 0 {
				t.Fatalf("uid %q: ordinal %d goes to %d, which is taken or out of bounds", uid, ordinal, value)
			}
			seen[value/64] |= 1 << (value % 64)
			if n.restore(value) != ordinal {
				t.Fatalf("uid %q: %d does not lead back to ordinal %d", uid, value, ordinal)
			}
		}
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 252)
	cases := map[string]struct {
		reason string
		name   string
		prefix string
	}{
		"Short": {reason: "A name is that of the set and five characters.", name: "s", prefix: "s-"},
		"Long": {
			reason: "A name fits into a label, as those do that the API server makes.", name: long,
			prefix: long[:58],
		},
		"WithDots": {
			reason: "A name that is cut at a dot is still one.", name: strings.Repeat("a", 57) + ".b",
			prefix: strings.Repeat("a", 57) + ".",
		},
		"JustFits": {
			reason: "57 characters and the dash are not cut.", name: strings.Repeat("a", 57),
			prefix: strings.Repeat("a", 57) + "-",
		},
		"CutAtDash": {
			reason: "A name that is cut at a dash is still one.", name: strings.Repeat("a", 56) + "--b",
			prefix: strings.Repeat("a", 56) + "--",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			n := namesOf(tc.name, "uid")
			for _, ordinal := range []int64{0, 1, 4711, NameCount - 1} {
				got := n.Name(ordinal)
				if !strings.HasPrefix(got, tc.prefix) || len(got) != len(tc.prefix)+5 {
					t.Errorf("%s got %q", tc.reason, got)
				}
				if problems := validation.IsDNS1123Subdomain(got); len(problems) > 0 {
					t.Errorf("%s %q: %v", tc.reason, got, problems)
				}
				if back, ok := n.Ordinal(got); !ok || back != ordinal {
					t.Errorf("%q leads back to %d, %v", got, back, ok)
				}
			}
		})
	}
}

func TestNamesDependOnUID(t *testing.T) {
	t.Parallel()
	a, b := namesOf("set", "a"), namesOf("set", "b")
	same := 0
	for ordinal := range int64(1000) {
		if a.Name(ordinal) == b.Name(ordinal) {
			same++
		}
		if a.OwnerID(ordinal) == b.OwnerID(ordinal) {
			t.Fatalf("two sets give ordinal %d the same owner id", ordinal)
		}
	}
	if same > 5 {
		t.Errorf("a set and its successor share %d of 1000 names", same)
	}
	if a.Name(7) != namesOf("set", "a").Name(7) || a.OwnerID(7) != namesOf("set", "a").OwnerID(7) {
		t.Error("name and owner id follow from UID and ordinal alone")
	}
}

func TestOrdinalOfStrangeNames(t *testing.T) {
	t.Parallel()
	n := namesOf("set", "uid")
	for _, name := range []string{"", "set-", "set-bcdf", "set-bcdfgh", "set-aeiou", "other-bcdfg"} {
		if _, ok := n.Ordinal(name); ok {
			t.Errorf("%q has no ordinal", name)
		}
	}
}
