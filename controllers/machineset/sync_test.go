package machineset

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/harness"
)

func TestSyncSpecs(t *testing.T) {
	t.Parallel()
	timeout := &machinev1.MachineConfiguration{MachineDrainTimeout: &metav1.Duration{Duration: time.Hour}}
	nodes := machinev1.NodeTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"zone": "b"}},
		Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}}},
	}
	set := func() *machinev1.MachineSet {
		return newSet(1, func(set *machinev1.MachineSet) {
			set.Spec.Template.Spec.NodeTemplateSpec, set.Spec.Template.Spec.MachineConfiguration = nodes, timeout
			set.Spec.Template.Spec.Class.Kind = "NewKind"
			set.Spec.Template.Labels["added"] = "later"
		})
	}
	old := func(m *machinev1.Machine) {
		m.Spec.NodeTemplateSpec.Labels = map[string]string{"zone": "a", "gone": "x"}
		m.Spec.MachineConfiguration = &machinev1.MachineConfiguration{
			MachineHealthTimeout: &metav1.Duration{Duration: time.Minute},
		}
	}
	cases := map[string]struct {
		reason string
		phase  machinev1.MachinePhase
		want   bool
	}{
		"New": {reason: "Every machine that lives on gets the settings.", want: true},
		"Running": {
			reason: "Every machine that lives on gets the settings.", phase: machinev1.MachineRunning,
			want: true,
		},
		"Failed":      {reason: "A failed machine keeps what it failed with.", phase: machinev1.MachineFailed},
		"Terminating": {reason: "A terminating machine keeps what it had.", phase: machinev1.MachineTerminating},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			env := newEnv(t, set(), newMember("a", old, phase(tc.phase), annotated(machinev1.PreserveAnnotation, "now")))
			env.settle()
			m := env.machine("a")
			if m.Spec.Class.Kind != "NewKind" || m.Spec.Class.Name != "class" {
				t.Errorf("the kind of the class is for all machines, its name for none: %+v", m.Spec.Class)
			}
			if _, found := m.Labels["added"]; found {
				t.Error("labels of the template are for new machines")
			}
			same := cmp.Equal(nodes, m.Spec.NodeTemplateSpec) && cmp.Equal(timeout, m.Spec.MachineConfiguration)
			if same != tc.want {
				t.Errorf("%s got %+v", tc.reason, m.Spec)
			}
		})
	}
}

func TestSyncTakesConfigurationAway(t *testing.T) {
	t.Parallel()
	env := newEnv(t, newSet(1), newMember("a", func(m *machinev1.Machine) {
		m.Spec.MachineConfiguration = &machinev1.MachineConfiguration{
			MachineHealthTimeout: &metav1.Duration{Duration: time.Minute},
		}
	}))
	env.settle()
	if got := env.machine("a").Spec.MachineConfiguration; got != nil && *got != (machinev1.MachineConfiguration{}) {
		t.Errorf("got %+v", got)
	}
	if env.sent("patch") != 1 {
		t.Errorf("%d patches, want 1", env.sent("patch"))
	}
}

// One machine that cannot be changed holds nothing else up.
func TestSyncFailsForOne(t *testing.T) {
	t.Parallel()
	outdated := func(m *machinev1.Machine) { m.Spec.Class.Kind = "Old" }
	env := newEnv(t, newSet(3), newMember("a", outdated), newMember("b", outdated))
	env.Fault = func(r harness.Request) error {
		if verbOf(r) == "patch" && r.Name == "a" {
			return errBoom
		}
		return nil
	}
	if _, err := env.reconcile(); !errors.Is(err, errBoom) {
		t.Errorf("the failure is tried again, so it is an error: %v", err)
	}
	if env.machine("b").Spec.Class.Kind != machinev1.MachineClassKind || len(env.machines()) != 3 {
		t.Errorf("b has kind %q, and there are %d machines", env.machine("b").Spec.Class.Kind, len(env.machines()))
	}
}

func TestSyncManyInBursts(t *testing.T) {
	t.Parallel()
	objects := []client.Object{newSet(burstReplicas + 20)}
	for i := range burstReplicas + 20 {
		objects = append(objects, newMember("m"+time.Duration(i).String(), func(m *machinev1.Machine) {
			m.Spec.Class.Kind = "Old"
		}))
	}
	env := newEnv(t, objects...)
	result, err := env.reconcile()
	if err != nil || env.sent("patch") != burstReplicas || result.RequeueAfter == 0 {
		t.Errorf("%d patches in one pass, then %v, %v", env.sent("patch"), result, err)
	}
	env.settle()
	if env.sent("patch") != burstReplicas+20 {
		t.Errorf("%d patches in all", env.sent("patch"))
	}
}
