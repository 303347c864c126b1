package machine

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/drain"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/evidence"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/target"
	"github.com/capmcm/cluster-api-provider-mcm/internal/fence"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/harness"
)

// env is a control and target cluster in one, a cloud, and the controller
// between them. Its time moves only when a test moves it.
type env struct {
	*harness.Env
	client     client.WithWatch
	cloud      *sim.Cloud
	clock      *testingclock.FakePassiveClock
	fence      *fence.Fence
	events     *record.FakeRecorder
	controller *Controller
	options    Options
	target     *target.Cluster
	wraps      []cloud.Middleware // around the cloud's account
}

const namespace = "ns"

func newEnv(t *testing.T, faults interceptor.Funcs) *env {
	t.Helper()
	begin := time.Now().Truncate(time.Second) //nolint:forbidigo // the fake API server stamps deletions with real time
	h := harness.New(t, harness.At(begin), harness.With(smallClass(), smallSecret()), harness.Answered(faults),
		harness.Indexed(index.Control(), index.Target(), drain.Indexes()))
	w := &env{
		Env: h, client: h.Client, cloud: h.NewCloud(), clock: h.Clock, fence: fence.Alone(h.Clock), events: h.Events,
	}
	w.target = &target.Cluster{Client: w.client, Live: w.client}
	w.options = Options{
		CreationTimeout: 20 * time.Minute, HealthTimeout: 10 * time.Minute, DrainTimeout: 2 * time.Hour,
		InPlaceUpdateTimeout: 20 * time.Minute, RecordJoins: true,
		PreserveTimeout: 96 * time.Hour, PVDetachTimeout: 2 * time.Minute, PVReattachTimeout: 90 * time.Second,
		MaxEvictRetries: 360,
		NodeConditions:  []string{"KernelDeadlock", "ReadonlyFilesystem", "DiskPressure", "NetworkUnavailable"},
	}
	w.restart()
	return w
}

// restart loses everything that the controller remembers.
func (w *env) restart() {
	w.Helper()
	w.controller = New(Deps{
		Client: w.client, Live: w.client, Target: w.target, Clouds: w.Registry(w.cloud, w.wraps...), Clock: w.clock,
		Fence: w.fence, Events: w.events, Options: w.options, Rand: rand.Reader,
		Evidence: evidence.New(evidence.Deps{Client: w.client, Live: w.client, Clock: w.clock}),
	})
}

// reconcile runs one pass over the machine.
func (w *env) reconcile(name string) (reconcile.Result, error) {
	return w.Try(w.controller, keyOf(name))
}

func keyOf(name string) client.ObjectKey { return client.ObjectKey{Namespace: namespace, Name: name} }

// settle runs passes, letting time pass as they ask for, until the check holds.
func (w *env) settle(name string, check func() bool) {
	w.Helper()
	for range 50 {
		result, err := w.reconcile(name)
		if check() {
			return
		}
		if err != nil {
			w.Logf("pass failed: %v", err)
		}
		if result.RequeueAfter > time.Minute && err == nil {
			w.Fatalf("nothing happens before %s: %+v", result.RequeueAfter, w.machine(name))
		}
		w.pass(max(result.RequeueAfter, time.Second))
	}
	w.Fatalf("did not settle: %+v", w.machine(name))
}

// pass lets time pass.
func (w *env) pass(d time.Duration) { w.Advance(d) }

// machine returns the Machine as it is, nil if there is none.
func (w *env) machine(name string) *machinev1.Machine {
	w.Helper()
	return harness.Find[machinev1.Machine](w.Cluster, keyOf(name))
}

func (w *env) phase(name string) machinev1.MachinePhase {
	w.Helper()
	m := w.machine(name)
	if m == nil {
		return "gone"
	}
	return m.Status.CurrentStatus.Phase
}

// condition returns "reason: message" of a progress condition, empty if there is none.
func (w *env) condition(name, kind string) string {
	w.Helper()
	m := w.machine(name)
	if m == nil || m.Status.Progress == nil {
		return ""
	}
	if c := meta.FindStatusCondition(m.Status.Progress.Conditions, kind); c != nil {
		return c.Reason + ": " + c.Message
	}
	return ""
}

func (w *env) create(o client.Object) {
	w.Helper()
	w.Must(w.client.Create(w.Context(), o))
}

func (w *env) delete(o client.Object) {
	w.Helper()
	w.Must(w.client.Delete(w.Context(), o))
}

// vms are the VMs that were ever made, and how many of them are there.
func (w *env) vms() (made, live int) { return w.VMs(w.cloud) }

// join registers the node of a machine.
func (w *env) join(name string, ready corev1.ConditionStatus) {
	w.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(w.clock.Now())}}
	n.Status.Conditions = w.readiness(ready)
	w.create(n)
}

func (w *env) readiness(ready corev1.ConditionStatus) []corev1.NodeCondition {
	return []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: ready, LastTransitionTime: metav1.NewTime(w.clock.Now()),
	}}
}

func (w *env) setUnready(name string) {
	w.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	harness.Edit(w.Cluster, n, func(n *corev1.Node) { n.Status.Conditions = w.readiness(corev1.ConditionFalse) })
}

// running brings a new machine up to Running.
func (w *env) running(name string) {
	w.Helper()
	w.create(newMachine(name, w.clock.Now()))
	w.settle(name, func() bool { return w.phase(name) == machinev1.MachinePending })
	w.join(name, corev1.ConditionTrue)
	w.settle(name, func() bool { return w.phase(name) == machinev1.MachineRunning })
}

func newMachine(name string, at time.Time) *machinev1.Machine {
	return fixture.Machine(name, "small", fixture.In[*machinev1.Machine](namespace), func(m *machinev1.Machine) {
		m.UID, m.CreationTimestamp = types.UID("uid-"+name), metav1.NewTime(at)
	})
}

func smallClass() *machinev1.MachineClass {
	return fixture.MachineClass("small", fixture.In[*machinev1.MachineClass](namespace),
		func(c *machinev1.MachineClass) { c.Finalizers = []string{machinev1.Finalizer} })
}

func smallSecret() *corev1.Secret {
	return fixture.Credentials("small", fixture.In[*corev1.Secret](namespace), func(s *corev1.Secret) {
		s.Data[machinev1.UserDataKey] = fmt.Appendf(s.Data[machinev1.UserDataKey], "ca: %s\n",
			base64.StdEncoding.EncodeToString([]byte("x")))
	})
}
