package mcmmachine

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	testingclock "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/evidence"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
	"github.com/capmcm/cluster-api-provider-mcm/internal/fence"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/harness"
)

const namespace = "ns"

// env is a management cluster, a workload cluster, a cloud, and the controller
// between them. Its time moves only when a test moves it.
type env struct {
	*harness.Env
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
	noIPAM     bool                            // the IPAM kinds are not served
	stale      bool                            // the cache shows no claim
	driver     func(cloud.Driver) cloud.Driver // stands for the driver of the cloud; nil: it does
	creates    func(o client.Object, create func() error) error
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

// newEnv has a Cluster, its MCMCluster, a class and its Secret; objects are
// there besides, or instead of those of their kind and name.
func newEnv(t *testing.T, objects ...client.Object) *env {
	t.Helper()
	w := &env{connected: true}
	h := harness.New(t, harness.At(metav1.Now().Truncate(time.Second)),
		harness.With(cluster(), infraCluster(), smallClass(), smallSecret()), harness.With(objects...),
		harness.Indexed(index.Infrastructure(), index.Control()), harness.Answered(interceptor.Funcs{Create: w.onCreate}))
	workload := h.NewCluster(harness.Indexed(index.Target()))
	w.Env, w.client, w.workload, w.cloud = h, h.Client, workload.Client, h.NewCloud()
	w.clock, w.fence, w.events = h.Clock, fence.Alone(h.Clock), h.Events
	w.count(h.Cluster, &w.writes)
	w.count(workload, &w.nodeWrites)
	w.restart()
	return w
}

// count counts the writes to a cluster, of which w.fail may let all but creations fail.
func (w *env) count(c *harness.Cluster, count *int) {
	c.Fault = func(r harness.Request) error {
		*count++
		if w.fail != nil && r.Verb != "create" {
			return w.fail(r.Object)
		}
		return nil
	}
}

func (w *env) onCreate(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
	if w.creates != nil {
		return w.creates(o, func() error { return c.Create(ctx, o, opts...) })
	}
	return c.Create(ctx, o, opts...)
}

// restart loses everything that the controller remembers.
func (w *env) restart() {
	w.Helper()
	w.Clock = w.clock // which may be another env's
	var driver cloud.Driver = w.cloud.Driver()
	if w.driver != nil {
		driver = w.driver(driver)
	}
	registry, err := cloud.NewRegistry([]cloud.Driver{driver}, w.clock.Now)
	w.Must(err)
	w.controller = New(Deps{
		Client: w.cached(), Live: w.client, Clusters: clusters{w: w}, Clouds: registry, Clock: w.clock,
		Fence: w.fence, Events: w.events, IPAM: !w.noIPAM,
		Evidence: evidence.New(evidence.Deps{Client: w.client, Live: w.client, Clock: w.clock}),
	})
}

// cached is the client that reads from the cache.
func (w *env) cached() client.Client {
	return interceptor.NewClient(w.client, interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch,
		key client.ObjectKey, o client.Object, opts ...client.GetOption,
	) error {
		if _, claim := o.(*ipamv1.IPAddressClaim); claim && w.stale {
			return apierrors.NewNotFound(ipamv1.GroupVersion.WithResource("ipaddressclaims").GroupResource(), key.Name)
		}
		return c.Get(ctx, key, o, opts...)
	}})
}

func (w *env) reconcile(name string) (reconcile.Result, error) { return w.Try(w.controller, key(name)) }

// run is a pass that has to succeed.
func (w *env) run(name string) time.Duration {
	w.Helper()
	return w.Reconcile(w.controller, key(name)).RequeueAfter
}

// settle runs passes, letting time pass as they ask for, until the check holds.
func (w *env) settle(name string, check func() bool) {
	w.Helper()
	if !w.Until(w.controller, key(name), check) {
		w.Fatalf("did not settle: %+v", w.get(name))
	}
}

func (w *env) pass(d time.Duration) { w.Advance(d) }

func key(name string) client.ObjectKey { return client.ObjectKey{Namespace: namespace, Name: name} }

// get returns the MCMMachine as it is, nil if there is none.
func (w *env) get(name string) *infrav1.MCMMachine {
	w.Helper()
	return harness.Find[infrav1.MCMMachine](w.Cluster, key(name))
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
	return harness.Condition(m.Status.Conditions, kind)
}

// change changes an object in the management cluster, status included.
func change[T client.Object](w *env, o T, edit func(T)) {
	w.Helper()
	harness.Edit(w.Cluster, o, edit)
}

func (w *env) create(objects ...client.Object) {
	w.Helper()
	w.Create(objects...)
}

func (w *env) delete(o client.Object) {
	w.Helper()
	w.Delete(o)
}

// vms are the VMs that were ever made, and how many of them are there.
func (w *env) vms() (made, live int) { return w.VMs(w.cloud) }

// told are the Events since the last call.
func (w *env) told() []string { return w.Heard() }

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
	w.Must(w.workload.Create(w.Context(), node))
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
	return fixture.MCMMachine(name, "c1", "small", fixture.In[*infrav1.MCMMachine](namespace),
		func(m *infrav1.MCMMachine) {
			m.UID, m.CreationTimestamp = types.UID("uid-"+name), metav1.NewTime(w.clock.Now())
			m.OwnerReferences[0].UID = types.UID("m-" + name)
		})
}

func machine(name string) *clusterv1.Machine {
	return fixture.CAPIMachine(name, "c1", fixture.In[*clusterv1.Machine](namespace), func(m *clusterv1.Machine) {
		m.UID, m.Spec.Bootstrap.ConfigRef = types.UID("m-"+name), clusterv1.ContractVersionedObjectReference{}
	})
}

func bootstrapSecret(name string) *corev1.Secret {
	return fixture.BootSecret(name, "#cloud-config\nname: "+name, fixture.In[*corev1.Secret](namespace))
}

func cluster() *clusterv1.Cluster {
	return fixture.Cluster("c1", fixture.In[*clusterv1.Cluster](namespace), func(c *clusterv1.Cluster) {
		c.UID, c.Spec.ControlPlaneRef = "cluster-uid", clusterv1.ContractVersionedObjectReference{}
		c.Status.Conditions = nil
	})
}

func infraCluster() *infrav1.MCMCluster {
	return fixture.MCMCluster("c1", fixture.In[*infrav1.MCMCluster](namespace),
		fixture.Annotations[*infrav1.MCMCluster](machinev1.OwnerIDAnnotation, "durable"),
		func(c *infrav1.MCMCluster) { c.UID, c.OwnerReferences = "infra-uid", nil })
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
	return fixture.Secret("small", map[string]string{"accountID": "demo", "secretKey": "demo-secret"},
		fixture.In[*corev1.Secret](namespace))
}
