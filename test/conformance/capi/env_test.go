package capi

import (
	"context"
	"fmt"
	"math/rand"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	testingclock "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/yaml"

	bootstrapv1 "github.com/capmcm/cluster-api-provider-mcm/api/bootstrap/v1alpha1"
	controlplanev1 "github.com/capmcm/cluster-api-provider-mcm/api/controlplane/v1alpha1"
	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
	"github.com/capmcm/cluster-api-provider-mcm/controllers"
	"github.com/capmcm/cluster-api-provider-mcm/internal/fence"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture"
)

// Names of the controllers, as controllers.All has them.
const (
	clusterController      = "mcmcluster"
	machineController      = "mcmmachine"
	templateController     = "mcmmachinetemplate"
	classController        = "mcmclass"
	configController       = "mcmconfig"
	controlPlaneController = "mcmexternalcontrolplane"
)

// env is a management cluster, a workload cluster, a cloud, and all controllers
// of the Cluster API provider between them. Its time moves only when a test moves it.
type env struct {
	*testing.T

	client      client.WithWatch
	workload    client.WithWatch
	connected   bool
	server      *fixture.APIServer // of the workload cluster
	cloud       *sim.Cloud
	clock       *testingclock.FakePassiveClock
	events      *record.FakeRecorder
	filter      string
	reconcilers map[string][]reconcile.Reconciler
	writes      []string                  // verb, kind and name of writes to the management cluster
	whole       []string                  // those that replace whole objects
	evictions   []string                  // writes to the workload cluster that drain or delete
	failing     func(client.Object) error // what patches of the management cluster fail with
}

// newEnv has a Cluster whose control plane is external, with its MCMCluster, a
// class and its Secret, and objects.
func newEnv(t *testing.T, objects ...client.Object) *env {
	t.Helper()
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	w := &env{
		T: t, connected: true, server: &fixture.APIServer{Version: "v1.36.3"},
		clock:  testingclock.NewFakePassiveClock(time.Now().Truncate(time.Second)),
		events: record.NewFakeRecorder(1000),
	}
	w.cloud = sim.New(sim.Options{Clock: w.clock, Settings: sim.DefaultSettings()})
	wired := &recorder{scheme: scheme}
	w.wire(wired)
	b := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(
		&infrav1.MCMCluster{}, &infrav1.MCMMachine{}, &infrav1.MCMMachineTemplate{}, &bootstrapv1.MCMConfig{},
		&bootstrapv1.MCMConfigTemplate{},
		&controlplanev1.MCMExternalControlPlane{}, &clusterv1.Cluster{}, &clusterv1.Machine{},
	).WithInterceptorFuncs(w.noting())
	for i, x := range wired.indexes {
		if !slices.ContainsFunc(wired.indexes[:i], func(y index) bool {
			return y.field == x.field && reflect.TypeOf(y.object) == reflect.TypeOf(x.object)
		}) {
			b = b.WithIndex(x.object, x.field, x.extract)
		}
	}
	w.client = b.Build()
	n := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(w.watching())
	for _, x := range controllers.WorkloadIndexes() {
		n = n.WithIndex(x.Object, x.Field, x.Extract)
	}
	w.workload = n.Build()
	w.create(append([]client.Object{theCluster(), theMCMCluster(), theClass("small"), theCredentials()}, objects...)...)
	w.restart()
	return w
}

// restart loses everything that the controllers remember.
func (w *env) restart() {
	w.Helper()
	w.reconcilers = map[string][]reconcile.Reconciler{}
	m := &recorder{scheme: w.client.Scheme(), client: w.client}
	w.wire(m)
}

// wire puts the controllers together as the product does.
func (w *env) wire(m *recorder) {
	w.Helper()
	clouds, err := cloud.NewRegistry([]cloud.Driver{w.cloud.Driver()}, w.clock.Now)
	if err != nil {
		w.Fatal(err)
	}
	for _, name := range []string{
		clusterController, machineController, templateController, classController,
		configController, controlPlaneController,
	} {
		m.reconcilers = nil
		err := controllers.Setup(w.Context(), m, controllers.Deps{
			Client: w.client, Live: w.client, Clouds: clouds, Clock: w.clock, Fence: fence.Alone(w.clock),
			Rand:     rand.New(rand.NewSource(1)),
			Clusters: clusters{env: w},
			Events:   func(string) record.EventRecorder { return w.events },
			Workers:  func(string) int { return 1 }, WatchFilter: w.filter,
		}, []string{name})
		if err != nil {
			w.Fatal(err)
		}
		if w.reconcilers != nil {
			w.reconcilers[name] = m.reconcilers
		}
	}
}

// noting notes writes to the management cluster.
func (w *env) noting() interceptor.Funcs {
	note := func(verb string, o client.Object) {
		w.writes = append(w.writes, fmt.Sprintf("%s %s %s", verb, reflect.TypeOf(o).Elem().Name(), o.GetName()))
	}
	return interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			note("create", o)
			return c.Create(ctx, o, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch,
			opts ...client.PatchOption,
		) error {
			note("patch", o)
			if w.failing != nil {
				if err := w.failing(o); err != nil {
					return err
				}
			}
			return c.Patch(ctx, o, p, opts...)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			w.whole = append(w.whole, o.GetName())
			return c.Update(ctx, o, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			note("delete", o)
			return c.Delete(ctx, o, opts...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch,
			opts ...client.SubResourcePatchOption,
		) error {
			note("patch status of", o)
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		},
	}
}

// watching notes what drains and deletes in the workload cluster.
func (w *env) watching() interceptor.Funcs {
	return interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			w.evictions = append(w.evictions, fmt.Sprintf("delete %T %s", o, o.GetName()))
			return c.Delete(ctx, o, opts...)
		},
		SubResourceCreate: func(ctx context.Context, c client.Client, sub string, o, s client.Object,
			opts ...client.SubResourceCreateOption,
		) error {
			w.evictions = append(w.evictions, fmt.Sprintf("%s %T %s", sub, o, o.GetName()))
			return c.SubResource(sub).Create(ctx, o, s, opts...)
		},
	}
}

// run is one pass of a controller, which has to succeed.
func (w *env) run(controller, name string) time.Duration {
	w.Helper()
	wait, err := w.try(controller, name)
	if err != nil {
		w.Fatalf("%s failed: %v", controller, err)
	}
	return wait
}

func (w *env) try(controller, name string) (time.Duration, error) {
	w.Helper()
	if len(w.reconcilers[controller]) == 0 {
		w.Fatalf("there is no controller %s", controller)
	}
	result, err := w.reconcilers[controller][0].Reconcile(w.Context(), reconcile.Request{NamespacedName: key(name)})
	return result.RequeueAfter, err
}

// settle runs passes for the machine, letting time pass as they ask for, until
// the check holds.
func (w *env) settle(check func() bool) {
	w.Helper()
	var err error
	for range 60 {
		var wait time.Duration
		wait, err = w.try(machineController, "m")
		if check() {
			return
		}
		w.pass(max(wait, time.Second))
	}
	w.Fatalf("the machine does not settle: %v", err)
}

func (w *env) pass(d time.Duration) { w.clock.SetTime(w.clock.Now().Add(d)) }

func (w *env) create(objects ...client.Object) {
	w.Helper()
	for _, o := range objects {
		status := o.DeepCopyObject().(client.Object)
		if err := w.client.Create(w.Context(), o); err != nil {
			w.Fatal(err)
		}
		status.SetResourceVersion(o.GetResourceVersion())
		if err := w.client.Status().Update(w.Context(), status); err != nil && !apierrors.IsNotFound(err) {
			w.Fatal(err)
		}
	}
	w.writes = nil
}

// delete asks for the deletion of an object.
func (w *env) delete(o client.Object) {
	w.Helper()
	if err := w.client.Delete(w.Context(), o); err != nil {
		w.Fatal(err)
	}
	w.writes = nil
}

// read returns the object of o's kind and name as it is.
func read[T client.Object](w *env, o T) T {
	w.Helper()
	if !exists(w, o) {
		w.Fatalf("there is no %T %s", o, o.GetName())
	}
	return o
}

// exists reads the object of o's kind and name, and reports whether there is one.
func exists(w *env, o client.Object) bool {
	w.Helper()
	err := w.client.Get(w.Context(), client.ObjectKeyFromObject(o), o)
	if client.IgnoreNotFound(err) != nil {
		w.Fatal(err)
	}
	return err == nil
}

// change changes an object as its author does, status included.
func change[T client.Object](w *env, o T, edit func(T)) {
	w.Helper()
	o = read(w, o)
	edit(o)
	status := o.DeepCopyObject().(client.Object)
	if err := w.client.Update(w.Context(), o); err != nil {
		w.Fatal(err)
	}
	status.SetResourceVersion(o.GetResourceVersion())
	if err := w.client.Status().Update(w.Context(), status); err != nil && !apierrors.IsNotFound(err) {
		w.Fatal(err)
	}
	w.writes, w.whole = nil, nil
}

// condition is "Status Reason", empty if there is none.
func (w *env) condition(o clusterObject, kind string) string {
	w.Helper()
	c := conditions.Get(read(w, o), kind)
	if c == nil {
		return ""
	}
	return string(c.Status) + " " + c.Reason
}

// vms are how many VMs were ever made, and how many of them are there.
func (w *env) vms() (made, live int) {
	for _, r := range w.cloud.Ledger() {
		if r.Kind != "vm" {
			continue
		}
		made++
		if r.Gone.IsZero() || r.Gone.After(w.clock.Now()) {
			live++
		}
	}
	return made, live
}

// told are the Events since the last call.
func (w *env) told() string {
	var all []string
	for len(w.events.Events) > 0 {
		all = append(all, <-w.events.Events)
	}
	return strings.Join(all, "\n")
}

// unchanged fails if anything was written since writes were reset.
func (w *env) unchanged(why string) {
	w.Helper()
	if len(w.writes)+len(w.whole) != 0 {
		w.Errorf("%s: %v", why, append(w.writes, w.whole...))
	}
}

// machine makes what a MachineSet makes for the machine m, and protects the class.
func (w *env) machine(edit ...func(*infrav1.MCMMachine)) *infrav1.MCMMachine {
	w.Helper()
	o := theMCMMachine(w.clock.Now())
	for _, f := range edit {
		f(o)
	}
	w.create(o, theMachine(), bootData())
	w.run(clusterController, "c1")
	w.run(classController, "small")
	return theMCMMachine(w.clock.Now())
}

// running makes the machine m, whose VM is provisioned and whose Node has joined.
func (w *env) running() *infrav1.MCMMachine {
	w.Helper()
	w.machine()
	w.provision()
	o := w.mcmMachine()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "m"}, Spec: corev1.NodeSpec{ProviderID: o.Spec.ProviderID}}
	if err := w.workload.Create(w.Context(), node); err != nil {
		w.Fatal(err)
	}
	change(w, theMachine(), func(m *clusterv1.Machine) {
		m.Spec.ProviderID = o.Spec.ProviderID
		m.Status.NodeRef = clusterv1.MachineNodeReference{Name: "m"}
		m.Status.Conditions = []metav1.Condition{{
			Type: clusterv1.MachineNodeHealthyCondition, Status: metav1.ConditionTrue, Reason: "Healthy",
			LastTransitionTime: metav1.NewTime(w.clock.Now()),
		}}
	})
	w.run(machineController, "m")
	return w.mcmMachine()
}

// provision runs the machine m until core is told that it is there.
func (w *env) provision() {
	w.Helper()
	w.settle(func() bool { return provisioned(w.mcmMachine()) })
}

func (w *env) mcmMachine() *infrav1.MCMMachine {
	w.Helper()
	return read(w, &infrav1.MCMMachine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "m"}})
}

func (w *env) gone(o client.Object) func() bool { return func() bool { return !exists(w, o) } }

func provisioned(o *infrav1.MCMMachine) bool {
	return o.Status.Initialization.Provisioned != nil && *o.Status.Initialization.Provisioned
}

func key(name string) client.ObjectKey { return client.ObjectKey{Namespace: namespace, Name: name} }

// clusterObject is an object of the contract: it has conditions.
type clusterObject interface {
	client.Object
	conditions.Getter
}

// yaml is an object as its reader sees it.
func (w *env) yaml(o client.Object) string {
	w.Helper()
	text, err := yaml.Marshal(o)
	if err != nil {
		w.Fatal(err)
	}
	return string(text)
}
