package machinedeployment

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/rollout"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/harness"
)

var errBoom = errors.New("boom")

func TestPropagation(t *testing.T) {
	t.Parallel()
	env := newEnv(t, deployment(2, func(d *machinev1.MachineDeployment) {
		machinev1.SetAnnotation(d, machinev1.LastAppliedConfigurationAnnotation, "{}")
		machinev1.SetAnnotation(d, machinev1.EffectiveCreationTimeoutAnnotation, "30m")
	}))
	env.run()
	env.changeSpec(class("v2"))
	env.run()
	env.changeSpec(func(d *machinev1.MachineDeployment) {
		d.Spec.Template.Spec.NodeTemplateSpec.Labels = map[string]string{"a": "b"}
		d.Spec.Template.Spec.MachineConfiguration = &machinev1.MachineConfiguration{MaxEvictRetries: new(int32(7))}
		d.Spec.Template.Spec.Class.Kind = "Other"
		d.Spec.AutoPreserveFailedMachineMax = 2
	})
	before := len(env.machines())
	env.run()
	current, old := env.set("v2"), env.set("v1")
	if s := current.Spec; s.Template.Spec.NodeTemplateSpec.Labels["a"] != "b" || s.Template.Spec.MaxEvictRetries == nil ||
		s.Template.Spec.Class.Kind != "Other" || s.AutoPreserveFailedMachineMax != 2 {
		t.Errorf("the set with the template is %+v", s)
	}
	if s := old.Spec; s.Template.Spec.NodeTemplateSpec.Labels["a"] != "" || s.Template.Spec.MachineConfiguration != nil {
		t.Errorf("an old set was changed: %+v", s)
	}
	if len(env.machines()) != before || len(env.sets()) != 2 {
		t.Errorf("changes in place replaced machines")
	}
	want := map[string]string{
		machinev1.EffectiveCreationTimeoutAnnotation: "30m", machinev1.RevisionAnnotation: "2",
		machinev1.CAPIRevisionAnnotation:    "2",
		machinev1.DesiredReplicasAnnotation: "2", machinev1.MaxReplicasAnnotation: "4",
	}
	if diff := cmp.Diff(want, current.Annotations); diff != "" {
		t.Errorf("annotations of the set\n%s", diff)
	}
	if current.Labels[machinev1.DeploymentNameLabel] != "pool" || old.Labels[machinev1.DeploymentNameLabel] != "pool" {
		t.Errorf("the cluster-autoscaler does not find the deployment: %v", current.Labels)
	}
	if _, ok := current.Spec.Selector.MatchLabels[machinev1.DeploymentNameLabel]; ok {
		t.Errorf("its label selects machines")
	}
}

func TestHistoryDoesNotGrow(t *testing.T) {
	t.Parallel()
	env := newEnv(t, deployment(1))
	env.run()
	for _, value := range []string{"1", "2", "3"} {
		change(env, env.deployment(), func(d *machinev1.MachineDeployment) { machinev1.SetAnnotation(d, "x", value) })
		env.pass()
	}
	set := env.sets()[0]
	if set.Annotations["x"] != "3" || set.Annotations[machinev1.RevisionHistoryAnnotation] != "" {
		t.Errorf("annotations %v", set.Annotations)
	}
}

func TestNameTaken(t *testing.T) {
	t.Parallel()
	d := deployment(1)
	taken := &machinev1.MachineSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: rollout.SetName("pool", rollout.Hash(&d.Spec.Template, nil)), UID: "uid-taken",
	}}
	env := newEnv(t, d, taken)
	if wait := env.pass().RequeueAfter; wait != nameConflictRetry {
		t.Errorf("the next name is tried after %s", wait)
	}
	env.pass()
	d = env.deployment()
	if d.Status.CollisionCount == nil || *d.Status.CollisionCount != 1 || len(env.sets()) != 2 {
		t.Errorf("collisions %v\n%s", d.Status.CollisionCount, env.describe())
	}
}

func TestCreateFails(t *testing.T) {
	t.Parallel()
	env := newEnv(t, deployment(1))
	env.Fault = func(r harness.Request) error {
		if r.Kind == "MachineSet" && r.Verb == "create" {
			return errBoom
		}
		return nil
	}
	if _, err := env.try(); !errors.Is(err, errBoom) {
		t.Fatalf("error %v", err)
	}
	c := rollout.Condition(&env.deployment().Status, machinev1.MachineDeploymentProgressing)
	if c == nil || c.Status != "False" || c.Reason != machinev1.ReasonMachineSetCreateError {
		t.Errorf("condition %+v", c)
	}
	if events := env.HeardOf("Warning " + machinev1.EventMachineSetCreateError); len(events) != 1 {
		t.Errorf("events %v", events)
	}
	env.Fault = nil
	env.run()
}

// blind is a client whose cache shows no MachineSets yet.
type blind struct{ client.Client }

func (b blind) List(ctx context.Context, into client.ObjectList, opts ...client.ListOption) error {
	if _, isSets := into.(*machinev1.MachineSetList); isSets {
		return nil
	}
	return b.Client.List(ctx, into, opts...)
}

// TestNoSetOnTopOfOnesThatTheCacheDoesNotShow: a template that changes right after
// a set was made must not lead to a second set of full size beside it.
func TestNoSetOnTopOfOnesThatTheCacheDoesNotShow(t *testing.T) {
	t.Parallel()
	env := newEnv(t, deployment(2, func(*machinev1.MachineDeployment) {}))
	env.run()
	env.changeSpec(class("v2"))
	env.c.Client = blind{env.Client}
	result, err := env.c.Reconcile(t.Context(),
		reconcile.Request{NamespacedName: client.ObjectKeyFromObject(env.deployment())})
	if err != nil || result.RequeueAfter == 0 {
		t.Errorf("Reconcile() = %+v, %v, want to look again soon", result, err)
	}
	if n := env.Count("create MachineSet"); n != 1 {
		t.Errorf("%d sets were made, want one: the cache does not show it yet", n)
	}
}
