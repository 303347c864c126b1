package machine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
)

// tag gives the class these tags besides those of ownership; it asks for updates if follow is set.
func (w *env) tag(follow bool, tags string) *machinev1.MachineClass {
	w.Helper()
	c := smallClass()
	if err := w.client.Get(w.Context(), client.ObjectKeyFromObject(c), c); err != nil {
		w.Fatal(err)
	}
	machinev1.SetOrRemoveAnnotation(c, machinev1.UpdateTagsAnnotation, map[bool]string{true: "true"}[follow])
	c.ProviderSpec.Raw = []byte(strings.Replace(string(smallClass().ProviderSpec.Raw), `"tags":{`, `"tags":{`+tags, 1))
	if err := w.client.Update(w.Context(), c); err != nil {
		w.Fatal(err)
	}
	return c
}

// byHand gives a VM a tag that no class has.
func (w *env) byHand() {
	w.Helper()
	for _, r := range w.cloud.VMs() {
		who, mine := sim.Login{Account: "demo", Secret: "demo-secret"}, "mine"
		if _, err := w.cloud.SetTags(who, r.Region, r.ID, map[string]*string{"by-hand": &mine}); err != nil {
			w.Fatal(err)
		}
	}
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
		if _, err := w.reconcile("m"); err != nil {
			w.Fatal(err)
		}
		w.pass(time.Minute)
	}
	return w.cloud.Calls(sim.OpSetTags) - before
}

const onVM = 3 // resources of a VM that have tags: itself, its disk, its interface

func TestTagsFollowTheClass(t *testing.T) {
	t.Parallel()
	w := newEnv(t, interceptor.Funcs{})
	w.tag(true, `"team":"a","stage":"test",`)
	w.running("m")
	if calls := w.tagCalls(); calls != 0 {
		t.Errorf("%d calls for a VM that was created with the tags of the class", calls)
	}
	w.byHand()
	w.tag(true, `"team":"b","cost":"7",`)
	w.restart()
	if calls := w.tagCalls(); calls != onVM {
		t.Errorf("%d changes of tags, want one for each of the VM's %d resources", calls, onVM)
	}
	if got, want := w.tags(), "map[by-hand:mine cost:7 team:b]"; got != want {
		t.Errorf("the VM has the tags %s, want %s", got, want)
	}
	w.restart()
	if calls := w.tagCalls(); calls != 0 {
		t.Errorf("%d calls after a restart, want none", calls)
	}
	if w.phase("m") != machinev1.MachineRunning || w.condition("m", machinev1.ConditionTagsUpdated) != "" {
		t.Errorf("phase %s, condition %q", w.phase("m"), w.condition("m", machinev1.ConditionTagsUpdated))
	}
}

func TestTagsFollowOnlyOnRequest(t *testing.T) {
	t.Parallel()
	w := newEnv(t, interceptor.Funcs{})
	w.tag(false, `"team":"a",`)
	w.running("m")
	class := w.tag(false, `"team":"b",`)
	if calls := w.tagCalls(); calls != 0 || w.tags() != "map[team:a]" {
		t.Errorf("%d calls, tags %s: nobody has asked for it", calls, w.tags())
	}
	if _, noted := w.machine("m").Annotations[machinev1.AppliedTagsAnnotation]; noted {
		t.Error("a record is kept although nobody has asked for it")
	}
	if woken := w.controller.machinesOfClass(t.Context(), class); len(woken) != 0 {
		t.Errorf("the class wakes %v", woken)
	}
	// Which tags the VM was created with is not known now, so none is removed.
	class = w.tag(true, `"cost":"7",`)
	if woken := w.controller.machinesOfClass(t.Context(), class); len(woken) != 1 {
		t.Errorf("the class wakes %v, want its machine", woken)
	}
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
	w := newEnv(t, interceptor.Funcs{})
	w.tag(true, `"team":"a",`)
	w.running("m")
	undo := w.cloud.AddFault(sim.Fault{Op: sim.OpSetTags, Code: sim.CodeAccessDenied, Message: "not allowed"})
	w.tag(true, `"cost":"7",`)
	for range 3 {
		result, err := w.reconcile("m")
		if err != nil || result.RequeueAfter == 0 || result.RequeueAfter > longRetry {
			t.Fatalf("got %v, %v, want a pass that succeeds and is repeated soon", result, err)
		}
		w.pass(result.RequeueAfter)
	}
	if said := w.condition("m", machinev1.ConditionTagsUpdated); !strings.Contains(said, "CredentialsRefused: ") ||
		!strings.Contains(said, "not allowed") {
		t.Errorf("condition %q has to have the cause", said)
	}
	told := 0
	for len(w.events.Events) > 0 {
		if e := <-w.events.Events; strings.Contains(e, eventTagsNotUpdated) {
			told++
		}
	}
	if told != 1 || w.phase("m") != machinev1.MachineRunning {
		t.Errorf("%d Events, phase %s, want one Event of a Machine that is Running", told, w.phase("m"))
	}
	w.tag(true, `"stage":"x",`) // before the first change has succeeded
	_, _ = w.reconcile("m")
	undo()
	w.pass(longRetry)
	w.restart()
	if w.tagCalls(); w.tags() != "map[stage:x]" {
		t.Errorf("tags %s, want those of the class only", w.tags())
	}
	if said := w.condition("m", machinev1.ConditionTagsUpdated); said != "" {
		t.Errorf("condition %q stays", said)
	}
}

// TestTagsAreRecordedFirst: no tag is set that a later pass would not know of.
func TestTagsAreRecordedFirst(t *testing.T) {
	t.Parallel()
	refuse := false
	w := newEnv(t, interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, o client.Object,
		p client.Patch, opts ...client.PatchOption,
	) error {
		if refuse {
			return errors.New("refused")
		}
		return c.Patch(ctx, o, p, opts...)
	}})
	w.tag(true, `"team":"a",`)
	w.running("m")
	w.tag(true, `"cost":"7",`)
	refuse = true
	if _, err := w.reconcile("m"); err == nil || w.tags() != "map[team:a]" {
		t.Errorf("got %v, tags %s, want an error and no change", err, w.tags())
	}
}

func TestTagsOfAnotherDriver(t *testing.T) {
	t.Parallel()
	w := newEnv(t, interceptor.Funcs{})
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
	if calls := w.tagCalls(); calls != 0 || w.phase("m") != machinev1.MachineRunning {
		t.Errorf("%d calls, phase %s", calls, w.phase("m"))
	}
	said := w.condition("m", machinev1.ConditionTagsUpdated)
	if !strings.Contains(said, cloud.ReasonTagsUnsupported) || !strings.Contains(said, "roll the machines out") {
		t.Errorf("condition %q has to name the remedy", said)
	}
	w.tag(false, `"team":"b",`)
	if w.tagCalls(); w.condition("m", machinev1.ConditionTagsUpdated) != "" {
		t.Error("the condition stays although nobody asks for it any more")
	}
}
