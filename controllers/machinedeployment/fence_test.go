package machinedeployment

import (
	"context"
	"fmt"
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

func TestOvertaken(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		// acted says that another process has acted upon the newer spec.
		acted bool
		// signature replaces what that process has noted.
		signature string
		want      int32
	}{
		"Overtaken": {
			reason: "Who is behind may not undo what was decided from a newer spec.",
			acted:  true, want: 1,
		},
		"Unsigned": {
			reason: "A set that MCM has scaled says nothing of it.",
			acted:  true, signature: "", want: 3,
		},
		"Another": {
			reason: "What was decided from another deployment of that name says nothing either.",
			acted:  true, signature: "uid-of-another/9", want: 3,
		},
		"Impossible": {
			reason:    "A generation that the deployment never had blocks nobody for ever.",
			signature: "uid-pool/900", want: 3,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, deployment(3))
			w.run()
			old := w.deployment()
			if tc.acted {
				w.changeSpec(func(d *machinev1.MachineDeployment) { d.Spec.Replicas = 1 })
				w.run()
			}
			set := &w.sets()[0]
			if got, want := set.Annotations[machinev1.DecidedFromAnnotation], fmt.Sprintf("%s/%d", old.UID, w.deployment().Generation); got != want {
				t.Errorf("the set was decided from %q, want %q", got, want)
			}
			if name != "Overtaken" {
				change(w, set, func(s *machinev1.MachineSet) { s.Annotations[machinev1.DecidedFromAnnotation] = tc.signature })
			}
			deps := w.c.Deps
			deps.Client = former{w.client, old}
			w.c = New(deps) // a process that starts
			if _, err := w.try(); err != nil {
				t.Fatal(err)
			}
			if got := w.sets()[0].Spec.Replicas; got != tc.want {
				t.Errorf("%s the set asks for %d machines, want %d", tc.reason, got, tc.want)
			}
		})
	}
}
