package mcmmachine

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/capi"
)

// tag gives the class these tags besides those of ownership; it asks for updates if follow is set.
func (w *env) tag(follow bool, tags string) {
	w.Helper()
	change(w, smallClass(), func(c *machinev1.MachineClass) {
		machinev1.SetOrRemoveAnnotation(c, machinev1.UpdateTagsAnnotation, map[bool]string{true: "true"}[follow])
		c.ProviderSpec.Raw = []byte(strings.Replace(string(smallClass().ProviderSpec.Raw), `"tags":{`, `"tags":{`+tags, 1))
	})
}

// tags are those of the only VM that are neither of ownership nor of the manager.
func (w *env) tags() string {
	w.Helper()
	all := w.cloud.VMs()
	if len(all) != 1 {
		w.Fatalf("%d VMs, want 1", len(all))
	}
	tags := maps.Clone(all[0].Tags)
	for _, key := range []string{
		"kubernetes.io/cluster/test", "kubernetes.io/role/node", sim.NameTag, machinev1.OwnerIDAnnotation,
		machinev1.ClusterIDTag, machinev1.ClusterNameTag, machinev1.ClusterNamespaceTag,
	} {
		if tags[key] == "" {
			w.Errorf("the VM has lost its tag %s", key)
		}
		delete(tags, key)
	}
	return fmt.Sprint(tags)
}

// tagCalls runs passes with time between them, and returns how often tags were set.
func (w *env) tagCalls() int {
	w.Helper()
	before := w.cloud.Calls(sim.OpSetTags)
	for range 3 {
		w.pass(w.run("m"))
	}
	return w.cloud.Calls(sim.OpSetTags) - before
}

const onVM = 3 // resources of a VM that have tags: itself, its disk, its interface

func TestTagsFollowTheClass(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.tag(true, `"team":"a","stage":"test",`)
	w.running("m")
	if calls := w.tagCalls(); calls != 0 {
		t.Errorf("%d calls for a VM that was created with the tags of the class", calls)
	}
	who, mine := sim.Login{Account: "demo", Secret: "demo-secret"}, "mine"
	for _, r := range w.cloud.VMs() {
		if _, err := w.cloud.SetTags(who, r.Region, r.ID, map[string]*string{"by-hand": &mine}); err != nil {
			t.Fatal(err)
		}
	}
	w.tag(true, `"team":"b","cost":"7",`)
	w.restart()
	// What is lost by clusterctl move: the status.
	change(w, w.get("m"), func(m *infrav1.MCMMachine) { m.Status = infrav1.MCMMachineStatus{} })
	if calls := w.tagCalls(); calls != onVM {
		t.Errorf("%d changes of tags, want one for each of the VM's %d resources", calls, onVM)
	}
	if got, want := w.tags(), "map[by-hand:mine cost:7 team:b]"; got != want {
		t.Errorf("the VM has the tags %s, want %s", got, want)
	}
	w.restart()
	if calls := w.tagCalls(); calls != 0 || !w.isProvisioned("m")() {
		t.Errorf("%d calls after a restart, want none", calls)
	}
	if woken := w.controller.ofClass(t.Context(), smallClass()); len(woken) != 1 {
		t.Errorf("the class wakes %v, want its machine", woken)
	}
}

func TestTagsFollowOnlyOnRequest(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.tag(false, `"team":"a",`)
	w.running("m")
	w.tag(false, `"team":"b",`)
	if calls := w.tagCalls(); calls != 0 || w.tags() != "map[team:a]" {
		t.Errorf("%d calls, tags %s: nobody has asked for it", calls, w.tags())
	}
	if _, noted := w.get("m").Annotations[machinev1.AppliedTagsAnnotation]; noted {
		t.Error("a record is kept although nobody has asked for it")
	}
	// Which tags the VM was created with is not known now, so none is removed.
	w.tag(true, `"cost":"7",`)
	if calls := w.tagCalls(); calls != onVM || w.tags() != "map[cost:7 team:a]" {
		t.Errorf("%d calls, tags %s", calls, w.tags())
	}
	w.tag(true, "")
	if calls := w.tagCalls(); calls != onVM || w.tags() != "map[team:a]" {
		t.Errorf("%d calls, tags %s: what was set since is removed", calls, w.tags())
	}
}

// TestTagsAreRetried: a failure is shown, tried again, and nothing else stops.
func TestTagsAreRetried(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.tag(true, `"team":"a",`)
	w.running("m")
	undo := w.cloud.AddFault(sim.Fault{Op: sim.OpSetTags, Code: sim.CodeServiceUnavailable, Message: "not now"})
	w.tag(true, `"cost":"7",`)
	w.told()
	for range 3 {
		wait := w.run("m")
		if wait == 0 || wait > longRetry {
			t.Fatalf("the next pass is in %v", wait)
		}
		w.pass(wait)
	}
	if said := w.condition("m", infrav1.TagsUpdatedCondition); !strings.Contains(said, "False CloudUnavailable: ") ||
		!strings.Contains(said, "not now") {
		t.Errorf("condition %q has to have the cause", said)
	}
	if told := w.told(); len(told) != 1 || !strings.Contains(told[0], "not now") {
		t.Errorf("Events %q, want one", told)
	}
	if ready := w.condition("m", "Ready"); !strings.HasPrefix(ready, "True") {
		t.Errorf("condition Ready is %q", ready)
	}
	w.tag(true, `"stage":"x",`) // before the first change has succeeded
	_ = w.run("m")
	undo()
	w.pass(longRetry)
	w.restart()
	if w.tagCalls(); w.tags() != "map[stage:x]" {
		t.Errorf("tags %s, want those of the class only", w.tags())
	}
	if said := w.condition("m", infrav1.TagsUpdatedCondition); said != "" {
		t.Errorf("condition %q stays", said)
	}
}

// TestTagsAreRecordedFirst: no tag is set that a later pass would not know of.
func TestTagsAreRecordedFirst(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.tag(true, `"team":"a",`)
	w.running("m")
	w.tag(true, `"cost":"7",`)
	w.fail = func(client.Object) error { return errors.New("refused") }
	if _, err := w.reconcile("m"); err == nil || w.tags() != "map[team:a]" {
		t.Errorf("got %v, tags %s, want an error and no change", err, w.tags())
	}
}

// TestTagsOfPausedMachines: they stay until somebody resumes it.
func TestTagsOfPausedMachines(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.tag(true, `"team":"a",`)
	m := w.running("m")
	change(w, m, func(m *infrav1.MCMMachine) { machinev1.SetAnnotation(m, "cluster.x-k8s.io/paused", "") })
	w.tag(true, `"team":"b",`)
	if calls := w.tagCalls(); calls != 0 {
		t.Errorf("%d calls for a paused machine", calls)
	}
	if capi.Paused(nil, w.get("m")) == "" {
		t.Error("the machine is not paused")
	}
	change(w, m, func(m *infrav1.MCMMachine) { delete(m.Annotations, "cluster.x-k8s.io/paused") })
	if calls := w.tagCalls(); calls != onVM {
		t.Errorf("%d calls for a resumed machine, want %d", calls, onVM)
	}
}

func TestTagsOfAnotherDriver(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	registry, err := cloud.NewRegistry([]cloud.Driver{struct{ cloud.Driver }{w.cloud.Driver()}}, w.clock.Now)
	if err != nil {
		t.Fatal(err)
	}
	d := w.controller.Deps
	d.Clouds = registry
	w.controller = New(d)
	w.tag(true, `"team":"a",`)
	w.running("m")
	w.tag(true, `"team":"b",`)
	if calls := w.tagCalls(); calls != 0 || !w.isProvisioned("m")() {
		t.Errorf("%d calls", calls)
	}
	said := w.condition("m", infrav1.TagsUpdatedCondition)
	if !strings.Contains(said, cloud.ReasonTagsUnsupported) || !strings.Contains(said, "roll the machines out") {
		t.Errorf("condition %q has to name the remedy", said)
	}
}
