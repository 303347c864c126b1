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
)

// slowPool is a pool of 3 in a cloud that is too slow for its machines to join.
func slowPool(t *testing.T, changes ...func(*machinev1.MachineDeployment)) *env {
	t.Helper()
	env := newEnv(t, deployment(3, changes...))
	env.c.Joining = joining.Policy{Timeout: 20 * time.Minute, GrowthPercent: 50, Cycles: 2}
	env.run()
	return env
}

// recordJoin has the first n machines join now, or fail to.
func (env *env) recordJoin(n int, joined corev1.ConditionStatus, reason string) {
	env.Helper()
	all := env.live()
	for i := range all[:n] {
		change(env, &all[i], func(m *machinev1.Machine) {
			m.CreationTimestamp = metav1.NewTime(env.Clock.Now().Add(-25 * time.Minute))
			m.Status.Conditions = joining.Record(m.Status.Conditions, corev1.NodeCondition{
				Status: joined, Reason: reason, LastTransitionTime: metav1.NewTime(env.Clock.Now()),
			})
		})
	}
}

func (env *env) timeouts() (deployment, set string) {
	const key = machinev1.EffectiveCreationTimeoutAnnotation
	return env.deployment().Annotations[key], env.set("v1").Annotations[key]
}

func (env *env) joinedCondition() string {
	env.Helper()
	d := env.deployment()
	if d.Status.Progress == nil {
		return ""
	}
	if c := meta.FindStatusCondition(d.Status.Progress.Conditions, string(machinev1.MachineJoined)); c != nil {
		return c.Reason + ": " + c.Message
	}
	return ""
}

func TestCreationTimeoutGrowsAndReturns(t *testing.T) {
	t.Parallel()
	env := slowPool(t)
	for range 2 {
		env.Advance(21 * time.Minute)
		env.recordJoin(1, corev1.ConditionFalse, machinev1.ReasonFailedJoin)
		env.pass()
	}
	if d, set := env.timeouts(); d != "30m0s" || set != "30m0s" {
		t.Errorf("timeout %q, and %q of the set, after two cycles, want 30m", d, set)
	}
	if events := env.HeardOf(machinev1.EventCreationTimeoutAdapted); len(events) != 1 ||
		!strings.Contains(events[0], "Warning") || !strings.Contains(events[0], env.live()[0].Name) {
		t.Errorf("Events %q, want one warning that names a machine", events)
	}
	if got := env.joinedCondition(); !strings.HasPrefix(got, "FailedJoin: ") || !strings.Contains(got, "have 30m0s") {
		t.Errorf("condition %q, want the timeout in it", got)
	}
	writes := env.Count("patch MachineDeployment") + env.Count("patch MachineDeployment/status")
	result := env.pass()
	if n := env.Count("patch MachineDeployment") + env.Count("patch MachineDeployment/status"); n != writes {
		t.Errorf("%d writes although nothing happened", n-writes)
	}
	if result.RequeueAfter <= 0 {
		t.Error("nobody looks when the timeout can be restored")
	}
	env.Advance(4 * time.Hour)
	env.pass()
	if d, set := env.timeouts(); d != "" || set != "" {
		t.Errorf("timeout %q, and %q of the set, long after the last failure, want none", d, set)
	}
	if got := env.joinedCondition(); got != "" {
		t.Errorf("condition %q, want none", got)
	}
}

func TestCreationTimeoutIsReducedToWhatMachinesNeed(t *testing.T) {
	t.Parallel()
	env := slowPool(t)
	change(env, env.deployment(), func(d *machinev1.MachineDeployment) {
		joining.State{Timeout: 45 * time.Minute, Adapted: noon, Counted: noon}.Annotate(d)
	})
	env.Advance(50 * time.Minute)
	env.recordJoin(2, corev1.ConditionTrue, machinev1.ReasonJoined)
	env.pass()
	if d, set := env.timeouts(); d != "25m0s" || set != "25m0s" {
		t.Errorf("timeout %q, and %q of the set, want the 25m that machines took", d, set)
	}
}

// TestCreationTimeoutIsTakenFromTheTemplate: growth starts at what the template has.
func TestCreationTimeoutIsTakenFromTheTemplate(t *testing.T) {
	t.Parallel()
	env := slowPool(t, func(d *machinev1.MachineDeployment) {
		d.Spec.Template.Spec.MachineConfiguration = &machinev1.MachineConfiguration{
			MachineCreationTimeout: &metav1.Duration{Duration: 10 * time.Minute},
		}
	})
	env.c.Joining.Cycles = 1
	env.recordJoin(1, corev1.ConditionFalse, machinev1.ReasonFailedJoin)
	env.pass()
	if d, _ := env.timeouts(); d != "15m0s" {
		t.Errorf("timeout %q, want 15m", d)
	}
}

// TestCreationTimeoutOfAUserStays: and so does what was set while growth is off.
func TestCreationTimeoutOfAUserStays(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]string{"Set": "5m", "Off": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := slowPool(t, func(d *machinev1.MachineDeployment) {
				if set != "" {
					d.Annotations = map[string]string{machinev1.EffectiveCreationTimeoutAnnotation: set}
				}
			})
			if set == "" {
				env.c.Joining.GrowthPercent = 0
			}
			for range 3 {
				env.Advance(21 * time.Minute)
				env.recordJoin(1, corev1.ConditionFalse, machinev1.ReasonFailedJoin)
				env.pass()
			}
			if d, _ := env.timeouts(); d != set {
				t.Errorf("timeout %q, want %q", d, set)
			}
			if _, counted := env.deployment().Annotations[machinev1.ReplaceCycleCountAnnotation]; counted {
				t.Error("cycles are counted, and nothing follows from them")
			}
		})
	}
}

// TestCreationTimeoutThatAUserRaisesCounts: more than it has grown to is what new machines get.
func TestCreationTimeoutThatAUserRaisesCounts(t *testing.T) {
	t.Parallel()
	env := slowPool(t)
	env.grow()
	env.c.Joining.Timeout = time.Hour
	env.pass()
	if d, set := env.timeouts(); d != "" || set != "" {
		t.Errorf("timeout %q, and %q of the set, want that of the template", d, set)
	}
}

// TestCreationTimeoutOfAUserReplacesAGrownOne: for good, and a rollback restores no other.
func TestCreationTimeoutOfAUserReplacesAGrownOne(t *testing.T) {
	t.Parallel()
	env := slowPool(t)
	env.grow()
	change(env, env.deployment(), func(d *machinev1.MachineDeployment) {
		d.Annotations[machinev1.EffectiveCreationTimeoutAnnotation] = "5m"
	})
	for range 3 {
		env.Advance(4 * time.Hour)
		env.recordJoin(1, corev1.ConditionFalse, machinev1.ReasonFailedJoin)
		env.pass()
	}
	if d, set := env.timeouts(); d != "5m" || set != "5m" {
		t.Errorf("timeout %q, and %q of the set, want the user's 5m", d, set)
	}
	if joining.Forget(env.deployment()) {
		t.Errorf("annotations %v, want no record beside a user's timeout", env.deployment().Annotations)
	}
}

// TestRollbackKeepsAGrownCreationTimeout: it belongs to the record, which is of no revision.
func TestRollbackKeepsAGrownCreationTimeout(t *testing.T) {
	t.Parallel()
	env := slowPool(t)
	env.grow()
	s := &scope{Controller: env.c, d: env.deployment(), desired: env.deployment()}
	set := env.set("v1").DeepCopy()
	delete(set.Annotations, machinev1.EffectiveCreationTimeoutAnnotation)
	s.restoreRevision(set)
	if got := s.desired.Annotations[machinev1.EffectiveCreationTimeoutAnnotation]; got != "45m0s" {
		t.Errorf("timeout %q, want 45m as it is recorded", got)
	}
}

// grow has the timeout grow to 45m.
func (env *env) grow() {
	env.Helper()
	change(env, env.deployment(), func(d *machinev1.MachineDeployment) {
		joining.State{Timeout: 45 * time.Minute, Adapted: noon, Counted: noon}.Annotate(d)
	})
	env.pass()
	if d, set := env.timeouts(); d != "45m0s" || set != "45m0s" {
		env.Fatalf("timeout %q, and %q of the set, want 45m", d, set)
	}
}
