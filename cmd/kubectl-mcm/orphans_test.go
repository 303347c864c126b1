package main

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// holding is a class with two VMs that wait for a decision.
func holding() *machinev1.MachineClass {
	return &machinev1.MachineClass{ObjectMeta: metav1.ObjectMeta{
		Namespace: "garden", Name: "class", Annotations: map[string]string{
			machinev1.HeldOrphansAnnotation: `{"vms":9,"limit":3,"count":5,"orphans":[` +
				`{"id":"vm-1","machine":"m-1","why":"machine m-1 does not exist"},{"id":"vm-2"}]}`,
			machinev1.ApprovedOrphansAnnotation: "vm-0",
		},
	}}
}

func TestOrphans(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		args string
		none bool // no class holds anything
		want []string
		err  string
	}{
		"List": {args: "orphans list", want: []string{
			"MachineClass class: 5 of 9 VMs have no machine; up to 3 would be removed without a decision.",
			"3 more are listed once these are decided.", "vm-1  m-1      class  machine m-1 does not exist",
		}},
		"JSON":          {args: "orphans list -o json", want: []string{`"class": "class"`, `"id": "vm-2"`}},
		"None":          {args: "orphans list", none: true, want: []string{"No VM waits for a decision."}},
		"Approve":       {args: "orphans approve vm-2", want: []string{"approved-orphans has 1 more VMs"}},
		"KeepAll":       {args: "orphans keep --all", want: []string{"kept-orphans has 2 more VMs"}},
		"Unknown":       {args: "orphans approve vm-2 vm-3", err: "vm-3: no such VM waits for a decision"},
		"NothingNamed":  {args: "orphans approve", err: "name the VMs, or use --all"},
		"AllAndNames":   {args: "orphans approve vm-2 --all", err: "name the VMs, or use --all"},
		"NothingToKeep": {args: "orphans keep --all", none: true, err: "no such VM waits for a decision"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var objects []client.Object
			if !tc.none {
				objects = append(objects, holding())
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
		})
	}
}
