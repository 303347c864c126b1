package mcmconfig_test

import (
	"bytes"
	"errors"
	"math/rand"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	bootstrapv1 "github.com/capmcm/cluster-api-provider-mcm/api/bootstrap/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/class"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/workloadtest"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/mcmconfig"
)

const (
	userData = "#cloud-config\nhostname: <<MACHINE_NAME>>\ntoken: <<BOOTSTRAP_TOKEN>>\n"
	life     = 20 * time.Minute
)

var (
	start      = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	key        = client.ObjectKey{Namespace: "default", Name: "m1"}
	clusterKey = client.ObjectKey{Namespace: "default", Name: "c1"}
)

// env is a management cluster, a workload cluster and the controller.
type env struct {
	t        *testing.T
	client   client.Client
	workload client.Client
	clusters *workloadtest.Clusters
	clock    *clocktesting.FakePassiveClock
	events   *record.FakeRecorder
	writes   []string
	calls    int // to the workload cluster
	deps     mcmconfig.Deps
}

func newEnv(t *testing.T, objects ...client.Object) *env {
	t.Helper()
	s := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(s), machinev1.AddToScheme(s), clusterv1.AddToScheme(s),
		bootstrapv1.AddToScheme(s)); err != nil {
		t.Fatal(err)
	}
	w := &env{t: t, clock: clocktesting.NewFakePassiveClock(start), events: record.NewFakeRecorder(20)}
	b := fake.NewClientBuilder().WithScheme(s).WithObjects(objects...).WithStatusSubresource(&bootstrapv1.MCMConfig{},
		&bootstrapv1.MCMConfigTemplate{}, &clusterv1.Machine{}, &clusterv1.Cluster{})
	for _, x := range append(mcmconfig.Indexes(), index.Classes()...) {
		b = b.WithIndex(x.Object, x.Field, x.Extract)
	}
	w.client = interceptor.NewClient(b.Build(), counting(func(what string) { w.writes = append(w.writes, what) }))
	w.workload = interceptor.NewClient(fake.NewClientBuilder().WithScheme(s).Build(), counting(func(string) { w.calls++ }))
	w.clusters = workloadtest.New(clusterKey, w.workload)
	driver := sim.New(sim.Options{Clock: w.clock, Settings: sim.DefaultSettings()}).Driver()
	clouds, err := cloud.NewRegistry([]cloud.Driver{driver}, w.clock.Now)
	if err != nil {
		t.Fatal(err)
	}
	w.deps = mcmconfig.Deps{
		Client: w.client, Clusters: w.clusters, Classes: class.New(clouds), Clock: w.clock,
		Rand: rand.New(rand.NewSource(1)), Events: w.events, TokenExtraGroups: "system:bootstrappers:workers",
	}
	return w
}

func (w *env) reconcile() reconcile.Result {
	w.t.Helper()
	result, err := mcmconfig.New(w.deps).Reconcile(w.t.Context(), reconcile.Request{NamespacedName: key})
	if err != nil {
		w.t.Fatal(err)
	}
	return result
}

// pass lets time pass, without a reconcile.
func (w *env) pass(d time.Duration) { w.clock.SetTime(w.clock.Now().Add(d)) }

func (w *env) get(o client.Object, at client.ObjectKey) {
	w.t.Helper()
	if err := w.client.Get(w.t.Context(), at, o); err != nil {
		w.t.Fatal(err)
	}
}

func (w *env) config() *bootstrapv1.MCMConfig {
	w.t.Helper()
	c := &bootstrapv1.MCMConfig{}
	w.get(c, key)
	return c
}

// data is the data Secret; nil if there is none.
func (w *env) data() *corev1.Secret {
	w.t.Helper()
	s := &corev1.Secret{}
	if err := w.client.Get(w.t.Context(), key, s); client.IgnoreNotFound(err) != nil {
		w.t.Fatal(err)
	} else if err != nil {
		return nil
	}
	return s
}

// value is the boot data.
func (w *env) value() string {
	w.t.Helper()
	s := w.data()
	if s == nil {
		w.t.Fatal("there is no data Secret")
	}
	return string(s.Data["value"])
}

// ready is "reason: message" of the condition Ready, "True" if it is.
func (w *env) ready() string {
	w.t.Helper()
	c := meta.FindStatusCondition(w.config().Status.Conditions, clusterv1.ReadyCondition)
	switch {
	case c == nil:
		return ""
	case c.Status == metav1.ConditionTrue:
		return "True"
	}
	return c.Reason + ": " + c.Message
}

// tokens are the bootstrap tokens of the workload cluster, as VMs send them.
func (w *env) tokens() []string {
	w.t.Helper()
	var list corev1.SecretList
	if err := w.workload.List(w.t.Context(), &list, client.InNamespace("kube-system")); err != nil {
		w.t.Fatal(err)
	}
	var out []string
	for _, s := range list.Items {
		out = append(out, string(s.Data["token-id"])+"."+string(s.Data["token-secret"]))
	}
	return out
}

func (w *env) change(o client.Object, at client.ObjectKey, by func()) {
	w.t.Helper()
	w.get(o, at)
	by()
	if err := w.client.Update(w.t.Context(), o); err != nil {
		w.t.Fatal(err)
	}
}

// join makes the Machine's Node known.
func (w *env) join() {
	w.t.Helper()
	m := &clusterv1.Machine{}
	w.get(m, key)
	m.Status.NodeRef.Name = m.Name
	if err := w.client.Status().Update(w.t.Context(), m); err != nil {
		w.t.Fatal(err)
	}
	w.writes = nil
}

func (w *env) event() string {
	select {
	case e := <-w.events.Events:
		return e
	default:
		return ""
	}
}

// The objects of a Machine whose gates are open.

func objects(more ...client.Object) []client.Object {
	return append([]client.Object{cluster(), machine(), secret("boot", userData)}, more...)
}

func cluster() *clusterv1.Cluster {
	c := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c1"}}
	c.Status.Initialization.InfrastructureProvisioned = new(true)
	meta.SetStatusCondition(&c.Status.Conditions, metav1.Condition{
		Type:   clusterv1.ClusterControlPlaneInitializedCondition,
		Status: metav1.ConditionTrue, Reason: "Initialized",
	})
	return c
}

func machine(change ...func(*clusterv1.Machine)) *clusterv1.Machine {
	m := &clusterv1.Machine{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "m1", UID: "machine-uid"},
		Spec: clusterv1.MachineSpec{
			ClusterName: "c1",
			Bootstrap: clusterv1.Bootstrap{ConfigRef: clusterv1.ContractVersionedObjectReference{
				APIGroup: bootstrapv1.GroupVersion.Group, Kind: "MCMConfig", Name: "m1",
			}},
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{Name: "vm-1"},
		},
	}
	for _, f := range change {
		f(m)
	}
	return m
}

func config(change ...func(*bootstrapv1.MCMConfig)) *bootstrapv1.MCMConfig {
	c := &bootstrapv1.MCMConfig{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "m1", UID: "config-uid", Generation: 1,
			Labels: map[string]string{clusterv1.ClusterNameLabel: "c1"},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: "m1",
				UID: "machine-uid", Controller: new(true),
			}},
		},
		Spec: bootstrapv1.MCMConfigSpec{UserDataSecretRef: &bootstrapv1.NameReference{Name: "boot"}},
	}
	for _, f := range change {
		f(c)
	}
	return c
}

func fromClass(c *bootstrapv1.MCMConfig) {
	c.Spec = bootstrapv1.MCMConfigSpec{MachineClassRef: &bootstrapv1.NameReference{Name: "small"}}
}

func secret(name, data string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Data:       map[string][]byte{"userData": []byte(data)},
	}
}

func machineClass(ref corev1.SecretReference) *machinev1.MachineClass {
	return &machinev1.MachineClass{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "small"}, Provider: "sim", SecretRef: &ref,
		ProviderSpec: runtime.RawExtension{Raw: []byte(
			`{"endpoint":"http://sim.invalid","region":"sim-1","instanceType":"small","image":"linux-1"}`)},
	}
}

func hasToken(t *testing.T, data string, tokens []string) {
	t.Helper()
	if len(tokens) != 1 || !strings.Contains(data, tokens[0]) {
		t.Errorf("the boot data does not have the one living token:\n%s", bytes.TrimSpace([]byte(data)))
	}
}
