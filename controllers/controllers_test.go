package controllers

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSelect(t *testing.T) {
	t.Parallel()
	all := map[string]bool{"machines": true, "machinesets": true, "machinedeployments": true, "machineclasses": true}
	classOnly := map[string]bool{"machineclasses": true}
	without := func(name string) []string {
		var rest []string
		for _, n := range Names() {
			if n != name {
				rest = append(rest, n)
			}
		}
		return rest
	}
	cases := map[string]struct {
		reason string
		asked  []string
		served map[string]bool
		want   []string
		err    string
	}{
		"All":       {"the default is all controllers", []string{"*"}, all, Names(), ""},
		"Some":      {"named ones run in the list's order", []string{"machineset", "machine"}, all, []string{"machine", "machineset"}, ""},
		"LeftOut":   {"one can be left out", []string{"*", "-node"}, all, without("node"), ""},
		"Unknown":   {"a name that nobody has is an error with the names that there are", []string{"*", "nodes"}, all, nil, "machinesafetyorphanvms"},
		"NotServed": {"a door whose kinds are not served stays closed, and then there is nothing to do", []string{"*"}, classOnly, nil, "not served: machinedeployments, machines, machinesets"},
		"Named":     {"who asks for a controller learns what it lacks", []string{"machine"}, classOnly, nil, "needs machinedeployments"},
		"Nothing":   {"a manager without controllers is a mistake", []string{"-machine"}, all, nil, "no controller is left"},
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
