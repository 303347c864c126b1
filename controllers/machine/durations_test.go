package machine

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// stopwatch notes what it is told.
type stopwatch struct {
	steps  []string
	drains []float64
}

func (s *stopwatch) Observe(_ *machinev1.Machine, instanceType, zone, step string, took float64) {
	if step == "drain" {
		s.drains = append(s.drains, took)
	}
	s.steps = append(s.steps, step+" "+instanceType+" "+zone)
}

func (s *stopwatch) FailedJoin(*machinev1.Machine, string, string) {
	s.steps = append(s.steps, "failed join")
}

func TestEachStepOfALifeIsMeasuredOnce(t *testing.T) {
	t.Parallel()
	w := newEnv(t, interceptor.Funcs{})
	watch := &stopwatch{}
	w.controller.Durations = watch
	w.editClass(func(c *machinev1.MachineClass) {
		c.NodeTemplate = &machinev1.NodeTemplate{
			InstanceType: "small", Zone: "sim-1a", Region: "sim-1",
			Capacity: corev1.ResourceList{"cpu": {}, "gpu": {}, "memory": {}},
		}
	})
	w.running("m")
	w.pass(time.Minute)
	w.delete(w.machine("m"))
	w.settle("m", func() bool { return w.machine("m") == nil })
	want := []string{"create small sim-1a", "join small sim-1a", "drain small sim-1a", "delete small sim-1a"}
	if !slices.Equal(watch.steps, want) {
		t.Errorf("measured %q, want %q", watch.steps, want)
	}
}

// Steps that end while the class is missing are not measured: their place is not known.
func TestStepsWithoutClassAreNotMeasured(t *testing.T) {
	t.Parallel()
	w := newEnv(t, interceptor.Funcs{})
	w.running("m")
	watch := &stopwatch{}
	w.controller.Durations = watch
	w.delete(w.machine("m"))
	w.dropClass()
	w.passes(3)
	if len(watch.steps) > 0 {
		t.Errorf("measured %q, want nothing", watch.steps)
	}
}

// The place of a machine is the same for all of its steps, whatever its node says.
func TestPlacementIsThatOfClassAndTemplate(t *testing.T) {
	t.Parallel()
	class := &machinev1.MachineClass{NodeTemplate: &machinev1.NodeTemplate{InstanceType: "large", Zone: "a"}}
	p := &pass{machine: newMachine("m", time.Time{})}
	p.node = &corev1.Node{}
	p.node.Labels = map[string]string{corev1.LabelInstanceTypeStable: "other", corev1.LabelTopologyZone: "other"}
	p.seen.class.Object = class
	if instanceType, zone := placement(p); instanceType != "large" || zone != "a" {
		t.Errorf("%s %s, want those of the class", instanceType, zone)
	}
	p.machine.Spec.NodeTemplateSpec.Labels = map[string]string{corev1.LabelTopologyZone: "b"}
	if instanceType, zone := placement(p); instanceType != "large" || zone != "b" {
		t.Errorf("%s %s, want the zone of the template, as in MCM", instanceType, zone)
	}
}

// Whatever a node is drained for, that is measured in the pass that ends the drain only.
func TestDrainEndsOnce(t *testing.T) {
	t.Parallel()
	p := &pass{machine: newMachine("m", time.Time{})}
	p.seen.before = p.machine.DeepCopy()
	for _, done := range []bool{false, true} {
		p.did.drained = &drainState{done: done, reason: machinev1.ReasonDrained, took: time.Minute}
		if got := len(stepsEnded(p)) == 1; got != done {
			t.Errorf("done %v, measured %v", done, got)
		}
	}
	p.seen.before.Status.Progress = &machinev1.Progress{Conditions: []metav1.Condition{drainCondition(p.did.drained)}}
	if got := stepsEnded(p); len(got) > 0 {
		t.Errorf("%+v: it had ended before", got)
	}
}

// The duration of a drain is its own: it begins with the first pass, not with the
// deletion of the Machine.
func TestDrainIsMeasuredFromItsBeginning(t *testing.T) {
	t.Parallel()
	w := newEnv(t, interceptor.Funcs{})
	watch := &stopwatch{}
	w.controller.Durations = watch
	w.running("m")
	pod := podOn("m")
	pod.Finalizers = []string{"x/y"}
	w.create(pod)
	w.delete(w.machine("m"))
	w.pass(10 * time.Minute) // until the manager gets to it
	w.passes(2)
	if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil {
		t.Fatal(err)
	}
	pod.Finalizers = nil
	if err := w.client.Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	w.settle("m", func() bool { return w.machine("m") == nil })
	if len(watch.drains) != 1 || watch.drains[0] < 10 || watch.drains[0] > 60 {
		t.Errorf("drains took %v seconds, want one of 20 seconds or so", watch.drains)
	}
}
