package controllers

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSelect(t *testing.T) {
	t.Parallel()
	all := func(k Kind) bool { return k.Version.Group == string(Native) }
	classOnly := func(k Kind) bool { return k.Plural == "machineclasses" }
	nothing := func(Kind) bool { return false }
	var native []string
	for _, c := range All() {
		if c.Group == Native {
			native = append(native, c.Name)
		}
	}
	without := func(name string) []string {
		var rest []string
		for _, n := range native {
			if n != name {
				rest = append(rest, n)
			}
		}
		return rest
	}
	cases := map[string]struct {
		reason string
		asked  []string
		served func(Kind) bool
		want   []string
		err    string
	}{
		"All": {"the default is all controllers whose kinds are served", []string{"*"}, all, native, ""},
		"Some": {
			"named ones run in the list's order",
			[]string{"machineset", "machine"},
			all,
			[]string{"machine", "machineset"},
			"",
		},
		"LeftOut": {"one can be left out", []string{"*", "-node"}, all, without("node"), ""},
		"Unknown": {
			"a name that nobody has is an error with the names that there are",
			[]string{"*", "nodes"},
			all, nil,
			"machinesafetyorphanvms",
		},
		"NotServed": {
			"an API whose kinds are not served stays closed, and then there is nothing to do",
			[]string{"*"},
			classOnly, nil, "machine.sapcloud.io lacks machinedeployments.machine.sapcloud.io, machines.machine.sapcloud.io, " +
				"machinesets",
		},
		"Named": {
			"who asks for a controller learns what it lacks",
			[]string{"machine"},
			classOnly, nil,
			"needs machinedeployments",
		},
		"Closed": {
			"no API is open before CRDs are applied",
			[]string{"*"},
			nothing, nil,
			"infrastructure.cluster.x-k8s.io lacks mcmclusters",
		},
		"Nothing": {"a manager without controllers is a mistake", []string{"-machine"}, all, nil, "no controller is left"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := Select(tc.asked, tc.served)
			if (err != nil) != (tc.err != "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Fatalf("%s: error %v, want %q in it", tc.reason, err, tc.err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}
