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
)

func TestSyncSpecs(t *testing.T) {
	t.Parallel()
	timeout := &machinev1.MachineConfiguration{MachineDrainTimeout: &metav1.Duration{Duration: time.Hour}}
	nodes := machinev1.NodeTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"zone": "b"}},
		Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}}},
	}
	set := func() *machinev1.MachineSet {
		return newSet(1, func(s *machinev1.MachineSet) {
			s.Spec.Template.Spec.NodeTemplateSpec, s.Spec.Template.Spec.MachineConfiguration = nodes, timeout
			s.Spec.Template.Spec.Class.Kind = "NewKind"
			s.Spec.Template.Labels["added"] = "later"
		})
	}
	old := func(m *machinev1.Machine) {
		m.Spec.NodeTemplateSpec.Labels = map[string]string{"zone": "a", "gone": "x"}
		m.Spec.MachineConfiguration = &machinev1.MachineConfiguration{MachineHealthTimeout: &metav1.Duration{Duration: time.Minute}}
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
			w := newWorld(t, set(), newMember("a", old, phase(tc.phase), annotated(machinev1.PreserveAnnotation, "now")))
			w.settle()
			m := w.machine("a")
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
	w := newWorld(t, newSet(1), newMember("a", func(m *machinev1.Machine) {
		m.Spec.MachineConfiguration = &machinev1.MachineConfiguration{MachineHealthTimeout: &metav1.Duration{Duration: time.Minute}}
	}))
	w.settle()
	if got := w.machine("a").Spec.MachineConfiguration; got != nil && *got != (machinev1.MachineConfiguration{}) {
		t.Errorf("got %+v", got)
	}
	if w.requests["patch"] != 1 {
		t.Errorf("%d patches, want 1", w.requests["patch"])
	}
}

// One machine that cannot be changed holds nothing else up.
func TestSyncFailsForOne(t *testing.T) {
	t.Parallel()
	outdated := func(m *machinev1.Machine) { m.Spec.Class.Kind = "Old" }
	w := newWorld(t, newSet(3), newMember("a", outdated), newMember("b", outdated))
	w.fault = func(verb string, o client.Object) error {
		if verb == "patch" && o.GetName() == "a" {
			return errBoom
		}
		return nil
	}
	if _, err := w.reconcile(); !errors.Is(err, errBoom) {
		t.Errorf("the failure is tried again, so it is an error: %v", err)
	}
	if w.machine("b").Spec.Class.Kind != machinev1.MachineClassKind || len(w.machines()) != 3 {
		t.Errorf("b has kind %q, and there are %d machines", w.machine("b").Spec.Class.Kind, len(w.machines()))
	}
}

func TestSyncManyInBursts(t *testing.T) {
	t.Parallel()
	objects := []client.Object{newSet(burst + 20)}
	for i := range burst + 20 {
		objects = append(objects, newMember("m"+time.Duration(i).String(), func(m *machinev1.Machine) {
			m.Spec.Class.Kind = "Old"
		}))
	}
	w := newWorld(t, objects...)
	result, err := w.reconcile()
	if err != nil || w.requests["patch"] != burst || result.RequeueAfter == 0 {
		t.Errorf("%d patches in one pass, then %v, %v", w.requests["patch"], result, err)
	}
	w.settle()
	if w.requests["patch"] != burst+20 {
		t.Errorf("%d patches in all", w.requests["patch"])
	}
}
