package machine

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/drain"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/target"
	"github.com/capmcm/cluster-api-provider-mcm/fence"
)

// world is a control and target cluster in one, a cloud, and the controller
// between them. Its time moves only when a test moves it.
type world struct {
	*testing.T
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

func newWorld(t *testing.T, faults interceptor.Funcs) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, machinev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	b := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(faults).
		WithStatusSubresource(&machinev1.Machine{}, &corev1.Node{}, &corev1.Pod{}, &policyv1.PodDisruptionBudget{},
			&storagev1.VolumeAttachment{}).
		WithObjects(smallClass(), smallSecret())
	for _, i := range append(append(index.Control(), index.Target()...), drain.Indexes()...) {
		b = b.WithIndex(i.Object, i.Field, i.Extract)
	}
	// the API server has it by itself
	b = b.WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string {
		return []string{o.(*corev1.Pod).Spec.NodeName}
	})
	begin := time.Now().Truncate(time.Second) //nolint:forbidigo // the fake API server stamps deletions with real time
	w := &world{
		T: t, client: b.Build(), clock: testingclock.NewFakePassiveClock(begin),
		events: record.NewFakeRecorder(1000),
	}
	w.fence = fence.Alone(w.clock)
	w.cloud = sim.New(sim.Options{Clock: w.clock, Settings: sim.DefaultSettings()})
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
func (w *world) restart() {
	w.Helper()
	registry, err := cloud.NewRegistry([]cloud.Driver{w.cloud.Driver()}, w.clock.Now, w.wraps...)
	if err != nil {
		w.Fatal(err)
	}
	w.controller = New(Deps{
		Client: w.client, Live: w.client, Target: w.target, Clouds: registry, Clock: w.clock, Fence: w.fence,
		Events:  w.events,
		Options: w.options, Rand: rand.Reader,
	})
}

// reconcile runs one pass over the machine.
func (w *world) reconcile(name string) (reconcile.Result, error) {
	w.Helper()
	return w.controller.Reconcile(w.Context(), reconcile.Request{NamespacedName: client.ObjectKey{
		Namespace: namespace,
		Name:      name,
	}})
}

// settle runs passes, letting time pass as they ask for, until the check holds.
func (w *world) settle(name string, check func() bool) {
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
func (w *world) pass(d time.Duration) { w.clock.SetTime(w.clock.Now().Add(d)) }

// machine returns the Machine as it is, nil if there is none.
func (w *world) machine(name string) *machinev1.Machine {
	w.Helper()
	m := &machinev1.Machine{}
	err := w.client.Get(w.Context(), client.ObjectKey{Namespace: namespace, Name: name}, m)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		w.Fatal(err)
	}
	return m
}

func (w *world) phase(name string) machinev1.MachinePhase {
	w.Helper()
	m := w.machine(name)
	if m == nil {
		return "gone"
	}
	return m.Status.CurrentStatus.Phase
}

// condition returns "reason: message" of a progress condition, empty if there is none.
func (w *world) condition(name, kind string) string {
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

func (w *world) create(o client.Object) {
	w.Helper()
	if err := w.client.Create(w.Context(), o); err != nil {
		w.Fatal(err)
	}
}

func (w *world) delete(o client.Object) {
	w.Helper()
	if err := w.client.Delete(w.Context(), o); err != nil {
		w.Fatal(err)
	}
}

// vms are the VMs that were ever made, and how many of them are there.
func (w *world) vms() (made, live int) {
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

// join registers the node of a machine.
func (w *world) join(name string, ready corev1.ConditionStatus) {
	w.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(w.clock.Now())}}
	n.Status.Conditions = []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: ready,
		LastTransitionTime: metav1.NewTime(w.clock.Now()),
	}}
	w.create(n)
}

func (w *world) setUnready(name string) {
	w.Helper()
	n := &corev1.Node{}
	if err := w.client.Get(w.Context(), client.ObjectKey{Name: name}, n); err != nil {
		w.Fatal(err)
	}
	n.Status.Conditions = []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: corev1.ConditionFalse,
		LastTransitionTime: metav1.NewTime(w.clock.Now()),
	}}
	if err := w.client.Status().Update(w.Context(), n); err != nil {
		w.Fatal(err)
	}
}

// running brings a new machine up to Running.
func (w *world) running(name string) {
	w.Helper()
	w.create(newMachine(name, w.clock.Now()))
	w.settle(name, func() bool { return w.phase(name) == machinev1.MachinePending })
	w.join(name, corev1.ConditionTrue)
	w.settle(name, func() bool { return w.phase(name) == machinev1.MachineRunning })
}

func newMachine(name string, at time.Time) *machinev1.Machine {
	m := &machinev1.Machine{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: namespace, UID: types.UID("uid-" + name),
		CreationTimestamp: metav1.NewTime(at),
	}}
	m.Spec.Class = machinev1.ClassSpec{Kind: machinev1.MachineClassKind, Name: "small"}
	return m
}

func smallClass() *machinev1.MachineClass {
	c := &machinev1.MachineClass{ObjectMeta: metav1.ObjectMeta{
		Name: "small", Namespace: namespace,
		Finalizers: []string{machinev1.Finalizer},
	}, Provider: "sim"}
	c.SecretRef = &corev1.SecretReference{Name: "small", Namespace: namespace}
	c.ProviderSpec.Raw = []byte(`{"endpoint":"http://sim","region":"sim-1","zone":"sim-1a",
		"instanceType":"small","image":"linux-1",
		"tags":{"kubernetes.io/cluster/test":"1","kubernetes.io/role/node":"1"}}`)
	return c
}

func smallSecret() *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "small", Namespace: namespace}, Data: map[string][]byte{
		"accountID": []byte("demo"), "secretKey": []byte("demo-secret"),
		machinev1.UserDataKey: fmt.Appendf(nil, "token: <<BOOTSTRAP_TOKEN>>\nnodeName: <<MACHINE_NAME>>\nca: %s\n",
			base64.StdEncoding.EncodeToString([]byte("x"))),
	}}
}
