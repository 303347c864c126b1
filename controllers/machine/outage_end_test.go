package machine

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/safety/brake"
)

// endVM has the VM of a machine vanish.
func (w *env) endVM(name string) {
	w.Helper()
	id := w.machine(name).Spec.ProviderID
	if _, err := w.cloud.DeleteVM(sim.Login{Account: "demo", Secret: "demo-secret"}, "sim-1",
		id[strings.LastIndexByte(id, '/')+1:]); err != nil {
		w.Fatal(err)
	}
	w.pass(time.Minute)
	w.cloud.Tick()
}

// kept is what the metric says.
func (w *env) kept() int {
	all, sum := make(chan prometheus.Metric, 10), 0
	w.controller.Brake.KeptMachines().Collect(all)
	for range len(all) {
		var m dto.Metric
		w.Must((<-all).Write(&m))
		sum += int(m.GetGauge().GetValue())
	}
	return sum
}

func (w *env) drainEvents() {
	for len(w.events.Events) > 0 {
		<-w.events.Events
	}
}

// count is how many of the Events so far contain that text. They stay.
func (w *env) count(text string) int {
	n := 0
	for range len(w.events.Events) {
		e := <-w.events.Events
		if strings.Contains(e, text) {
			n++
		}
		w.events.Events <- e
	}
	return n
}

func TestFlappingNeighboursDoNotKeepADeadNodeForEver(t *testing.T) {
	t.Parallel()
	w := newEnv(t, interceptor.Funcs{})
	w.options.OutageLimit = time.Hour
	w.restart()
	for _, name := range []string{"a", "b", "c"} {
		w.runningIn(name, "p", "z")
	}
	w.silence("a")
	for range 14 { // b and c are an outage by themselves, again and again
		w.silence("b", "c")
		w.wait(4*time.Minute, "a", "b", "c")
		w.shows("b", corev1.NodeReady, corev1.ConditionTrue)
		w.shows("c", corev1.NodeReady, corev1.ConditionTrue)
		w.wait(time.Minute, "a", "b", "c")
		if w.clock.Since(w.machine("a").Status.LastOperation.LastUpdateTime.Time) < time.Hour &&
			w.phase("a") != machinev1.MachineUnknown {
			t.Fatalf("phase %q before the limit", w.phase("a"))
		}
	}
	w.silence("b", "c")
	w.wait(4*time.Minute, "a", "b", "c")
	if got := w.phase("a"); got != machinev1.MachineFailed {
		t.Errorf("phase %q: no outage keeps a machine for longer than the limit", got)
	}
}

func TestShortHealthTimeoutsNarrowTheWindow(t *testing.T) {
	t.Parallel()
	for health, want := range map[time.Duration]time.Duration{time.Minute: time.Minute, time.Hour: brake.Window} {
		if got := (brake.Query{Health: health}).Window(); got != want {
			t.Errorf("window %s with a health timeout of %s, want %s", got, health, want)
		}
	}
}
