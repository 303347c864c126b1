package inframachine

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	testingclock "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
	"github.com/capmcm/cluster-api-provider-mcm/fence"
)

const namespace = "ns"

// env is a management cluster, a workload cluster, a cloud, and the controller
// between them. Its time moves only when a test moves it.
type env struct {
	*testing.T
	client     client.WithWatch
	workload   client.WithWatch
	connected  bool
	cloud      *sim.Cloud
	clock      *testingclock.FakePassiveClock
	fence      *fence.Fence
	events     *record.FakeRecorder
	controller *Controller
	writes     int // to the management cluster
	nodeWrites int // to the workload cluster
	fail       func(o client.Object) error
}

// clusters is the connection to the workload cluster.
type clusters struct {
	clustercache.ClusterCache
	w *env
}

func (c clusters) GetClient(context.Context, client.ObjectKey) (client.Client, error) {
	if !c.w.connected {
		return nil, clustercache.ErrClusterNotConnected
	}
	return c.w.workload, nil
}

func schemeOf(t *testing.T) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	err := errors.Join(clientgoscheme.AddToScheme(s), machinev1.AddToScheme(s), infrav1.AddToScheme(s),
		clusterv1.AddToScheme(s))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// newEnv has a Cluster, its MCMCluster, a class and its Secret; objects are
// there besides, or instead of those of their kind and name.
func newEnv(t *testing.T, objects ...client.Object) *env {
	t.Helper()
	w := &env{
		T: t, connected: true, clock: testingclock.NewFakePassiveClock(metav1.Now().Truncate(time.Second)),
		events: record.NewFakeRecorder(1000),
	}
	b := fake.NewClientBuilder().WithScheme(schemeOf(t)).WithStatusSubresource(&infrav1.MCMMachine{},
		&infrav1.MCMCluster{}, &clusterv1.Machine{}, &clusterv1.Cluster{}).
		WithInterceptorFuncs(w.counting(&w.writes))
	for _, o := range append([]client.Object{cluster(), infraCluster(), smallClass(), smallSecret()}, objects...) {
		if !replaced(o, objects) {
			b = b.WithObjects(o)
		}
	}
	for _, i := range append(index.Infrastructure(), index.Control()...) {
		b = b.WithIndex(i.Object, i.Field, i.Extract)
	}
	w.client = b.Build()
	n := fake.NewClientBuilder().WithScheme(schemeOf(t)).WithInterceptorFuncs(w.counting(&w.nodeWrites))
	for _, i := range index.Target() {
		n = n.WithIndex(i.Object, i.Field, i.Extract)
	}
	w.workload = n.Build()
	w.cloud = sim.New(sim.Options{Clock: w.clock, Settings: sim.DefaultSettings()})
	w.fence = fence.Alone(w.clock)
	w.restart()
	return w
}

// replaced reports whether another one of the objects stands for o.
func replaced(o client.Object, by []client.Object) bool {
	for _, other := range by {
		_, same := any(other).(*clusterv1.Cluster)
		_, is := any(o).(*clusterv1.Cluster)
		if other != o && client.ObjectKeyFromObject(other) == client.ObjectKeyFromObject(o) &&
			(same && is || sameType(other, o)) {
			return true
		}
	}
	return false
}

func sameType(a, b client.Object) bool {
	switch a.(type) {
	case *infrav1.MCMCluster:
		_, ok := b.(*infrav1.MCMCluster)
		return ok
	case *machinev1.MachineClass:
		_, ok := b.(*machinev1.MachineClass)
		return ok
	case *corev1.Secret:
		_, ok := b.(*corev1.Secret)
		return ok
	}
	return false
}

func (w *env) counting(count *int) interceptor.Funcs {
	before := func(o client.Object) error {
		*count++
		if w.fail != nil {
			return w.fail(o)
		}
		return nil
	}
	return interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch,
			opts ...client.PatchOption,
		) error {
			if err := before(o); err != nil {
				return err
			}
			return c.Patch(ctx, o, p, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			if err := before(o); err != nil {
				return err
			}
			return c.Delete(ctx, o, opts...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch,
			opts ...client.SubResourcePatchOption,
		) error {
			if err := before(o); err != nil {
				return err
			}
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		},
	}
}

// restart loses everything that the controller remembers.
func (w *env) restart() {
	w.Helper()
	registry, err := cloud.NewRegistry([]cloud.Driver{w.cloud.Driver()}, w.clock.Now)
	if err != nil {
		w.Fatal(err)
	}
	w.controller = New(Deps{
		Client: w.client, Clusters: clusters{w: w}, Clouds: registry, Clock: w.clock,
		Fence: w.fence, Events: w.events,
	})
}

func (w *env) reconcile(name string) (reconcile.Result, error) {
	w.Helper()
	return w.controller.Reconcile(w.Context(), reconcile.Request{NamespacedName: key(name)})
}

// run is a pass that has to succeed.
func (w *env) run(name string) time.Duration {
	w.Helper()
	result, err := w.reconcile(name)
	if err != nil {
		w.Fatalf("pass failed: %v", err)
	}
	return result.RequeueAfter
}

// settle runs passes, letting time pass as they ask for, until the check holds.
func (w *env) settle(name string, check func() bool) {
	w.Helper()
	for range 60 {
		result, err := w.reconcile(name)
		if check() {
			return
		}
		if err != nil {
			w.Logf("pass failed: %v", err)
		}
		w.pass(max(result.RequeueAfter, time.Second))
	}
	w.Fatalf("did not settle: %+v", w.get(name))
}

func (w *env) pass(d time.Duration) { w.clock.SetTime(w.clock.Now().Add(d)) }

func key(name string) client.ObjectKey { return client.ObjectKey{Namespace: namespace, Name: name} }

// get returns the MCMMachine as it is, nil if there is none.
func (w *env) get(name string) *infrav1.MCMMachine {
	w.Helper()
	m := &infrav1.MCMMachine{}
	err := w.client.Get(w.Context(), key(name), m)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		w.Fatal(err)
	}
	return m
}

// gone reports whether machine m is.
func (w *env) gone() func() bool { return func() bool { return w.get("m") == nil } }

func (w *env) isProvisioned(name string) func() bool {
	return func() bool { m := w.get(name); return m != nil && provisioned(m) }
}

// condition returns "Status Reason: message", empty if there is none.
func (w *env) condition(name, kind string) string {
	w.Helper()
	m := w.get(name)
	if m == nil {
		return ""
	}
	if c := meta.FindStatusCondition(m.Status.Conditions, kind); c != nil {
		return string(c.Status) + " " + c.Reason + ": " + c.Message
	}
	return ""
}

// change changes an object in the management cluster, status included.
func change[T client.Object](w *env, o T, edit func(T)) {
	w.Helper()
	if err := w.client.Get(w.Context(), client.ObjectKeyFromObject(o), o); err != nil {
		w.Fatal(err)
	}
	edit(o)
	status := o.DeepCopyObject().(client.Object)
	if err := w.client.Update(w.Context(), o); err != nil {
		w.Fatal(err)
	}
	status.SetResourceVersion(o.GetResourceVersion())
	if err := w.client.Status().Update(w.Context(), status); err != nil && !apierrors.IsNotFound(err) {
		w.Fatal(err)
	}
}

func (w *env) create(objects ...client.Object) {
	w.Helper()
	for _, o := range objects {
		if err := w.client.Create(w.Context(), o); err != nil {
			w.Fatal(err)
		}
	}
}

func (w *env) delete(o client.Object) {
	w.Helper()
	if err := w.client.Delete(w.Context(), o); err != nil {
		w.Fatal(err)
	}
}

// vms are the VMs that were ever made, and how many of them are there.
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
func (w *env) told() []string {
	var all []string
	for len(w.events.Events) > 0 {
		all = append(all, <-w.events.Events)
	}
	return all
}

// running makes a machine whose VM is provisioned, and whose Node has joined.
func (w *env) running(name string) *infrav1.MCMMachine {
	w.Helper()
	w.create(w.newMachine(name)...)
	w.settle(name, w.isProvisioned(name))
	id := w.get(name).Spec.ProviderID
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("node-" + name)},
		Spec:       corev1.NodeSpec{ProviderID: id},
	}
	if err := w.workload.Create(w.Context(), node); err != nil {
		w.Fatal(err)
	}
	w.nodeHealthy(name, metav1.ConditionTrue)
	w.run(name)
	return w.get(name)
}

// nodeHealthy is what core says about the Node.
func (w *env) nodeHealthy(name string, status metav1.ConditionStatus) {
	w.Helper()
	change(w, machine(name), func(m *clusterv1.Machine) {
		m.Status.NodeRef = clusterv1.MachineNodeReference{Name: name}
		m.Status.Conditions = []metav1.Condition{{
			Type: clusterv1.MachineNodeHealthyCondition, Status: status, Reason: "X",
			LastTransitionTime: metav1.NewTime(w.clock.Now()),
		}}
	})
}

// newMachine is what a MachineSet makes: Machine, MCMMachine and boot data.
func (w *env) newMachine(name string) []client.Object {
	return []client.Object{w.object(name), machine(name), bootstrapSecret(name)}
}

func (w *env) object(name string) *infrav1.MCMMachine {
	return &infrav1.MCMMachine{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: namespace, UID: types.UID("uid-" + name), CreationTimestamp: metav1.NewTime(w.clock.Now()),
			Labels: map[string]string{clusterv1.ClusterNameLabel: "c1"},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: name,
				UID: types.UID("m-" + name), Controller: new(true),
			}},
		},
		Spec: infrav1.MCMMachineSpec{MachineClassRef: infrav1.MachineClassReference{Name: "small"}},
	}
}

func machine(name string) *clusterv1.Machine {
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: namespace, UID: types.UID("m-" + name),
		Labels: map[string]string{clusterv1.ClusterNameLabel: "c1"},
	}}
	m.Spec.ClusterName = "c1"
	m.Spec.Bootstrap.DataSecretName = new("boot-" + name)
	m.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{
		APIGroup: infrav1.GroupVersion.Group,
		Kind:     "MCMMachine", Name: name,
	}
	return m
}

func bootstrapSecret(name string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "boot-" + name, Namespace: namespace},
		Data:       map[string][]byte{"value": []byte("#cloud-config\nname: " + name)},
	}
}

func cluster() *clusterv1.Cluster {
	c := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c1", Namespace: namespace, UID: "cluster-uid"}}
	c.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{
		APIGroup: infrav1.GroupVersion.Group,
		Kind:     "MCMCluster", Name: "c1",
	}
	c.Status.Initialization.InfrastructureProvisioned = new(true)
	return c
}

func infraCluster() *infrav1.MCMCluster {
	return &infrav1.MCMCluster{ObjectMeta: metav1.ObjectMeta{
		Name: "c1", Namespace: namespace, UID: "infra-uid", Labels: map[string]string{clusterv1.ClusterNameLabel: "c1"},
		Annotations: map[string]string{machinev1.OwnerIDAnnotation: "durable"},
	}}
}

func smallClass() *machinev1.MachineClass { return classNamed("small", "") }

// classNamed is a class of the demo account; more are further fields of its spec.
func classNamed(name, more string) *machinev1.MachineClass {
	c := &machinev1.MachineClass{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: namespace,
		Finalizers: []string{machinev1.InUseFinalizer},
	}, Provider: "sim"}
	c.SecretRef = &corev1.SecretReference{Name: "small", Namespace: namespace}
	c.ProviderSpec.Raw = []byte(`{"endpoint":"http://sim","region":"sim-1","zone":"sim-1a",
		"instanceType":"small","image":"linux-1",` + more + `
		"tags":{"kubernetes.io/cluster/test":"1","kubernetes.io/role/node":"1"}}`)
	return c
}

func smallSecret() *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "small", Namespace: namespace}, Data: map[string][]byte{
		"accountID": []byte("demo"), "secretKey": []byte("demo-secret"),
	}}
}
