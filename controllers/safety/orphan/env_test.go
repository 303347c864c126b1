package orphan

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/class"
)

var demo = sim.Login{Account: "demo", Secret: "demo-secret"}

// env is a control cluster, and a simulated cloud, with a collector.
type env struct {
	*Controller
	client client.Client
	stale  client.Client // what the collector's cache shows; nil: the same
	cloud  *sim.Cloud
	clock  *clocktesting.FakePassiveClock
	events *record.FakeRecorder
	serial int
}

func newClient(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	s := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(s), machinev1.AddToScheme(s)); err != nil {
		t.Fatal(err)
	}
	b := fake.NewClientBuilder().WithScheme(s).WithObjects(objects...)
	for _, i := range Indexes() {
		b = b.WithIndex(i.Object, i.Field, i.Extract)
	}
	return b.Build()
}

func newEnv(t *testing.T, o Options, objects ...client.Object) *env {
	t.Helper()
	w := &env{
		client: newClient(t, append(objects, keys("keys", "demo-secret"))...),
		clock:  clocktesting.NewFakePassiveClock(now), events: record.NewFakeRecorder(100),
	}
	settings := sim.DefaultSettings()
	settings.DeleteTime = sim.Duration(10 * time.Second)
	w.cloud = sim.New(sim.Options{Clock: w.clock, Settings: settings})
	w.restart(t, o)
	return w
}

// restart forgets what the collector has seen.
func (w *env) restart(t *testing.T, o Options) {
	t.Helper()
	clouds, err := cloud.NewRegistry([]cloud.Driver{w.cloud.Driver()}, w.clock.Now)
	if err != nil {
		t.Fatal(err)
	}
	cached := w.client
	if w.stale != nil {
		cached = w.stale
	}
	w.Controller = New(Deps{
		HeldKey: machinev1.HeldOrphansAnnotation,
		Client:  cacheOf{w.client}, Live: w.client, Classes: class.New(clouds),
		Doors: []Owners{NewMachines(cached, w.client, "")},
		Clock: w.clock, Events: w.events, Options: o,
	})
}

func machineClass(name string, change ...func(*machinev1.MachineClass)) *machinev1.MachineClass {
	c := &machinev1.MachineClass{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Provider:   "sim", SecretRef: &corev1.SecretReference{Name: "keys"},
		ProviderSpec: runtime.RawExtension{Raw: []byte(
			`{"endpoint":"http://sim.invalid","region":"sim-1","instanceType":"small","image":"linux-1",
			"tags":{"kubernetes.io/cluster/c":"1","kubernetes.io/role/node":"1"}}`)},
	}
	for _, f := range change {
		f(c)
	}
	return c
}

func keys(name, secret string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Data:       map[string][]byte{"accountID": []byte("demo"), "secretKey": []byte(secret)},
	}
}

func machine(name, ownerID, providerID string, change ...func(*machinev1.Machine)) *machinev1.Machine {
	m := &machinev1.Machine{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Annotations: map[string]string{}},
		Spec: machinev1.MachineSpec{ProviderID: providerID, Class: machinev1.ClassSpec{
			Kind: "MachineClass",
			Name: "a",
		}},
	}
	m.Status.CurrentStatus.Phase = machinev1.MachineRunning
	if ownerID != "" {
		m.Annotations[machinev1.OwnerIDAnnotation] = ownerID
	}
	for _, f := range change {
		f(m)
	}
	return m
}

// makeVM makes a VM in the cloud, an hour old, and returns its id.
func (w *env) makeVM(t *testing.T, name, ownerID string) string {
	t.Helper()
	w.serial++
	r, err := w.cloud.CreateVM(demo, "sim-1", sim.VMInput{
		ClientToken: fmt.Sprint(w.serial), InstanceType: "small", Image: "linux-1", Tags: tags(name, ownerID),
	})
	if err != nil {
		t.Fatal(err)
	}
	w.cloud.Backdate(r.ID, time.Hour)
	return r.ID
}

// makeDisk makes a loose disk, an hour old, and returns its id.
func (w *env) makeDisk(t *testing.T, name, ownerID string) string {
	t.Helper()
	w.serial++
	r, err := w.cloud.CreateDisk(demo, "sim-1", sim.DiskInput{
		ClientToken: fmt.Sprint(w.serial), SizeGiB: 1,
		Tags: tags(name, ownerID),
	})
	if err != nil {
		t.Fatal(err)
	}
	w.cloud.Backdate(r.ID, time.Hour)
	return r.ID
}

func tags(name, ownerID string) map[string]string {
	tags := map[string]string{"kubernetes.io/cluster/c": "1", "kubernetes.io/role/node": "1"}
	if name != "" {
		tags[sim.NameTag] = name
	}
	if ownerID != "" {
		tags["mcm.cluster.x-k8s.io/owner-id"] = ownerID
	}
	return tags
}

// run reconciles a class and returns when it wants to come back.
func (w *env) run(t *testing.T, class string) time.Duration {
	t.Helper()
	result, err := w.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKey{
		Namespace: "default",
		Name:      class,
	}})
	if err != nil {
		t.Fatal(err)
	}
	return result.RequeueAfter
}

// pass lets time go by, and reconciles the class whenever it asks for it.
func (w *env) pass(t *testing.T, class string, d time.Duration) {
	t.Helper()
	end := w.clock.Now().Add(d)
	for {
		wait := w.run(t, class)
		if wait <= 0 {
			t.Fatal("the class does not come back")
		}
		next := w.clock.Now().Add(wait)
		if next.After(end) {
			w.clock.SetTime(end)
			return
		}
		w.clock.SetTime(next)
	}
}

// left are the ids of what is there and stays.
func (w *env) left() map[string]bool {
	ids := map[string]bool{}
	for _, r := range w.cloud.Live() {
		if r.Deleting.IsZero() && (r.VM != nil || r.Disk != nil && r.Disk.VM == "") {
			ids[r.ID] = true
		}
	}
	return ids
}

func (w *env) reported() []string {
	var all []string
	for {
		select {
		case e := <-w.events.Events:
			all = append(all, e)
		default:
			return all
		}
	}
}

func (w *env) create(t *testing.T, o client.Object) {
	t.Helper()
	if err := w.client.Create(context.WithoutCancel(t.Context()), o); err != nil {
		t.Fatal(err)
	}
}

// cacheOf is a client that reads from a cache as the manager's does: it has no pages.
type cacheOf struct{ client.Client }

func (c cacheOf) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if (&client.ListOptions{}).ApplyOptions(opts).Continue != "" {
		return errors.New("continue list option is not supported by the cache")
	}
	err := c.Client.List(ctx, list, opts...)
	list.SetContinue("continue-not-supported")
	return err
}
