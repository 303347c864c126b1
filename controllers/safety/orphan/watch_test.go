package orphan

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// requests keeps what a handler asks for.
type requests struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	after map[string]time.Duration
}

func (q *requests) AddAfter(r reconcile.Request, d time.Duration) { q.after[r.Name] = d }

func TestDeletionsCauseOneLook(t *testing.T) {
	t.Parallel()
	w := newEnv(t, Options{}, machineClass("a"))
	w.run("a")
	w.Clock.SetTime(now.Add(time.Minute))
	q := &requests{after: map[string]time.Duration{}}
	for _, name := range []string{"m-1", "m-2", "m-3"} {
		w.controller.machineEvents().Delete(t.Context(), event.DeleteEvent{Object: machine(name, "", "")}, q)
	}
	w.controller.machineEvents().Delete(t.Context(), event.DeleteEvent{Object: &machinev1.Machine{}}, q)
	if diff := cmp.Diff(map[string]time.Duration{"a": 30 * time.Second}, q.after); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	if wait := w.run("a"); wait != 30*time.Second || w.lists() != 1 {
		t.Errorf("wait %v after %d looks: a look at once would be too early", wait, w.lists())
	}
	w.Clock.SetTime(w.Clock.Now().Add(30 * time.Second))
	if wait := w.run("a"); wait <= time.Minute || w.lists() != 2 {
		t.Errorf("wait %v after %d looks: all deletions together cause one", wait, w.lists())
	}
}

func TestClassEvents(t *testing.T) {
	t.Parallel()
	annotated := func(key, value string) *machinev1.MachineClass {
		return machineClass("a", func(c *machinev1.MachineClass) { c.Annotations = map[string]string{key: value} })
	}
	cases := map[string]struct {
		reason string
		after  *machinev1.MachineClass
		asks   bool
		looks  bool
	}{
		"Nothing": {"Resyncs cause nothing.", machineClass("a"), false, false},
		"Finalizer": {"Our own writes cause nothing.", machineClass("a", func(c *machinev1.MachineClass) {
			c.Finalizers = []string{"x"}
		}), false, false},
		"Generation": {"A changed spec may belong to another account.", machineClass("a", func(c *machinev1.MachineClass) {
			c.Generation = 7
		}), true, false},
		"Report": {"The annotation that only reports counts at once.", annotated(reportAnnotation, ""), true, false},
		"Look":   {"A look can be asked for.", annotated(scanAnnotation, "now"), true, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, Options{}, machineClass("a"))
			w.run("a")
			q := &requests{after: map[string]time.Duration{}}
			changed := event.UpdateEvent{ObjectOld: machineClass("a"), ObjectNew: tc.after}
			w.controller.classEvents().Update(t.Context(), changed, q)
			w.run("a")
			if asked := len(q.after) > 0; asked != tc.asks || (w.lists() == 2) != tc.looks {
				t.Errorf("asked %v, %d looks: %s", asked, w.lists(), tc.reason)
			}
		})
	}
}

func TestGoneClassIsForgotten(t *testing.T) {
	t.Parallel()
	c := machineClass("a")
	w := newEnv(t, Options{}, c)
	w.run("a")
	w.controller.memory.requestScan(client.ObjectKeyFromObject(c), now)
	w.Delete(c)
	if wait := w.run("a"); wait != 0 || len(w.controller.memory.groups) != 0 || len(w.controller.memory.wanted) != 0 {
		t.Errorf("wait %v, remembered %v, %v", wait, w.controller.memory.groups, w.controller.memory.wanted)
	}
}
