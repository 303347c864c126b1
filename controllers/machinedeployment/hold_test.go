package machinedeployment

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// temptations are what makes a deployment act, and what then becomes of it.
func temptations() map[string]struct {
	reason string
	tempt  func(*env)
	after  func(*env) bool
} {
	return map[string]struct {
		reason string
		tempt  func(*env)
		after  func(*env) bool
	}{
		"Scale": {
			"It is not scaled.",
			func(env *env) { env.changeSpec(func(d *machinev1.MachineDeployment) { d.Spec.Replicas = 5 }) },
			func(env *env) bool { return len(env.live()) == 5 },
		},
		"Roll": {
			"A changed template is not rolled out.",
			func(env *env) { env.changeSpec(class("v2")) },
			func(env *env) bool { return len(env.sets()) == 2 && env.deployment().Status.UpdatedReplicas == 2 },
		},
		"Template": {
			"What is changed in place stays as it is.",
			func(env *env) {
				env.changeSpec(func(d *machinev1.MachineDeployment) {
					d.Spec.Template.Spec.NodeTemplateSpec.Labels = map[string]string{"l": "v"}
				})
			},
			func(env *env) bool { return env.sets()[0].Spec.Template.Spec.NodeTemplateSpec.Labels["l"] == "v" },
		},
		"Choice": {
			"A scaler's choice is not marked.",
			func(env *env) {
				env.changeSpec(func(d *machinev1.MachineDeployment) {
					machinev1.SetAnnotation(d, machinev1.TriggerDeletionAnnotation, env.machines()[1].Name+"~2026-01-01T12:00:00Z")
				})
			},
			func(env *env) bool {
				return env.machines()[1].Annotations[machinev1.PriorityAnnotation] == machinev1.HighestPriority
			},
		},
		"Deleted": {
			"One that is being deleted keeps its sets, and its finalizer.",
			func(env *env) {
				env.Delete(env.deployment())
			},
			func(env *env) bool { return env.deployment() == nil && len(env.machines()) == 0 },
		},
	}
}

// counted are the writes, status included.
func (env *env) counted() int {
	return len(env.Writes())
}

// TestHeldDeployment: a deployment that is held answers once and does nothing else.
func TestHeldDeployment(t *testing.T) {
	t.Parallel()
	for name, tc := range temptations() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := newEnv(t, deployment(2))
			env.run()
			tc.tempt(env)
			change(env, env.deployment(), func(d *machinev1.MachineDeployment) {
				machinev1.SetAnnotation(d, machinev1.MigrationHoldAnnotation, "x")
			})
			sets, machines, writes := env.sets(), env.machines(), env.counted()
			env.HeardOf("")
			for range 3 {
				if result := env.pass(); result.RequeueAfter != 0 {
					t.Errorf("%s %+v, want no wait", tc.reason, result)
				}
			}
			if !machinev1.HoldAnswered(env.deployment()) || env.counted() != writes+1 {
				t.Errorf("%s %d writes, annotations %v; want the answer alone", tc.reason, env.counted()-writes,
					env.deployment().Annotations)
			}
			if told := env.HeardOf(""); len(told) != 1 || !strings.Contains(told[0], machinev1.EventHeld) {
				t.Errorf("%s events %q, want one", tc.reason, told)
			}
			if !equality.Semantic.DeepEqual(sets, env.sets()) || !equality.Semantic.DeepEqual(machines, env.machines()) {
				t.Errorf("%s\n%s", tc.reason, env.describe())
			}
			change(env, env.deployment(), func(d *machinev1.MachineDeployment) { machinev1.DropHold(d) })
			env.until("what was asked for happens", func() bool { return tc.after(env) })
		})
	}
}

// TestDeploymentWithHeldPart: a deployment waits for a set or machine that is
// held, says so once, and goes on when that is over.
func TestDeploymentWithHeldPart(t *testing.T) {
	t.Parallel()
	parts := map[string]func(*env) client.Object{
		"MachineSet": func(env *env) client.Object { return &env.sets()[0] },
		"Machine":    func(env *env) client.Object { return &env.machines()[0] },
	}
	for name, tc := range temptations() {
		for kind, part := range parts {
			t.Run(name+kind, func(t *testing.T) {
				t.Parallel()
				env := newEnv(t, deployment(2))
				env.run()
				change(env, part(env), func(o client.Object) { machinev1.SetAnnotation(o, machinev1.MigrationHoldAnnotation, "x") })
				tc.tempt(env)
				sets, machines := env.sets(), env.machines()
				env.HeardOf("")
				for range 3 {
					env.pass()
				}
				if told := env.HeardOf(machinev1.EventHeld); len(told) != 1 || !strings.Contains(told[0], part(env).GetName()) {
					t.Errorf("%s events %q, want one that names %s", tc.reason, told, part(env).GetName())
				}
				if text := env.waitsFor(); !strings.Contains(text, machinev1.ReasonHeld) {
					t.Errorf("%s it waits for %q, want %s", tc.reason, text, machinev1.ReasonHeld)
				}
				if !equality.Semantic.DeepEqual(sets, env.sets()) || !equality.Semantic.DeepEqual(machines, env.machines()) {
					t.Errorf("%s\n%s", tc.reason, env.describe())
				}
				change(env, part(env), func(o client.Object) { machinev1.DropHold(o) })
				env.until("what was asked for happens", func() bool { return tc.after(env) })
				if env.deployment() != nil && strings.Contains(env.waitsFor(), machinev1.ReasonHeld) {
					t.Errorf("%s it still waits: %s", tc.reason, env.waitsFor())
				}
			})
		}
	}
}

// waitsFor is what the deployment says that its replicas wait for.
func (env *env) waitsFor() string {
	if p := env.deployment().Status.Progress; p != nil {
		for _, c := range p.Conditions {
			if c.Type == machinev1.ConditionReplicasReady {
				return c.Reason + ": " + c.Message
			}
		}
	}
	return ""
}

// TestHeldSetIsNotAdopted: nor does the deployment make another in its stead.
func TestHeldSetIsNotAdopted(t *testing.T) {
	t.Parallel()
	set := &machinev1.MachineSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: "orphan", UID: "uid-orphan", Labels: map[string]string{"pool": "a"},
		Annotations: map[string]string{machinev1.MigrationHoldAnnotation: "x"},
	}}
	set.Spec = machinev1.MachineSetSpec{
		Replicas: 2, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"pool": "a"}},
		Template: deployment(0).Spec.Template,
	}
	env := newEnv(t, deployment(2), set)
	for range 3 {
		env.pass()
	}
	if all := env.sets(); len(all) != 1 || metav1.GetControllerOf(&all[0]) != nil {
		t.Errorf("sets %+v, want the orphan as it was", all)
	}
	change(env, set, func(set *machinev1.MachineSet) { machinev1.DropHold(set) })
	env.until("it is adopted", func() bool { return metav1.IsControlledBy(&env.sets()[0], env.deployment()) })
}

// TestHoldStaysWhereItIs: a hold on the deployment is none on its sets.
func TestHoldStaysWhereItIs(t *testing.T) {
	t.Parallel()
	for _, key := range []string{
		machinev1.MigrationHoldAnnotation, machinev1.MigrationHeldAnnotation,
		machinev1.MigrationHeldSinceAnnotation,
	} {
		if copiedToSets(key) {
			t.Errorf("%s is copied to the sets", key)
		}
	}
}

// TestUnseenHoldOfSet: the API server has a hold on a set that the cache does not
// show. The deployment makes no other set.
func TestUnseenHoldOfSet(t *testing.T) {
	t.Parallel()
	env := newEnv(t, deployment(2))
	env.run()
	env.changeSpec(class("v2"))
	s, err := env.c.observe(t.Context(), env.deployment())
	if err != nil {
		t.Fatal(err)
	}
	change(env, &env.sets()[0], func(set *machinev1.MachineSet) {
		machinev1.SetAnnotation(set,
			machinev1.MigrationHoldAnnotation, "x")
	})
	if err := s.act(t.Context()); !apierrors.IsConflict(err) || len(env.sets()) != 1 {
		t.Errorf("got %v and %d sets, want a conflict and one", err, len(env.sets()))
	}
}
