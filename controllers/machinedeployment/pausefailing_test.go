package machinedeployment

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/joining"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture"
)

// failingRollout is a pool of 3 that is rolled out to class v2, none of whose machines joins.
func failingRollout(t *testing.T, changes ...func(*machinev1.MachineDeployment)) *env {
	t.Helper()
	env := newEnv(t, deployment(3, changes...))
	env.c.Joining = joining.Policy{Timeout: 20 * time.Minute, Cycles: 2}
	env.c.PauseFailing = true
	env.run()
	env.changeSpec(class("v2"))
	env.until("there are machines of v2", func() bool { return len(env.ofClass("v2")) > 0 })
	env.failToJoin()
	env.Advance(21 * time.Minute)
	env.failToJoin()
	return env
}

func (env *env) ofClass(name string) []machinev1.Machine {
	var all []machinev1.Machine
	for _, m := range env.live() {
		if m.Spec.Class.Name == name {
			all = append(all, m)
		}
	}
	return all
}

// failToJoin has the machines of v2 fail to join now, and the deployment's controller see it.
func (env *env) failToJoin() {
	env.Helper()
	env.record(corev1.ConditionFalse, machinev1.ReasonFailedJoin, machinev1.MachineFailed)
	env.pass()
}

func (env *env) record(joined corev1.ConditionStatus, reason string, phase machinev1.MachinePhase) {
	env.Helper()
	for _, m := range env.ofClass("v2") {
		change(env, &m, func(m *machinev1.Machine) {
			m.Status.CurrentStatus.Phase = phase
			m.Status.Conditions = joining.Record(nil, corev1.NodeCondition{
				Status: joined, Reason: reason, LastTransitionTime: metav1.NewTime(env.Clock.Now()),
			})
		})
	}
}

// pausedSet is the set to which the rollout is paused; "" for none.
func (env *env) pausedSet() string {
	env.Helper()
	return env.deployment().Annotations[machinev1.RolloutPausedAnnotation]
}

func (env *env) replicasReady() *metav1.Condition {
	env.Helper()
	return meta.FindStatusCondition(env.deployment().Status.Progress.Conditions, machinev1.ConditionReplicasReady)
}

// TestFailingRolloutPauses: more machines of a template that none has joined with cost
// money and join no more than the first.
func TestFailingRolloutPauses(t *testing.T) {
	t.Parallel()
	env := failingRollout(t)
	if got, want := env.pausedSet(), env.set("v2").Name; got != want {
		t.Fatalf("paused set %q after two cycles, want %q", got, want)
	}
	if events := env.HeardOf(machinev1.ReasonRolloutPaused); len(events) != 1 || !strings.Contains(events[0], "Warning") {
		t.Errorf("Events %q, want one warning", events)
	}
	c := env.replicasReady()
	if c.Reason != machinev1.ReasonRolloutPaused || !strings.Contains(c.Message, machinev1.RolloutPausedAnnotation) {
		t.Errorf("condition %+v, want the reason and how to resume", c)
	}
	if _, copied := env.set("v2").Annotations[machinev1.RolloutPausedAnnotation]; copied {
		t.Error("the annotation is copied to the set, where nobody removes it")
	}
	writes := len(env.Writes())
	env.pass()
	if n := len(env.Writes()) - writes; n != 0 {
		t.Errorf("%d writes although nothing happened", n)
	}
	before := env.set("v1").Spec.Replicas
	env.changeSpec(func(d *machinev1.MachineDeployment) { d.Spec.Replicas = 6 })
	env.pass()
	if after := env.set("v1").Spec.Replicas; after <= before {
		t.Errorf("set v1 has %d replicas after scaling out, want more than %d: its machines join\n%s", after, before,
			env.describe())
	}
}

// TestPausedRolloutKeepsFailedMachines: they show what is wrong, also where the old set has all replicas.
func TestPausedRolloutKeepsFailedMachines(t *testing.T) {
	t.Parallel()
	env := failingRollout(t, fixture.RollingUpdate("1", "0"))
	before := env.set("v2").Spec.Replicas
	for range 3 {
		env.pass()
	}
	if old, after := env.set("v1").Spec.Replicas, env.set("v2").Spec.Replicas; old != 3 || after != before || after == 0 {
		t.Errorf("v1 has %d replicas and v2 %d, want 3 and %d as before", old, after, before)
	}
}

// TestFailingRolloutResumes: each way to continue.
func TestFailingRolloutResumes(t *testing.T) {
	t.Parallel()
	for name, resume := range map[string]func(*env){
		"Corrected":  func(env *env) { env.changeSpec(class("v3")) },
		"RolledBack": func(env *env) { env.changeSpec(class("v1")) },
		"RollbackTo": func(env *env) {
			env.changeSpec(func(d *machinev1.MachineDeployment) { d.Spec.RollbackTo = &machinev1.RollbackConfig{} })
			env.pass()
		},
		"Joined": func(env *env) {
			env.record(corev1.ConditionTrue, machinev1.ReasonJoined, machinev1.MachineRunning)
		},
		"Removed": func(env *env) {
			change(env, env.deployment(), func(d *machinev1.MachineDeployment) {
				delete(d.Annotations, machinev1.RolloutPausedAnnotation)
			})
		},
		"SwitchedOff": func(env *env) { env.c.PauseFailing = false },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := failingRollout(t)
			resume(env)
			env.pass()
			if got := env.pausedSet(); got != "" {
				t.Errorf("paused set %q, want none", got)
			}
			if env.replicasReady().Reason == machinev1.ReasonRolloutPaused {
				t.Error("the condition still says that the rollout is paused")
			}
			env.pass()
			if got := env.pausedSet(); got != "" {
				t.Errorf("paused set %q because of what was counted before, want none", got)
			}
		})
	}
}

// TestNewPoolIsNotPaused: without old machines there is nothing to fall back on, and MCM's users expect
// replacement.
func TestNewPoolIsNotPaused(t *testing.T) {
	t.Parallel()
	env := newEnv(t, deployment(3, class("v2")))
	env.c.Joining = joining.Policy{Timeout: 20 * time.Minute, Cycles: 2}
	env.c.PauseFailing = true
	env.until("there are machines", func() bool { return len(env.ofClass("v2")) > 0 })
	for range 3 {
		env.Advance(21 * time.Minute)
		env.failToJoin()
	}
	if got := env.pausedSet(); got != "" {
		t.Errorf("paused set %q, want none", got)
	}
}
