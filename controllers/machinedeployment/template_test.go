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
)

var errBoom = errors.New("boom")

func TestPropagation(t *testing.T) {
	t.Parallel()
	w := newWorld(t, deployment(2, func(d *machinev1.MachineDeployment) {
		annotate(d, machinev1.LastAppliedConfigurationAnnotation, "{}")
		annotate(d, machinev1.EffectiveCreationTimeoutAnnotation, "30m")
	}))
	w.run()
	w.changeSpec(class("v2"))
	w.run()
	w.changeSpec(func(d *machinev1.MachineDeployment) {
		d.Spec.Template.Spec.NodeTemplateSpec.Labels = map[string]string{"a": "b"}
		d.Spec.Template.Spec.MachineConfiguration = &machinev1.MachineConfiguration{MaxEvictRetries: new(int32(7))}
		d.Spec.Template.Spec.Class.Kind = "Other"
		d.Spec.AutoPreserveFailedMachineMax = 2
	})
	before := len(w.machines())
	w.run()
	current, old := w.set("v2"), w.set("v1")
	if s := current.Spec; s.Template.Spec.NodeTemplateSpec.Labels["a"] != "b" || s.Template.Spec.MaxEvictRetries == nil ||
		s.Template.Spec.Class.Kind != "Other" || s.AutoPreserveFailedMachineMax != 2 {
		t.Errorf("the set with the template is %+v", s)
	}
	if s := old.Spec; s.Template.Spec.NodeTemplateSpec.Labels["a"] != "" || s.Template.Spec.MachineConfiguration != nil {
		t.Errorf("an old set was changed: %+v", s)
	}
	if len(w.machines()) != before || len(w.sets()) != 2 {
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
	w := newWorld(t, deployment(1))
	w.run()
	for _, value := range []string{"1", "2", "3"} {
		change(w, w.deployment(), func(d *machinev1.MachineDeployment) { annotate(d, "x", value) })
		w.pass()
	}
	set := w.sets()[0]
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
	w := newWorld(t, d, taken)
	if wait := w.pass().RequeueAfter; wait != takenRetry {
		t.Errorf("the next name is tried after %s", wait)
	}
	w.pass()
	d = w.deployment()
	if d.Status.CollisionCount == nil || *d.Status.CollisionCount != 1 || len(w.sets()) != 2 {
		t.Errorf("collisions %v\n%s", d.Status.CollisionCount, w.describe())
	}
}

func TestCreateFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t, deployment(1))
	w.refuse = func(verb string, o client.Object) error {
		if _, set := o.(*machinev1.MachineSet); set && verb == "create" {
			return errBoom
		}
		return nil
	}
	if _, err := w.try(); !errors.Is(err, errBoom) {
		t.Fatalf("error %v", err)
	}
	c := rollout.Condition(&w.deployment().Status, machinev1.MachineDeploymentProgressing)
	if c == nil || c.Status != "False" || c.Reason != machinev1.ReasonMachineSetCreateError {
		t.Errorf("condition %+v", c)
	}
	if events := w.eventsOf("Warning " + machinev1.EventMachineSetCreateError); len(events) != 1 {
		t.Errorf("events %v", events)
	}
	w.refuse = nil
	w.run()
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
	w := newWorld(t, deployment(2, func(*machinev1.MachineDeployment) {}))
	w.run()
	w.changeSpec(class("v2"))
	w.c.Client = blind{w.client}
	result, err := w.c.Reconcile(t.Context(),
		reconcile.Request{NamespacedName: client.ObjectKeyFromObject(w.deployment())})
	if err != nil || result.RequeueAfter == 0 {
		t.Errorf("Reconcile() = %+v, %v, want to look again soon", result, err)
	}
	if n := w.writes["create MachineSet"]; n != 1 {
		t.Errorf("%d sets were made, want one: the cache does not show it yet", n)
	}
}
