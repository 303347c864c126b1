package orphan

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/capi"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/class"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/harness"
)

// apis are those whose owners a process finds, and those that it collects for.
type apis struct{ native, nativeWitness, clusterAPI, clusterAPIWitness bool }

// newEnvOfBothAPIs returns an env whose collector serves both APIs.
func newEnvOfBothAPIs(t *testing.T, d apis, objects ...client.Object) *env {
	t.Helper()
	w := &env{Env: harness.New(t, harness.At(now), harness.Indexed(Indexes(), index.Infrastructure()),
		harness.With(machineClass("a"), keys("keys", "demo-secret")), harness.With(objects...))}
	w.cloud = w.NewCloud()
	var owners []Owners
	for _, o := range []struct {
		on  bool
		api Owners
	}{
		{d.native, NewMachines(w.Client, w.Client, "")},
		{d.nativeWitness, OwnersOnly(NewMachines(w.Client, w.Client, ""))},
		{d.clusterAPI, NewMCMMachines(w.Client, w.Client, "")},
		{d.clusterAPIWitness, OwnersOnly(NewMCMMachines(w.Client, w.Client, ""))},
	} {
		if o.on {
			owners = append(owners, o.api)
		}
	}
	w.controller = New(Deps{
		Client: w.Client, Live: w.Client, Classes: class.New(w.Registry(w.cloud)), APIs: owners, Clock: w.Clock,
		Events: w.Events,
	})
	return w
}

// makeTagged makes a VM of a Cluster, an hour old, and returns its id.
func (w *env) makeTagged(name, ownerID, clusterID string) string {
	w.Helper()
	w.serial++
	all := tags(name, ownerID)
	all[machinev1.ClusterIDTag], all[machinev1.ClusterNameTag], all[machinev1.ClusterNamespaceTag] = clusterID, "c1",
		"default"
	r, err := w.cloud.CreateVM(demo, "sim-1", sim.VMInput{
		ClientToken: fmt.Sprint(w.serial), InstanceType: "small",
		Image: "linux-1", Tags: all,
	})
	if err != nil {
		w.Fatal(err)
	}
	w.cloud.Backdate(r.ID, time.Hour)
	return r.ID
}

func mcmMachine(name, ownerID, providerID string, change ...func(*infrav1.MCMMachine)) *infrav1.MCMMachine {
	return fixture.MCMMachine(name, "c1", "a", append([]func(*infrav1.MCMMachine){
		fixture.Annotations[*infrav1.MCMMachine](machinev1.OwnerIDAnnotation, ownerID),
		func(m *infrav1.MCMMachine) { m.OwnerReferences, m.Labels, m.Spec.ProviderID = nil, nil, providerID },
	}, change...)...)
}

// home1 are a Cluster with the durable id "here".
func home1(change ...func(*clusterv1.Cluster, *infrav1.MCMCluster)) []client.Object {
	c := fixture.Cluster("c1")
	i := fixture.MCMCluster("c1", fixture.Annotations[*infrav1.MCMCluster](machinev1.OwnerIDAnnotation, "here"))
	for _, f := range change {
		f(c, i)
	}
	return []client.Object{c, i}
}

func TestEachAPIJudgesItsOwn(t *testing.T) {
	t.Parallel()
	node := func(id string) string { return sim.ProviderID("sim-1a", id) }
	cases := map[string]struct {
		reason string
		apis   apis
		want   string // those that stay
	}{
		"Both": {
			"Each API takes its own orphans, and owners of both count.",
			apis{native: true, clusterAPI: true},
			"adopted elsewhere mcm native restored",
		},
		"ClusterAPI": {
			"Without native kinds nothing without the tag is judged.",
			apis{clusterAPI: true},
			"adopted elsewhere mcm native orphan-native",
		},
		"WithWitness": {
			"Native owners of tagged VMs count, where they can be read.",
			apis{clusterAPI: true, nativeWitness: true},
			"adopted elsewhere mcm native orphan-native restored",
		},
		"Native": {
			"The native API never takes what carries the tag.",
			apis{native: true},
			"elsewhere mcm native orphan-tagged restored",
		},
		"NativeWitness": {
			"A VM that an MCMMachine adopted has an owner.",
			apis{native: true, clusterAPIWitness: true},
			"adopted elsewhere mcm native orphan-tagged restored",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnvOfBothAPIs(t, tc.apis, home1()...)
			ids := map[string]string{
				"native": w.makeVM("m-1", "o-1"), "orphan-native": w.makeVM("m-2", "o-2"),
				"mcm": w.makeTagged("m-3", "o-3", "here"), "orphan-tagged": w.makeTagged("m-4", "o-4", "here"),
				"elsewhere": w.makeTagged("m-5", "o-5", "there"), "adopted": w.makeVM("m-6", ""),
				"restored": w.makeTagged("m-7", "o-7", "here"),
			}
			w.Create(machine("m-1", "o-1", provider(ids["native"])))
			w.Create(machine("m-7", "o-7", provider(ids["restored"])))
			for _, o := range []client.Object{
				mcmMachine("m-3", "o-3", node(ids["mcm"])),
				mcmMachine("renamed", "o-6", node(ids["adopted"])),
			} {
				w.Create(o)
			}
			w.pass("a", time.Hour)
			var left []string
			there := w.left()
			for _, name := range []string{
				"adopted", "elsewhere", "mcm", "native", "orphan-native", "orphan-tagged",
				"restored",
			} {
				if there[ids[name]] {
					left = append(left, name)
				}
			}
			if diff := cmp.Diff(tc.want, join(left)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func join(names []string) string {
	out := ""
	for _, name := range names {
		if out != "" {
			out += " "
		}
		out += name
	}
	return out
}

func TestHeldClusters(t *testing.T) {
	t.Parallel()
	annotated := func(o client.Object, key, value string) {
		all := o.GetAnnotations()
		if all == nil {
			all = map[string]string{}
		}
		all[key] = value
		o.SetAnnotations(all)
	}
	cases := map[string]struct {
		objects []client.Object
		stays   bool
	}{
		"Here":      {home1(), false},
		"NotHere":   {nil, true},
		"NoCluster": {home1()[1:], true},
		"Paused":    {home1(func(c *clusterv1.Cluster, _ *infrav1.MCMCluster) { c.Spec.Paused = new(true) }), true},
		"PausedInfra": {home1(func(_ *clusterv1.Cluster, i *infrav1.MCMCluster) {
			annotated(i, clusterv1.PausedAnnotation, "")
		}), true},
		"Moving": {home1(func(c *clusterv1.Cluster, _ *infrav1.MCMCluster) {
			annotated(c, capi.DeleteForMoveAnnotation, "")
		}), true},
		"Retained": {home1(func(_ *clusterv1.Cluster, i *infrav1.MCMCluster) {
			annotated(i, infrav1.RetainedVMsAnnotation, "x,o-1")
		}), true},
		"Creating": {append(home1(), mcmMachine("m-1", "o-1", "")), true},
		"Held": {append(home1(), mcmMachine("m-1", "other", "", func(m *infrav1.MCMMachine) {
			m.Annotations[holdAnnotation] = ""
		})), true},
		"OtherVM": {append(home1(), mcmMachine("m-1", "o-1", sim.ProviderID("sim-1a", "vm-other"))), false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnvOfBothAPIs(t, apis{native: true, clusterAPI: true}, tc.objects...)
			id := w.makeTagged("m-1", "o-1", "here")
			w.pass("a", time.Hour)
			if w.left()[id] != tc.stays {
				t.Errorf("left: %v, want %v", w.left()[id], tc.stays)
			}
		})
	}
}

func TestLiveOwnersDecide(t *testing.T) {
	t.Parallel()
	w := newEnvOfBothAPIs(t, apis{clusterAPI: true}, home1()...)
	empty := newEnvOfBothAPIs(t, apis{clusterAPI: true}, home1()...)
	w.controller.APIs = []Owners{NewMCMMachines(empty.Raw, w.Raw, "")}
	id, orphan := w.makeTagged("m-1", "o-1", "here"), w.makeTagged("m-2", "o-2", "here")
	w.Create(mcmMachine("m-1", "o-1", sim.ProviderID("sim-1a", id)))
	w.pass("a", time.Hour)
	if left := w.left(); !left[id] || left[orphan] {
		t.Errorf("left %v: the API server knows the owner of %s", left, id)
	}
}

func TestLiveClustersDecide(t *testing.T) {
	t.Parallel()
	cases := map[string][]client.Object{
		"Gone":   nil,
		"Paused": home1(func(c *clusterv1.Cluster, _ *infrav1.MCMCluster) { c.Spec.Paused = new(true) }),
		"Twice": append(home1(), &infrav1.MCMCluster{ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "c2", Annotations: map[string]string{machinev1.OwnerIDAnnotation: "here"},
		}}),
	}
	for name, live := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnvOfBothAPIs(t, apis{clusterAPI: true}, live...)
			stale := newEnvOfBothAPIs(t, apis{clusterAPI: true}, home1()...)
			w.controller.APIs = []Owners{NewMCMMachines(stale.Raw, w.Raw, "")}
			id := w.makeTagged("m-1", "o-1", "here")
			w.pass("a", time.Hour)
			if !w.left()[id] {
				t.Error("what a stale cache says of the Cluster is not enough")
			}
		})
	}
}

func TestDeletedMCMMachineAsksForALook(t *testing.T) {
	t.Parallel()
	w := newEnvOfBothAPIs(t, apis{clusterAPI: true})
	w.run("a")
	q := &requests{after: map[string]time.Duration{}}
	w.controller.machineEvents().Delete(t.Context(), event.DeleteEvent{Object: mcmMachine("m", "o", "")}, q)
	if diff := cmp.Diff(map[string]time.Duration{"a": 30 * time.Second}, q.after); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}
