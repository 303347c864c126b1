package class_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/class"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/harness"
)

func TestSubstitutes(t *testing.T) {
	t.Parallel()
	named := func(name string, change ...func(*machinev1.MachineClass)) *machinev1.MachineClass {
		return machineClass(append(change, func(c *machinev1.MachineClass) { c.Name = name })...)
	}
	spec := func(from, to string) func(*machinev1.MachineClass) {
		return func(c *machinev1.MachineClass) { c.ProviderSpec.Raw = []byte(strings.ReplaceAll(goodSpec, from, to)) }
	}
	objects := harness.New(t, harness.With(boot, keys,
		named("c"), named("b"), // equal: one of them
		named("type", spec("small", "large")), // equal, too
		named("region", spec("sim-1", "sim-2")), named("owner", spec("cluster/c", "cluster/d")),
		named("unknown", func(c *machinev1.MachineClass) { c.Provider = "nebula" }),
		named("poor", func(c *machinev1.MachineClass) { c.CredentialsSecretRef = nil }),
		named("elsewhere", func(c *machinev1.MachineClass) { c.Namespace = "other" }),
	)).Raw
	cases := map[string]struct {
		reason, providerID, first string
		want                      []string
	}{
		"ByName": {
			reason:     "One of each place, sorted by name, of those that can ask the cloud.",
			providerID: "sim:///sim-1/vm-1", want: []string{"b", "owner", "region"},
		},
		"First": {
			reason:     "What was recorded comes first, also before an equal one.",
			providerID: "sim:///sim-1/vm-1", first: "type", want: []string{"type", "owner", "region"},
		},
		"FirstIsGone": {
			reason:     "What does not exist any more is not missed.",
			providerID: "sim:///sim-1/vm-1", first: "none", want: []string{"b", "owner", "region"},
		},
		"OtherCloud": {reason: "No class of another cloud is asked.", providerID: "aws:///eu/i-1"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found, err := class.Substitutes(t.Context(), objects, class.Search{
				Resolve: resolver(t).Resolve, Namespace: "default", ProviderID: tc.providerID, First: tc.first,
			})
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, r := range found {
				names = append(names, r.Object.Name)
			}
			if diff := cmp.Diff(tc.want, names); diff != "" {
				t.Errorf("%s\n%s", tc.reason, diff)
			}
		})
	}
}
