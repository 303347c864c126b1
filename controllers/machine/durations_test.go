package machine

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// stopwatch notes what it is told.
type stopwatch struct{ steps []string }

func (s *stopwatch) Observe(_ *machinev1.Machine, instanceType, zone, step string, _ float64) {
	s.steps = append(s.steps, step+" "+instanceType+" "+zone)
}

func (s *stopwatch) FailedJoin(*machinev1.Machine, string, string) {
	s.steps = append(s.steps, "failed join")
}

func TestEachStepOfALifeIsMeasuredOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, interceptor.Funcs{})
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
	got := slices.Compact(watch.steps)
	want := []string{"create small sim-1a", "join small sim-1a", "delete small sim-1a"}
	got = slices.DeleteFunc(got, func(s string) bool { return s == "drain small sim-1a" })
	if !slices.Equal(got, want) {
		t.Errorf("measured %q, want %q", got, want)
	}
}
