package machinedeployment

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/rollout"
)

func TestStatus(t *testing.T) {
	t.Parallel()
	env := newEnv(t, deployment(4, func(d *machinev1.MachineDeployment) { d.Generation = 5 }))
	env.run()
	env.changeSpec(class("v2"))
	env.pass()
	failed := []machinev1.MachineSummary{{Name: "m1", OwnerRef: "x"}}
	change(env, env.set("v1"), func(set *machinev1.MachineSet) {
		set.Status.Replicas, set.Status.ReadyReplicas, set.Status.AvailableReplicas,
			set.Status.PreservedFailedReplicas = 4, 1, 1, 1
		set.Status.FailedMachines = &failed
		set.Status.Conditions = []machinev1.MachineSetCondition{{
			Type: machinev1.MachineSetReplicaFailure, Status: "True",
			Reason: machinev1.ReasonFailedCreate, Message: "no quota",
		}}
	})
	env.pass()
	d := env.deployment()
	want := machinev1.MachineDeploymentStatus{
		ObservedGeneration: 6, Replicas: 4, ReadyReplicas: 1, AvailableReplicas: 1, PreservedFailedReplicas: 1,
		UnavailableReplicas: 4, FailedMachines: []*machinev1.MachineSummary{&failed[0]},
	}
	if diff := cmp.Diff(want, d.Status, cmpopts.IgnoreFields(machinev1.MachineDeploymentStatus{}, "Conditions",
		"Progress")); diff != "" {
		t.Errorf("counts\n%s", diff)
	}
	if c := rollout.Condition(&d.Status, machinev1.MachineDeploymentAvailable); c.Status != "False" ||
		c.Reason != machinev1.ReasonMinimumReplicasUnavailable {
		t.Errorf("1 of at least 4 - 1 - 1 preserved is available: %+v", c)
	}
	if c := rollout.Condition(&d.Status, machinev1.MachineDeploymentReplicaFailure); c == nil ||
		c.Reason != machinev1.ReasonFailedCreate || c.Message != "no quota" {
		t.Errorf("the set's failure is not shown: %+v", c)
	}
	c := meta.FindStatusCondition(d.Status.Progress.Conditions, machinev1.ConditionReplicasReady)
	if c == nil || c.Reason != machinev1.ReasonScalingUp ||
		c.Message != "0 of 4 machines are updated, 1 available, 4 old ones are left" {
		t.Errorf("it must say what is missing: %+v", c)
	}
	change(env, env.set("v1"), func(set *machinev1.MachineSet) { machinev1.SetLabel(set, machinev1.FreezeLabel, "True") })
	env.pass()
	d = env.deployment()
	if c := meta.FindStatusCondition(d.Status.Progress.Conditions,
		machinev1.ConditionReplicasReady); c.Reason != machinev1.ReasonFrozen {
		t.Errorf("it must say that it is frozen: %+v", c)
	}
	env.Forget()
	env.pass()
	if len(env.Writes()) != 0 {
		t.Errorf("nothing has changed, but %v", env.Writes())
	}
}

// TestStatusIsNotComparedWithAnOldOne: counts that are again as they were before
// the last write must not be taken for written, while the cache shows that version.
func TestStatusIsNotComparedWithAnOldOne(t *testing.T) {
	t.Parallel()
	env := newEnv(t, deployment(2))
	env.run()
	before := env.deployment()
	available := func(n int32) {
		change(env, env.set("v1"), func(set *machinev1.MachineSet) {
			set.Status.AvailableReplicas,
				set.Status.ReadyReplicas = n, n
		})
	}
	available(1)
	env.pass()
	stale := true
	env.c.own.Client = interceptor.NewClient(env.Client, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object,
			opts ...client.GetOption,
		) error {
			if d, ok := o.(*machinev1.MachineDeployment); ok && stale {
				before.DeepCopyInto(d)
				return nil
			}
			return c.Get(ctx, key, o, opts...)
		},
	})
	available(2)
	if wait := env.pass().RequeueAfter; wait <= 0 {
		t.Error("nothing wakes it when the cache shows its own status")
	}
	stale = false
	env.pass()
	if n := env.deployment().Status.AvailableReplicas; n != 2 {
		t.Errorf("%d are said to be available, want 2", n)
	}
}

// MCM's CRD drops our own field: it is sent once, and a deployment that changes in
// nothing else is not written.
func TestDroppedProgressIsSentOnce(t *testing.T) {
	t.Parallel()
	env := newEnv(t, deployment(2))
	sent := 0
	env.c.own.Client = interceptor.NewClient(env.Client, interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch,
			opts ...client.SubResourcePatchOption,
		) error {
			data, err := p.Data(o)
			if err != nil {
				return err
			}
			if strings.Contains(string(data), `"progress"`) {
				sent++
			}
			if err := c.SubResource(sub).Patch(ctx, o, p, opts...); err != nil {
				return err
			}
			d, ok := o.(*machinev1.MachineDeployment)
			if !ok || d.Status.Progress == nil {
				return nil
			}
			d.Status.Progress = nil
			return c.SubResource(sub).Update(ctx, d)
		},
	})
	env.run()
	env.changeSpec(class("v2"))
	env.run()
	if sent != 1 {
		t.Errorf("the field that the API server drops was sent %d times, want once", sent)
	}
	env.Forget()
	env.pass()
	if env.Count("patch MachineDeployment/status") != 0 {
		t.Errorf("writes although nothing changed: %v", env.Writes())
	}
}
