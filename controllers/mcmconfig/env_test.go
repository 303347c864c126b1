package mcmconfig_test

import (
	"bytes"
	"fmt"
	"math/rand"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	bootstrapv1 "github.com/capmcm/cluster-api-provider-mcm/api/bootstrap/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/class"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/workloadtest"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/mcmconfig"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/harness"
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
	*harness.Env
	t        *testing.T
	client   client.Client
	workload client.Client
	clusters *workloadtest.Clusters
	clock    *clocktesting.FakePassiveClock
	events   *record.FakeRecorder
	writes   []string // and "get" for each read of a Secret of kube-system
	calls    int      // to the workload cluster
	deps     mcmconfig.Deps
}

func newEnv(t *testing.T, objects ...client.Object) *env {
	t.Helper()
	h := harness.New(t, harness.At(start), harness.With(objects...),
		harness.Indexed(mcmconfig.Indexes(), index.Classes()))
	w := &env{Env: h, t: t, client: h.Client, clock: h.Clock, events: h.Events}
	h.Seen = func(r harness.Request) {
		switch {
		case r.Verb == "get" && r.Namespace == "kube-system":
			w.writes = append(w.writes, r.Verb)
		case r.IsWrite():
			w.writes = append(w.writes, strings.TrimSuffix(fmt.Sprintf("%s %T/%s", r.Verb, r.Object, r.Subresource), "/"))
		}
	}
	workload := h.NewCluster()
	workload.Seen = func(harness.Request) { w.calls++ }
	w.workload, w.clusters = workload.Raw, workloadtest.New(clusterKey, workload.Client)
	w.deps = mcmconfig.Deps{
		Client: h.Client, Clusters: w.clusters, Classes: class.New(h.Registry(h.NewCloud())), Clock: h.Clock,
		Rand: rand.New(rand.NewSource(1)), Events: h.Events, TokenExtraGroups: "system:bootstrappers:workers",
	}
	return w
}

func (w *env) reconcile() reconcile.Result {
	w.Helper()
	return w.Reconcile(mcmconfig.New(w.deps), key)
}

// pass lets time pass, without a reconcile.
func (w *env) pass(d time.Duration) { w.Advance(d) }

func (w *env) get(o client.Object, at client.ObjectKey) {
	w.Helper()
	if !w.Load(o, at) {
		w.Fatalf("there is no %T %s", o, at)
	}
}

func (w *env) config() *bootstrapv1.MCMConfig {
	w.Helper()
	c := &bootstrapv1.MCMConfig{}
	w.get(c, key)
	return c
}

// data is the data Secret; nil if there is none.
func (w *env) data() *corev1.Secret {
	w.Helper()
	return harness.Find[corev1.Secret](w.Cluster, key)
}

// value is the boot data.
func (w *env) value() string {
	w.Helper()
	s := w.data()
	if s == nil {
		w.Fatal("there is no data Secret")
	}
	return string(s.Data["value"])
}

// ready is "reason: message" of the condition Ready, "True" if it is.
func (w *env) ready() string {
	w.Helper()
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
	w.Helper()
	var list corev1.SecretList
	if err := w.workload.List(w.Context(), &list, client.InNamespace("kube-system")); err != nil {
		w.Fatal(err)
	}
	var out []string
	for _, s := range list.Items {
		out = append(out, string(s.Data["token-id"])+"."+string(s.Data["token-secret"]))
	}
	return out
}

func (w *env) change(o client.Object, at client.ObjectKey, by func()) {
	w.Helper()
	w.get(o, at)
	by()
	w.Must(w.Raw.Update(w.Context(), o))
}

// join makes the Machine's Node known.
func (w *env) join() {
	w.Helper()
	harness.Edit(w.Cluster, machine(), func(m *clusterv1.Machine) { m.Status.NodeRef.Name = m.Name })
	w.writes = nil
}

func (w *env) event() string {
	select {
	case e := <-w.Events.Events:
		return e
	default:
		return ""
	}
}

// The objects of a Machine whose gates are open.

func objects(more ...client.Object) []client.Object {
	return append([]client.Object{cluster(), machine(), secret("boot", userData)}, more...)
}

func cluster() *clusterv1.Cluster { return fixture.Cluster("c1") }

func machine(change ...func(*clusterv1.Machine)) *clusterv1.Machine {
	return fixture.CAPIMachine("m1", "c1", append([]func(*clusterv1.Machine){func(m *clusterv1.Machine) {
		m.UID, m.Spec.Bootstrap.DataSecretName, m.Spec.InfrastructureRef.Name = "machine-uid", nil, "vm-1"
	}}, change...)...)
}

func config(change ...func(*bootstrapv1.MCMConfig)) *bootstrapv1.MCMConfig {
	return fixture.MCMConfig("m1", "c1", "boot", append([]func(*bootstrapv1.MCMConfig){func(c *bootstrapv1.MCMConfig) {
		c.UID, c.Generation, c.OwnerReferences[0].UID = "config-uid", 1, "machine-uid"
	}}, change...)...)
}

func fromClass(c *bootstrapv1.MCMConfig) {
	c.Spec = bootstrapv1.MCMConfigSpec{MachineClassRef: &bootstrapv1.NameReference{Name: "small"}}
}

func secret(name, data string) *corev1.Secret {
	return fixture.Secret(name, map[string]string{"userData": data})
}

func machineClass(ref corev1.SecretReference) *machinev1.MachineClass {
	return fixture.MachineClass("small", func(c *machinev1.MachineClass) { c.SecretRef = &ref })
}

func hasToken(t *testing.T, data string, tokens []string) {
	t.Helper()
	if len(tokens) != 1 || !strings.Contains(data, tokens[0]) {
		t.Errorf("the boot data does not have the one living token:\n%s", bytes.TrimSpace([]byte(data)))
	}
}
