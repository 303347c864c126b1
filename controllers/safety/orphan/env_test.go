package orphan

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/class"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/harness"
)

var demo = sim.Login{Account: "demo", Secret: "demo-secret"}

// env is a control cluster, and a simulated cloud, with a collector.
type env struct {
	*harness.Env
	controller *Controller
	stale      client.Client // what the collector's cache shows; nil: the same
	cloud      *sim.Cloud
	serial     int
}

func newEnv(t *testing.T, o Options, objects ...client.Object) *env {
	t.Helper()
	w := &env{Env: harness.New(t, harness.At(now), harness.With(objects...), harness.With(keys("keys", "demo-secret")),
		harness.Indexed(Indexes()))}
	w.cloud = w.NewCloud(func(s *sim.Settings) { s.DeleteTime = sim.Duration(10 * time.Second) })
	w.restart(o)
	return w
}

// restart forgets what the collector has seen.
func (w *env) restart(o Options) {
	w.Helper()
	cached := client.Client(w.Client)
	if w.stale != nil {
		cached = w.stale
	}
	w.controller = New(Deps{
		HeldKey: machinev1.HeldOrphansAnnotation,
		Client:  cacheOf{w.Client}, Live: w.Client, Classes: class.New(w.Registry(w.cloud)),
		APIs:  []Owners{NewMachines(cached, w.Client, "")},
		Clock: w.Clock, Events: w.Events, Options: o,
	})
}

func machineClass(name string, change ...func(*machinev1.MachineClass)) *machinev1.MachineClass {
	return fixture.MachineClass(name, append([]func(*machinev1.MachineClass){
		fixture.ProviderSpec(map[string]any{
			"zone": nil, "tags": map[string]string{"kubernetes.io/cluster/c": "1", "kubernetes.io/role/node": "1"},
		}),
		func(c *machinev1.MachineClass) { c.UID, c.SecretRef = "", &corev1.SecretReference{Name: "keys"} },
	}, change...)...)
}

func keys(name, secret string) *corev1.Secret {
	return fixture.Secret(name, map[string]string{"accountID": "demo", "secretKey": secret})
}

func machine(name, ownerID, providerID string, change ...func(*machinev1.Machine)) *machinev1.Machine {
	return fixture.Machine(name, "a", append([]func(*machinev1.Machine){func(m *machinev1.Machine) {
		m.UID, m.Annotations, m.Spec.ProviderID = "", map[string]string{}, providerID
		m.Status.CurrentStatus.Phase = machinev1.MachineRunning
		if ownerID != "" {
			m.Annotations[machinev1.OwnerIDAnnotation] = ownerID
		}
	}}, change...)...)
}

// makeVM makes a VM in the cloud, an hour old, and returns its id.
func (w *env) makeVM(name, ownerID string) string {
	w.Helper()
	w.serial++
	r, err := w.cloud.CreateVM(demo, "sim-1", sim.VMInput{
		ClientToken: fmt.Sprint(w.serial), InstanceType: "small", Image: "linux-1", Tags: tags(name, ownerID),
	})
	if err != nil {
		w.Fatal(err)
	}
	w.cloud.Backdate(r.ID, time.Hour)
	return r.ID
}

// makeDisk makes a loose disk, an hour old, and returns its id.
func (w *env) makeDisk(name, ownerID string) string {
	w.Helper()
	w.serial++
	r, err := w.cloud.CreateDisk(demo, "sim-1", sim.DiskInput{
		ClientToken: fmt.Sprint(w.serial), SizeGiB: 1,
		Tags: tags(name, ownerID),
	})
	if err != nil {
		w.Fatal(err)
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
func (w *env) run(class string) time.Duration {
	w.Helper()
	return w.Reconcile(w.controller, client.ObjectKey{Namespace: fixture.Namespace, Name: class}).RequeueAfter
}

// pass lets time go by, and reconciles the class whenever it asks for it.
func (w *env) pass(class string, d time.Duration) {
	w.Helper()
	end := w.Clock.Now().Add(d)
	for {
		wait := w.run(class)
		if wait <= 0 {
			w.Fatal("the class does not come back")
		}
		next := w.Clock.Now().Add(wait)
		if next.After(end) {
			w.Clock.SetTime(end)
			return
		}
		w.Clock.SetTime(next)
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
