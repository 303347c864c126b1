package machineset

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/target"
	"github.com/capmcm/cluster-api-provider-mcm/internal/fence"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/harness"
)

const namespace = "shoot"

var theSet = client.ObjectKey{Namespace: namespace, Name: "set"}

// env is an API server, a cache that shows what it had at the last catchUp
// (or is always current if there was none), and a controller.
type env struct {
	*harness.Env
	cache  client.Reader
	safety *record.FakeRecorder
	c      *Controller
}

func newEnv(t *testing.T, objects ...client.Object) *env {
	t.Helper()
	env := &env{Env: harness.New(t, harness.With(objects...), harness.Indexed(index.Control()))}
	env.catchUp()
	env.restart()
	return env
}

// restart makes a controller that remembers nothing: the first one, or the successor
// of one that has crashed.
func (env *env) restart() {
	leases := fence.New(env.Clock, 24*time.Hour)
	if env.c == nil {
		leases.AcquiredReleased(env.Clock.Now())
	} else {
		leases.Acquired(env.Clock.Now())
	}
	env.Heard()
	env.safety = record.NewFakeRecorder(1000)
	env.c = New(Deps{
		Client: view{Client: env.Client, w: env}, Live: env.Client, Target: &target.Cluster{Client: env.Client},
		Clock: env.Clock, Fence: leases, Events: env.Events, SafetyEvents: env.safety, SafetyUp: 2, SafetyDown: 1,
		OvershootPeriod: time.Minute,
	})
}

// verbOf is what a request is counted as: its subresource, or its verb.
func verbOf(r harness.Request) string { return cmp.Or(r.Subresource, r.Verb) }

// sent returns how many requests with a verb there were.
func (env *env) sent(verb string) int {
	n := 0
	for _, r := range env.Requests {
		if verbOf(r) == verb {
			n++
		}
	}
	return n
}

// view reads from the cache and writes to the API server.
type view struct {
	client.Client
	w *env
}

func (v view) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	return v.w.cache.Get(ctx, key, o, opts...)
}

func (v view) List(ctx context.Context, l client.ObjectList, opts ...client.ListOption) error {
	return v.w.cache.List(ctx, l, opts...)
}

// lag stops the cache at what the API server has now, or at what keep lets pass.
func (env *env) lag(keep func(client.Object) bool) {
	env.Helper()
	var shown []client.Object
	for _, list := range []client.ObjectList{
		&machinev1.MachineList{}, &machinev1.MachineSetList{}, &machinev1.MachineDeploymentList{},
	} {
		env.List(list)
		env.Must(meta.EachListItem(list, func(o runtime.Object) error {
			if o := o.(client.Object); keep == nil || keep(o) {
				shown = append(shown, o)
			}
			return nil
		}))
	}
	env.cache = env.NewCluster(harness.With(shown...), harness.Indexed(index.Control())).Raw
}

// catchUp makes the cache current again.
func (env *env) catchUp() { env.cache = env.Raw }

// reconcile runs one pass over the set.
func (env *env) reconcile() (reconcile.Result, error) { return env.Try(env.c, theSet) }

// settle runs passes until one changes nothing, and returns its result.
func (env *env) settle() reconcile.Result {
	env.Helper()
	return env.Settle(env.c, theSet)
}

func (env *env) writes() int { return len(env.Writes()) }

func (env *env) set() *machinev1.MachineSet {
	env.Helper()
	return harness.Get[machinev1.MachineSet](env.Cluster, theSet)
}

func (env *env) edit(change func(*machinev1.MachineSet)) {
	env.Helper()
	harness.Edit(env.Cluster, env.set(), change)
}

func (env *env) scale(replicas int32) {
	env.edit(func(set *machinev1.MachineSet) { set.Spec.Replicas = replicas })
}

// machines are those on the API server, terminating ones included.
func (env *env) machines() []*machinev1.Machine {
	env.Helper()
	list := &machinev1.MachineList{}
	env.List(list)
	var all []*machinev1.Machine
	for i := range list.Items {
		all = append(all, &list.Items[i])
	}
	return all
}

// alive are the names of the machines that are not terminating.
func (env *env) alive() []string {
	var names []string
	for _, m := range active(env.machines()) {
		names = append(names, m.Name)
	}
	return names
}

// vanish removes the finalizers of terminating machines, as their controller does.
func (env *env) vanish(names ...string) {
	env.Helper()
	for _, m := range env.machines() {
		if m.DeletionTimestamp.IsZero() || (len(names) > 0 && !slices.Contains(names, m.Name)) {
			continue
		}
		env.RemoveFinalizers(m)
	}
}

// become sets the phase of machines.
func (env *env) become(phase machinev1.MachinePhase, names ...string) {
	env.Helper()
	for _, m := range env.machines() {
		if len(names) > 0 && !slices.Contains(names, m.Name) {
			continue
		}
		harness.Edit(env.Cluster, m, func(m *machinev1.Machine) { m.Status.CurrentStatus.Phase = phase })
	}
}

// told returns the Events since the last call, and how many have the reason. It
// fails when one comes from another component than MCM's.
func (env *env) told(reason string) (all []string, count int) {
	env.Helper()
	for {
		var e string
		safety := false
		select {
		case e = <-env.Events.Events:
		case e = <-env.safety.Events:
			safety = true
		default:
			return all, count
		}
		if about := strings.Contains(e, "rozeMachineSet "); about != safety {
			env.Errorf("from the recorder for freezing is %v: %s", safety, e)
		}
		all = append(all, e)
		if strings.Contains(e, " "+reason+" ") {
			count++
		}
	}
}

// newSet is a valid set that has its finalizer.
func newSet(replicas int32, changes ...func(*machinev1.MachineSet)) *machinev1.MachineSet {
	return fixture.MachineSet("set", "class", replicas, append([]func(*machinev1.MachineSet){
		fixture.In[*machinev1.MachineSet](namespace), func(set *machinev1.MachineSet) {
			set.UID, set.Generation, set.Labels, set.Finalizers = "set-uid", 1, nil, []string{machinev1.Finalizer}
			set.Spec.Selector.MatchLabels = map[string]string{"pool": "a"}
			set.Spec.Template.Labels = map[string]string{"pool": "a"}
			set.Spec.Template.Spec.Class.APIGroup = ""
		},
	}, changes...)...)
}

// newMember is a Running machine of newSet.
func newMember(name string, changes ...func(*machinev1.Machine)) *machinev1.Machine {
	return fixture.Machine(name, "class", append([]func(*machinev1.Machine){
		fixture.In[*machinev1.Machine](namespace), fixture.Labels[*machinev1.Machine]("pool", "a"),
		fixture.OwnedBy[*machinev1.Machine](controllerRef(newSet(0))), phase(machinev1.MachineRunning),
		func(m *machinev1.Machine) { m.UID, m.Finalizers = types.UID(name), []string{machinev1.Finalizer} },
	}, changes...)...)
}

func phase(p machinev1.MachinePhase) func(*machinev1.Machine) {
	return func(m *machinev1.Machine) { m.Status.CurrentStatus.Phase = p }
}

func annotated(key, value string) func(*machinev1.Machine) {
	return func(m *machinev1.Machine) { machinev1.SetAnnotation(m, key, value) }
}
