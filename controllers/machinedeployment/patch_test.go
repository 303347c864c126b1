package machinedeployment

import (
	"context"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// former is a cache that shows a deployment as it was, and all else as it is.
type former struct {
	client.Client
	d *machinev1.MachineDeployment
}

func (f former) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if d, ok := o.(*machinev1.MachineDeployment); ok {
		f.d.DeepCopyInto(d)
		return nil
	}
	return f.Client.Get(ctx, key, o, opts...)
}

// TestBehind plays a process whose cache shows a deployment as it was before its
// user changed it, and the sets as they are.
func TestBehind(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason  string
		changes []func(*machinev1.MachineDeployment)
		acted   bool // another process has acted upon the changes
		shown   int  // how many of the changes the cache shows
		want    map[string]int32
	}{
		"ScaledUpAgain": {
			reason:  "Who starts with a deployment from before it was scaled down does not scale its set up again.",
			changes: []func(*machinev1.MachineDeployment){scaledTo(1)}, acted: true, want: map[string]int32{"v1": 1},
		},
		"ScaledToAndFro": {
			reason:  "Machines are not deleted for a number that its user has taken back.",
			changes: []func(*machinev1.MachineDeployment){scaledTo(1), scaledTo(4)}, shown: 1, want: map[string]int32{"v1": 3},
		},
		"OtherTemplate": {
			reason:  "No set is made of a template that its user has replaced.",
			changes: []func(*machinev1.MachineDeployment){class("v2"), class("v3")}, shown: 1, want: map[string]int32{"v1": 3},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			env := newEnv(t, deployment(3))
			env.run()
			shown := env.deployment()
			for i, what := range tc.changes {
				env.changeSpec(what)
				if tc.acted {
					env.run()
				}
				if i < tc.shown {
					shown = env.deployment()
				}
			}
			deps := env.c.Deps
			deps.Client = former{env.Client, shown}
			env.c = New(deps)
			if _, err := env.try(); err != nil {
				t.Fatal(err)
			}
			got := map[string]int32{}
			for _, set := range env.sets() {
				got[set.Spec.Template.Spec.Class.Name] = set.Spec.Replicas
			}
			if len(got) != len(tc.want) || got["v1"] != tc.want["v1"] {
				t.Errorf("%s the sets ask for %v machines, want %v", tc.reason, got, tc.want)
			}
		})
	}
}

func scaledTo(n int32) func(*machinev1.MachineDeployment) {
	return func(d *machinev1.MachineDeployment) { d.Spec.Replicas = n }
}
