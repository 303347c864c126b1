package migration

import (
	"testing"
)

func TestParsePool(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		reason, text string
		want         Pool // without a name: it is refused
	}{
		{"a name alone", "pool", Pool{KindDeployment, "ns", "pool"}},
		{"what String writes", "machineset/pool", Pool{KindSet, "ns", "pool"}},
		{"MCM's short name", "mcd/pool", Pool{KindDeployment, "ns", "pool"}},
		{"Cluster API's short name", "ma/m-1", Pool{KindMachine, "ns", "m-1"}},
		{"what kubectl get -o name prints", "machine.machine.sapcloud.io/m-1", Pool{KindMachine, "ns", "m-1"}},
		{"and of Cluster API", "machineset.cluster.x-k8s.io/s", Pool{KindSet, "ns", "s"}},
		{"with a version, as kubectl takes it", "machines.v1alpha1.machine.sapcloud.io/m-1", Pool{KindMachine, "ns", "m-1"}},
		{"in any case", "Machine/m-1", Pool{KindMachine, "ns", "m-1"}},
		{"a mistyped kind is no MachineDeployment", "machin/m-1", Pool{}},
		{"nor is another kind", "node/m-1", Pool{}},
		{"nor one of another group", "machines.example.org/m-1", Pool{}},
		{"no name", "machine/", Pool{}},
		{"nothing", "", Pool{}},
		{"a namespace is said by --namespace", "machine/ns/m-1", Pool{}},
	} {
		got, err := ParsePool("ns", c.text)
		if got != c.want || (err == nil) != (c.want.Name != "") {
			t.Errorf("%s: %q is %v, %v", c.reason, c.text, got, err)
		}
	}
}
