package machinedeployment

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/rollout"
)

var errBoom = errors.New("boom")

func TestPause(t *testing.T) {
	t.Parallel()
	w := newWorld(t, deployment(4))
	w.run()
	w.changeSpec(class("v2"))
	w.until("some are new", func() bool { return w.set("v2").Status.AvailableReplicas >= 2 })
	w.changeSpec(func(d *machinev1.MachineDeployment) { d.Spec.Paused = true; class("v3")(d) })
	w.pass()
	w.changeSpec(func(d *machinev1.MachineDeployment) { d.Spec.Replicas = 7 })
	w.until("it is scaled", func() bool { return len(w.live()) >= 7 && w.deployment().Status.AvailableReplicas >= 7 })
	if len(w.sets()) != 2 {
		t.Errorf("a paused deployment makes no new set\n%s", w.describe())
	}
	progressing := rollout.Condition(&w.deployment().Status, machinev1.MachineDeploymentProgressing)
	if progressing.Status != "Unknown" || progressing.Reason != machinev1.ReasonDeploymentPaused {
		t.Errorf("condition %+v", progressing)
	}
	w.changeSpec(func(d *machinev1.MachineDeployment) { d.Spec.Paused = false })
	w.run()
	if n := w.set("v3").Spec.Replicas; n != 7 {
		t.Errorf("%d machines are new after the pause\n%s", n, w.describe())
	}
}

func TestRollback(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reason   string
		revision int64
		want     string
		event    string
	}{
		"Last":      {"0 is the one before.", 0, "v2", machinev1.EventDeploymentRollback},
		"Named":     {"A revision that was named.", 1, "v1", machinev1.EventDeploymentRollback},
		"Unchanged": {"The present one.", 3, "v3", machinev1.EventRollbackTemplateUnchanged},
		"Unknown":   {"One that never was.", 9, "v3", machinev1.EventRollbackRevisionNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, deployment(1, func(d *machinev1.MachineDeployment) { annotate(d, "mine", "v1") }))
			w.run()
			for _, next := range []string{"v2", "v3"} {
				w.changeSpec(func(d *machinev1.MachineDeployment) { class(next)(d); annotate(d, "mine", next) })
				w.run()
			}
			w.eventsOf("")
			w.changeSpec(func(d *machinev1.MachineDeployment) {
				d.Spec.RollbackTo = &machinev1.RollbackConfig{Revision: tc.revision}
				annotate(d, machinev1.LastReplicaChangeByScalerAnnotation, noon.Format(time.RFC3339))
			})
			w.pass()
			d := w.deployment()
			if d.Spec.RollbackTo != nil || d.Spec.Template.Spec.Class.Name != tc.want || d.Annotations["mine"] != tc.want {
				t.Errorf("%s\nspec %+v annotations %v", tc.reason, d.Spec, d.Annotations)
			}
			if _, hashed := d.Spec.Template.Labels[machinev1.TemplateHashLabel]; hashed {
				t.Errorf("the hash went into the deployment's template")
			}
			if d.Annotations[machinev1.LastReplicaChangeByScalerAnnotation] == "" {
				t.Errorf("the time of the last scaling is no part of a revision")
			}
			if events := w.eventsOf(tc.event + " "); len(events) != 1 {
				t.Errorf("%s: events %v", tc.event, events)
			}
			w.run()
			if got := w.live()[0].Spec.Class.Name; got != tc.want {
				t.Errorf("%s\nthe machine has class %s", tc.reason, got)
			}
		})
	}
}

func TestHistoryLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, deployment(1, func(d *machinev1.MachineDeployment) { d.Spec.RevisionHistoryLimit = ptr.To(int32(1)) }))
	for _, next := range []string{"v1", "v2", "v3"} {
		w.changeSpec(class(next))
		w.run()
	}
	w.playSets()
	var classes []string
	for _, s := range w.sets() {
		classes = append(classes, s.Spec.Template.Spec.Class.Name)
	}
	if diff := cmp.Diff([]string{"v2", "v3"}, classes); diff != "" {
		t.Errorf("one old set is kept\n%s", diff)
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

func TestProgressDeadline(t *testing.T) {
	t.Parallel()
	w := newWorld(t, deployment(2, func(d *machinev1.MachineDeployment) { d.Spec.ProgressDeadlineSeconds = ptr.To(int32(600)) }))
	w.pass()
	if got := w.pass().RequeueAfter; got != 601*time.Second {
		t.Errorf("the deadline is looked at after %s", got)
	}
	w.clock.SetTime(noon.Add(11 * time.Minute))
	w.pass()
	c := rollout.Condition(&w.deployment().Status, machinev1.MachineDeploymentProgressing)
	if c.Status != "False" || c.Reason != machinev1.ReasonProgressDeadlineExceeded {
		t.Errorf("condition %+v", c)
	}
	if got := w.pass().RequeueAfter; got != 0 {
		t.Errorf("nothing is left to wait for, but it waits %s", got)
	}
	w.run()
	if c := rollout.Condition(&w.deployment().Status, machinev1.MachineDeploymentProgressing); c.Reason != machinev1.ReasonNewMachineSetAvailable {
		t.Errorf("a late success is a success: %+v", c)
	}
}

func TestFreezeIsMirrored(t *testing.T) {
	t.Parallel()
	w := newWorld(t, deployment(1))
	w.run()
	set := w.sets()[0]
	change(w, &set, func(s *machinev1.MachineSet) { label(s, machinev1.FreezeLabel, "True") })
	w.pass()
	d := w.deployment()
	c := rollout.Condition(&d.Status, machinev1.MachineDeploymentFrozen)
	if d.Labels[machinev1.FreezeLabel] != "True" || c == nil || c.Reason != machinev1.ReasonMachineDeploymentStateSync {
		t.Fatalf("labels %v, condition %+v", d.Labels, c)
	}
	change(w, d, func(d *machinev1.MachineDeployment) { annotate(d, machinev1.UnfreezeAnnotation, "true") })
	w.pass()
	set = w.sets()[0]
	if _, asked := w.deployment().Annotations[machinev1.UnfreezeAnnotation]; asked || set.Annotations[machinev1.UnfreezeAnnotation] != "true" {
		t.Errorf("the wish must be on the set and nowhere else: %v %v", w.deployment().Annotations, set.Annotations)
	}
	change(w, &set, func(s *machinev1.MachineSet) {
		delete(s.Labels, machinev1.FreezeLabel)
		delete(s.Annotations, machinev1.UnfreezeAnnotation)
	})
	w.pass()
	d = w.deployment()
	if _, frozen := d.Labels[machinev1.FreezeLabel]; frozen || len(d.Status.Conditions) != 2 {
		t.Errorf("labels %v, conditions %+v", d.Labels, d.Status.Conditions)
	}
}

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
		d.Spec.Template.Spec.MachineConfiguration = &machinev1.MachineConfiguration{MaxEvictRetries: ptr.To(int32(7))}
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
		machinev1.EffectiveCreationTimeoutAnnotation: "30m", machinev1.RevisionAnnotation: "2", revisionAnnotation: "2",
		machinev1.DesiredReplicasAnnotation: "2", machinev1.MaxReplicasAnnotation: "4",
	}
	if diff := cmp.Diff(want, current.Annotations); diff != "" {
		t.Errorf("annotations of the set\n%s", diff)
	}
	if current.Labels[deploymentNameLabel] != "pool" || old.Labels[deploymentNameLabel] != "pool" {
		t.Errorf("the cluster-autoscaler does not find the deployment: %v", current.Labels)
	}
	if _, ok := current.Spec.Selector.MatchLabels[deploymentNameLabel]; ok {
		t.Errorf("its label selects machines")
	}
}

func TestAdoption(t *testing.T) {
	t.Parallel()
	orphan := func(name, pool string) *machinev1.MachineSet {
		s := &machinev1.MachineSet{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, UID: "uid-" + "x", Labels: map[string]string{"pool": pool},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "other", UID: "uid-other"}},
		}}
		s.Spec = machinev1.MachineSetSpec{
			Replicas: 2, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"pool": pool}},
			Template: deployment(0).Spec.Template,
		}
		return s
	}
	w := newWorld(t, deployment(2), orphan("mine", "a"), orphan("theirs", "b"))
	w.playSets()
	before := names(w.live())
	w.until("the set has the hash", func() bool {
		s := w.sets()[0]
		return s.Spec.Selector.MatchLabels[machinev1.TemplateHashLabel] != "" && w.deployment().Status.AvailableReplicas == 2
	})
	mine, theirs := &machinev1.MachineSet{}, &machinev1.MachineSet{}
	for name, set := range map[string]*machinev1.MachineSet{"mine": mine, "theirs": theirs} {
		if err := w.client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, set); err != nil {
			t.Fatal(err)
		}
	}
	if !metav1.IsControlledBy(mine, w.deployment()) || len(mine.OwnerReferences) != 2 || metav1.GetControllerOf(theirs) != nil {
		t.Errorf("owners %v and %v", mine.OwnerReferences, theirs.OwnerReferences)
	}
	hash := mine.Labels[machinev1.TemplateHashLabel]
	for _, m := range w.members(mine) {
		if hash == "" || m.Labels[machinev1.TemplateHashLabel] != hash {
			t.Errorf("machine %s has labels %v", m.Name, m.Labels)
		}
	}
	if n := len(w.sets()); n != 2 {
		t.Errorf("%d sets: the adopted one has the template", n)
	}
	for _, name := range before {
		if w.node(name) == nil {
			t.Errorf("machine %s was lost", name)
		}
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

// TestNodesOutOfReach: marks are a courtesy, so a rollout goes on without them.
func TestNodesOutOfReach(t *testing.T) {
	t.Parallel()
	w := newWorld(t, deployment(2))
	w.run()
	w.changeSpec(class("v2"))
	w.refuse = func(verb string, o client.Object) error {
		if _, node := o.(*corev1.Node); node && verb == "patch" {
			return errBoom
		}
		return nil
	}
	if _, err := w.try(); !errors.Is(err, errBoom) {
		t.Errorf("the failure is not repeated: %v", err)
	}
	if w.set("v2").Spec.Replicas != 2 || w.set("v1").Spec.Replicas != 1 {
		t.Errorf("the rollout stands still\n%s", w.describe())
	}
}

func TestRemove(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reason string
		change func(*machinev1.MachineDeployment)
	}{
		"Valid":   {"The sets go, with their machines.", func(*machinev1.MachineDeployment) {}},
		"Invalid": {"A broken spec keeps nothing alive.", func(d *machinev1.MachineDeployment) { d.Spec.Selector = nil; d.Spec.Strategy.Type = "" }},
		"Paused":  {"Nor does a pause.", func(d *machinev1.MachineDeployment) { d.Spec.Paused = true }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, deployment(2))
			w.run()
			w.changeSpec(tc.change)
			if err := w.client.Delete(t.Context(), w.deployment()); err != nil {
				t.Fatal(err)
			}
			w.until("the deployment is gone", func() bool { return w.deployment() == nil })
			if len(w.sets())+len(w.machines()) != 0 {
				t.Errorf("%s\n%s", tc.reason, w.describe())
			}
		})
	}
}
