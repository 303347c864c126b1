package main

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// lost are a class that lists three VMs, the set of two of them, and a Node.
func lost() []client.Object {
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "garden", Name: name} }
	class := &machinev1.MachineClass{ObjectMeta: meta("class")}
	class.Annotations = map[string]string{
		machinev1.HeldOrphansAnnotation: `{"vms":9,"limit":3,"count":5,"classes":["garden/class"],"orphans":[` +
			`{"id":"vm-1","machine":"pool-bcdfg-22222","ownerID":"o-1","providerID":"sim:///r/vm-1","node":"node-1"},` +
			`{"id":"vm-2","machine":"pool-bcdfg-44444","ownerID":"o-2","providerID":"sim:///r/vm-2","node":"node-2"},` +
			`{"id":"vm-3","machine":"by-hand","ownerID":"o-3","providerID":"sim:///r/vm-3"}]}`,
	}
	set := &machinev1.MachineSet{ObjectMeta: meta("pool-bcdfg")}
	set.UID, set.Spec.Replicas, set.Spec.Template.Spec.Class.Name = "set", 1, "class"
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}, Spec: corev1.NodeSpec{ProviderID: "sim:///z/vm-1"}}
	return []client.Object{class, set, node}
}

func TestRecover(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		args string
		none bool
		want []string
		not  string
		err  string
	}{
		"Plan": {args: "recover plan", want: []string{
			"vm-1  pool-bcdfg-22222  native  pool-bcdfg  node-1  recover",
			"VM vm-3 is blocked: its name tells no MachineSet; name one with --set",
			"VM vm-2: it has no Node", "spec.replicas of the MachineSet: 1, becomes 2", "2 more VMs are listed once",
		}, err: errNotRecovered.Error()},
		"JSON": {
			args: "recover plan vm-1 -o json", want: []string{`"verdict": "recover"`, `"recovered": 1`}, not: "vm-2",
		},
		"Chosen":      {args: "recover plan vm-1", want: []string{"node-1  recover"}, not: "vm-3"},
		"ByMachine":   {args: "recover plan by-hand --class class", want: []string{"vm-3  by-hand"}, not: "vm-1"},
		"Unknown":     {args: "recover apply vm-9", err: "vm-9: no such VM is listed"},
		"Nothing":     {args: "recover plan", none: true, want: []string{"No VM has lost its machine"}},
		"NoManager":   {args: "recover apply --timeout 1ns", err: "do they run?", want: []string{"0 machines recovered"}},
		"Mistyped":    {args: "recover aply", err: `unknown command "aply"`},
		"AdoptDryRun": {args: "orphans adopt vm-2 --dry-run", want: []string{"node-2  recover"}, not: "vm-1"},
		"AdoptNone":   {args: "orphans adopt", err: errChoose.Error()},
		"AdoptBoth":   {args: "orphans adopt --all vm-1", err: errChoose.Error()},
		"Adopt":       {args: "orphans adopt vm-1 --timeout 1ns", err: "do they run?", want: []string{"node-1  recover"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var objects []client.Object
			if !tc.none {
				objects = lost()
			}
			out, err := run(t, objects, strings.Fields(tc.args)...)
			if (err != nil) != (tc.err != "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("error %v, want %q", err, tc.err)
			}
			for _, want := range tc.want {
				if !strings.Contains(out, want) {
					t.Errorf("output lacks %q:\n%s", want, out)
				}
			}
			if tc.not != "" && strings.Contains(out, tc.not) {
				t.Errorf("output has %q:\n%s", tc.not, out)
			}
		})
	}
}
