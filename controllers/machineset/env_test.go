package machineset

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/target"
	"github.com/capmcm/cluster-api-provider-mcm/fence"
)

const namespace = "shoot"

// env is an API server, a cache that shows what it had at the last catchUp
// (or is always current if there was none), and a controller.
type env struct {
	t      *testing.T
	live   client.WithWatch
	cache  client.Reader
	clock  *clocktesting.FakePassiveClock
	events *record.FakeRecorder
	safety *record.FakeRecorder
	c      *Controller
	// requests counts writes and live reads, by verb.
	requests map[string]int
	// fault is asked before every write; an error of its fails it.
	fault func(verb string, o client.Object) error
	// lost is asked after every write; an error of its hides the success.
	lost func(verb string, o client.Object) error
	made int
}

func newEnv(t *testing.T, objects ...client.Object) *env {
	t.Helper()
	env := &env{
		t:        t,
		clock:    clocktesting.NewFakePassiveClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)),
		requests: map[string]int{},
	}
	env.live = interceptor.NewClient(env.builder(objects...).Build(), env.funcs())
	env.cache = env.live
	env.restart()
	return env
}

// restart makes a controller that remembers nothing: the first one, or the successor
// of one that has crashed.
func (env *env) restart() {
	leases := fence.New(env.clock, 24*time.Hour)
	if env.c == nil {
		leases.AcquiredReleased(env.clock.Now())
	} else {
		leases.Acquired(env.clock.Now())
	}
	env.events, env.safety = record.NewFakeRecorder(1000), record.NewFakeRecorder(1000)
	env.c = New(Deps{
		Client: view{Client: env.live, w: env}, Live: counted{env.live, env}, Target: &target.Cluster{Client: env.live},
		Clock: env.clock, Fence: leases, Events: env.events, SafetyEvents: env.safety, SafetyUp: 2, SafetyDown: 1,
		OvershootPeriod: time.Minute,
	})
}

func (env *env) builder(objects ...client.Object) *fake.ClientBuilder {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{machinev1.AddToScheme, corev1.AddToScheme} {
		if err := add(scheme); err != nil {
			env.t.Fatal(err)
		}
	}
	b := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&machinev1.MachineSet{}, &machinev1.Machine{})
	for _, i := range index.Control() {
		b = b.WithIndex(i.Object, i.Field, i.Extract)
	}
	return b
}

// funcs plays what the API server does and the fake does not, counts and fails.
func (env *env) funcs() interceptor.Funcs {
	write := func(verb string, o client.Object, do func() error) error {
		env.requests[verb]++
		if env.fault != nil {
			if err := env.fault(verb, o); err != nil {
				return err
			}
		}
		if err := do(); err != nil {
			return err
		}
		if env.lost != nil {
			return env.lost(verb, o)
		}
		return nil
	}
	return interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return write("create", o, func() error {
				env.made++
				o.SetUID(types.UID(fmt.Sprintf("made-%d", env.made)))
				o.SetCreationTimestamp(metav1.NewTime(env.clock.Now()))
				return c.Create(ctx, o, opts...)
			})
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return write("delete", o, func() error { return c.Delete(ctx, o, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch,
			opts ...client.PatchOption,
		) error {
			return write("patch", o, func() error { return c.Patch(ctx, o, patch, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, patch client.Patch,
			opts ...client.SubResourcePatchOption,
		) error {
			return write(sub, o, func() error { return c.SubResource(sub).Patch(ctx, o, patch, opts...) })
		},
	}
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

// counted are live reads.
type counted struct {
	client.Reader
	w *env
}

func (c counted) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	c.w.requests["get"]++
	return c.Reader.Get(ctx, key, o, opts...)
}

func (c counted) List(ctx context.Context, l client.ObjectList, opts ...client.ListOption) error {
	c.w.requests["list"]++
	return c.Reader.List(ctx, l, opts...)
}

// lag stops the cache at what the API server has now, or at what keep lets pass.
func (env *env) lag(keep func(client.Object) bool) {
	var all []client.Object
	for _, list := range []client.ObjectList{
		&machinev1.MachineList{}, &machinev1.MachineSetList{},
		&machinev1.MachineDeploymentList{},
	} {
		if err := env.live.List(env.t.Context(), list); err != nil {
			env.t.Fatal(err)
		}
		switch l := list.(type) {
		case *machinev1.MachineList:
			for i := range l.Items {
				all = append(all, &l.Items[i])
			}
		case *machinev1.MachineSetList:
			for i := range l.Items {
				all = append(all, &l.Items[i])
			}
		case *machinev1.MachineDeploymentList:
			for i := range l.Items {
				all = append(all, &l.Items[i])
			}
		}
	}
	if keep != nil {
		all = slices.DeleteFunc(all, func(o client.Object) bool { return !keep(o) })
	}
	env.cache = env.builder(all...).Build()
}

// catchUp makes the cache current again.
func (env *env) catchUp() { env.cache = env.live }

// reconcile runs one pass over the set.
func (env *env) reconcile() (reconcile.Result, error) {
	return env.c.Reconcile(env.t.Context(), reconcile.Request{NamespacedName: client.ObjectKey{
		Namespace: namespace,
		Name:      "set",
	}})
}

// settle runs passes until one changes nothing, and returns its result.
func (env *env) settle() reconcile.Result {
	env.t.Helper()
	for range 20 {
		before := env.writes()
		result, err := env.reconcile()
		if err != nil {
			env.t.Fatalf("reconcile: %v", err)
		}
		if env.writes() == before {
			return result
		}
	}
	env.t.Fatal("the set does not settle")
	return reconcile.Result{}
}

func (env *env) writes() int {
	return env.requests["create"] + env.requests["delete"] + env.requests["patch"] + env.requests["status"]
}

func (env *env) set() *machinev1.MachineSet {
	env.t.Helper()
	set := &machinev1.MachineSet{}
	if err := env.live.Get(env.t.Context(), client.ObjectKey{Namespace: namespace, Name: "set"}, set); err != nil {
		env.t.Fatal(err)
	}
	return set
}

func (env *env) edit(change func(*machinev1.MachineSet)) {
	env.t.Helper()
	set := env.set()
	change(set)
	if err := env.live.Update(env.t.Context(), set); err != nil {
		env.t.Fatal(err)
	}
}

func (env *env) scale(replicas int32) {
	env.edit(func(set *machinev1.MachineSet) { set.Spec.Replicas = replicas })
}

// machines are those on the API server, terminating ones included.
func (env *env) machines() []*machinev1.Machine {
	env.t.Helper()
	list := &machinev1.MachineList{}
	if err := env.live.List(env.t.Context(), list); err != nil {
		env.t.Fatal(err)
	}
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
	env.t.Helper()
	for _, m := range env.machines() {
		if m.DeletionTimestamp.IsZero() || (len(names) > 0 && !slices.Contains(names, m.Name)) {
			continue
		}
		m.Finalizers = nil
		if err := env.live.Update(env.t.Context(), m); err != nil {
			env.t.Fatal(err)
		}
	}
}

// become sets the phase of machines.
func (env *env) become(phase machinev1.MachinePhase, names ...string) {
	env.t.Helper()
	for _, m := range env.machines() {
		if len(names) > 0 && !slices.Contains(names, m.Name) {
			continue
		}
		m.Status.CurrentStatus.Phase = phase
		if err := env.live.Status().Update(env.t.Context(), m); err != nil {
			env.t.Fatal(err)
		}
	}
}

// told returns the Events since the last call, and how many have the reason. It
// fails when one comes from another component than MCM's.
func (env *env) told(reason string) (all []string, count int) {
	env.t.Helper()
	for {
		var e string
		safety := false
		select {
		case e = <-env.events.Events:
		case e = <-env.safety.Events:
			safety = true
		default:
			return all, count
		}
		if about := strings.Contains(e, "rozeMachineSet "); about != safety {
			env.t.Errorf("from the recorder for freezing is %v: %s", safety, e)
		}
		all = append(all, e)
		if strings.Contains(e, " "+reason+" ") {
			count++
		}
	}
}

// newSet is a valid set that has its finalizer.
func newSet(replicas int32, changes ...func(*machinev1.MachineSet)) *machinev1.MachineSet {
	set := &machinev1.MachineSet{
		ObjectMeta: metav1.ObjectMeta{
			Name: "set", Namespace: namespace, UID: "set-uid", Generation: 1,
			Finalizers: []string{machinev1.Finalizer},
		},
		Spec: machinev1.MachineSetSpec{
			Replicas: replicas,
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"pool": "a"}},
			Template: machinev1.MachineTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"pool": "a"}},
				Spec:       machinev1.MachineSpec{Class: machinev1.ClassSpec{Kind: machinev1.MachineClassKind, Name: "class"}},
			},
		},
	}
	for _, change := range changes {
		change(set)
	}
	return set
}

// newMember is a Running machine of newSet.
func newMember(name string, changes ...func(*machinev1.Machine)) *machinev1.Machine {
	set := newSet(0)
	m := &machinev1.Machine{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: namespace, UID: types.UID(name), Labels: map[string]string{"pool": "a"},
			Finalizers: []string{machinev1.Finalizer}, OwnerReferences: []metav1.OwnerReference{controllerRef(set)},
		},
		Spec:   *set.Spec.Template.Spec.DeepCopy(),
		Status: machinev1.MachineStatus{CurrentStatus: machinev1.CurrentStatus{Phase: machinev1.MachineRunning}},
	}
	for _, change := range changes {
		change(m)
	}
	return m
}

func phase(p machinev1.MachinePhase) func(*machinev1.Machine) {
	return func(m *machinev1.Machine) { m.Status.CurrentStatus.Phase = p }
}

func annotated(key, value string) func(*machinev1.Machine) {
	return func(m *machinev1.Machine) { machinev1.SetAnnotation(m, key, value) }
}
