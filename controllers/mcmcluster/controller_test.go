package mcmcluster

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/capi"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/harness"
)

const namespace = "ns"

var key = client.ObjectKey{Namespace: namespace, Name: "c1"}

// env is a management cluster with the controller.
type env struct {
	*testing.T
	*Controller
	harness *harness.Env
	client  client.Client
	events  *record.FakeRecorder
	writes  int
}

func newEnv(t *testing.T, objects ...client.Object) *env {
	t.Helper()
	h := harness.New(t, harness.At(metav1.Now().Time), harness.With(objects...), harness.Indexed(index.Infrastructure()))
	w := &env{T: t, harness: h, client: h.Raw, events: h.Events}
	h.Seen = func(r harness.Request) {
		if r.IsWrite() {
			w.writes++
		}
	}
	w.Controller = New(Deps{Client: h.Client, Live: h.Client, Classes: resolver(t), Clock: h.Clock, Events: h.Events})
	return w
}

func (w *env) run() time.Duration {
	w.Helper()
	return w.harness.Reconcile(w.Controller, key).RequeueAfter
}

func (w *env) get() *infrav1.MCMCluster {
	w.Helper()
	return harness.Find[infrav1.MCMCluster](w.harness.Cluster, key)
}

func (w *env) condition(kind string) string {
	w.Helper()
	return harness.Condition(w.get().Status.Conditions, kind)
}

func object(change ...func(*infrav1.MCMCluster)) *infrav1.MCMCluster {
	return fixture.MCMCluster("c1", append([]func(*infrav1.MCMCluster){
		fixture.In[*infrav1.MCMCluster](namespace), func(o *infrav1.MCMCluster) {
			o.UID, o.Generation, o.OwnerReferences = "uid", 3, nil
			o.Spec.FailureDomains = []clusterv1.FailureDomain{
				{Name: "a", Attributes: map[string]string{"x": "y"}}, {Name: "b"},
			}
		},
	}, change...)...)
}

func cluster(change ...func(*clusterv1.Cluster)) *clusterv1.Cluster {
	return fixture.Cluster("c1", append([]func(*clusterv1.Cluster){
		fixture.In[*clusterv1.Cluster](namespace), func(c *clusterv1.Cluster) {
			c.Spec.ControlPlaneRef, c.Status = clusterv1.ContractVersionedObjectReference{}, clusterv1.ClusterStatus{}
		},
	}, change...)...)
}

func machine(name, clusterName string) *infrav1.MCMMachine {
	return fixture.MCMMachine(name, clusterName, "", fixture.In[*infrav1.MCMMachine](namespace))
}

func TestProvisioned(t *testing.T) {
	t.Parallel()
	endpoint := func(o *infrav1.MCMCluster) {
		o.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "h", Port: 6443}
	}
	w := newEnv(t, object(endpoint), cluster(), template("t1", "c1", "c1"), classIn("c1", "a", "b"))
	w.run()
	o := w.get()
	if !ptr.Deref(o.Status.Initialization.Provisioned, false) || o.Annotations[machinev1.OwnerIDAnnotation] != "uid" ||
		len(o.Finalizers) != 1 {
		t.Errorf("%+v", o)
	}
	if diff := cmp.Diff(object(endpoint).Spec, o.Spec); diff != "" {
		t.Errorf("the spec is its author's (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(o.Spec.FailureDomains, o.Status.FailureDomains); diff != "" {
		t.Errorf("failure domains (-want +got):\n%s", diff)
	}
	for _, c := range o.Status.Conditions {
		if c.ObservedGeneration != o.Generation {
			t.Errorf("condition %s is of generation %d", c.Type, c.ObservedGeneration)
		}
	}
	if got := w.condition(clusterv1.ReadyCondition) + w.condition(
		clusterv1.PausedCondition); got != "True Ready: False NotPaused: " {
		t.Errorf("conditions %q", got)
	}
	w.writes = 0
	if wait := w.run(); w.writes != 0 || wait != 0 {
		t.Errorf("%d writes, wait %s in steady state", w.writes, wait)
	}
}

// TestControlPlaneEndpoint: a control plane of the Cluster's own cannot come up without an
// endpoint, and the condition says who sets it.
func TestControlPlaneEndpoint(t *testing.T) {
	t.Parallel()
	const waits = "False WaitingForControlPlaneEndpoint: spec.controlPlaneEndpoint is not set: KubeadmControlPlane cp " +
		"needs the address of its API servers before machines are created; set host and port of the load balancer in " +
		"front of them here, or have the control plane provider set spec.controlPlaneEndpoint of Cluster c1 (machines " +
		"are created as soon as one is set)"
	plane := func(kind string) func(*clusterv1.Cluster) {
		return func(c *clusterv1.Cluster) {
			c.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{
				APIGroup: "controlplane.cluster.x-k8s.io", Kind: kind, Name: "cp",
			}
		}
	}
	endpoint := clusterv1.APIEndpoint{Host: "h", Port: 6443}
	own := func(o *infrav1.MCMCluster) { o.Spec.ControlPlaneEndpoint = endpoint }
	nowhere := func(o *infrav1.MCMCluster) { o.Spec.FailureDomains = nil }
	provisioned := func(o *infrav1.MCMCluster) { o.Status.Initialization.Provisioned = new(true) }
	cases := map[string]struct {
		object  *infrav1.MCMCluster
		cluster *clusterv1.Cluster
		ready   string
		want    bool
	}{
		"Missing":      {object(), cluster(plane("KubeadmControlPlane")), waits, false},
		"OfMCMCluster": {object(own, nowhere), cluster(plane("KubeadmControlPlane")), "True Ready: ", true},
		"OfCluster": {object(nowhere), cluster(plane("KubeadmControlPlane"), func(c *clusterv1.Cluster) {
			c.Spec.ControlPlaneEndpoint = endpoint
		}), "True Ready: ", true},
		"External":       {object(), cluster(plane("MCMExternalControlPlane")), "True Ready: ", true},
		"NoControlPlane": {object(), cluster(), "True Ready: ", true},
		"OfTheTopology": {
			object(), cluster(func(c *clusterv1.Cluster) { c.Spec.Topology.ClassRef.Name = "mcm" }),
			"False WaitingForControlPlaneEndpoint: Cluster c1 has no controlPlaneRef yet, so it is not known whether it needs " +
				"spec.controlPlaneEndpoint; Cluster API's topology controller sets it (looked at again then)", false,
		},
		"Before": {object(provisioned), cluster(plane("KubeadmControlPlane")), waits, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, tc.object, tc.cluster)
			w.run()
			if got := w.condition(clusterv1.ReadyCondition); got != tc.ready {
				t.Errorf("Ready is %q, want %q", got, tc.ready)
			}
			if got := ptr.Deref(w.get().Status.Initialization.Provisioned, false); got != tc.want {
				t.Errorf("provisioned is %t", got)
			}
		})
	}
}

// TestZonesBeforeMachines: a KubeadmControlPlane creates its first machine as soon as the
// infrastructure is provisioned. Without a failure domain then, it never gets one.
func TestZonesBeforeMachines(t *testing.T) {
	t.Parallel()
	const waits = "False ClassNotKnown: No failure domain of the spec with controlPlane is offered, and the first " +
		"machine of KubeadmControlPlane cp needs one: "
	elsewhere := []client.Object{template("workers", "w", "c1"), classIn("w", "z")}
	for name, tc := range map[string]struct {
		reason      string
		first, then []client.Object
		want        string
	}{
		"NoClass": {
			"The class comes a moment later.",
			[]client.Object{template("t1", "c1", "c1")},
			[]client.Object{classIn("c1", "a", "b")},
			waits + "MachineClass c1 does not exist; create it (machines are created as soon as there is one)",
		},
		"NotAdopted": {
			"Cluster API has adopted the workers' template, and the other one a moment later.",
			append(elsewhere, young("t1", "c1"), classIn("c1", "a", "b")),
			[]client.Object{template("t2", "c1", "c1")},
			waits + "Cluster API has not yet made the Cluster the owner of MCMMachineTemplate t1, which is waited for until " +
				"it is 2m0s old (machines are created as soon as there is one)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, append(tc.first, object(func(o *infrav1.MCMCluster) {
				o.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "h", Port: 6443}
				for i := range o.Spec.FailureDomains {
					o.Spec.FailureDomains[i].ControlPlane = new(true)
				}
			}), cluster(func(c *clusterv1.Cluster) {
				c.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{
					APIGroup: "controlplane.cluster.x-k8s.io", Kind: "KubeadmControlPlane", Name: "cp",
				}
			}))...)
			w.run()
			if got := w.condition(clusterv1.ReadyCondition); got != tc.want || w.get().Status.Initialization.Provisioned != nil {
				t.Errorf("%s\nReady is %q, want %q; provisioned %v", tc.reason, got, tc.want,
					w.get().Status.Initialization.Provisioned)
			}
			for _, o := range tc.then {
				if err := w.client.Create(t.Context(), o); err != nil {
					t.Fatal(err)
				}
			}
			w.run()
			o := w.get()
			if !ptr.Deref(o.Status.Initialization.Provisioned, false) || len(o.Status.FailureDomains) != 2 {
				t.Errorf("%s\nthen: provisioned %v, failure domains %v", tc.reason, o.Status.Initialization.Provisioned,
					o.Status.FailureDomains)
			}
			for _, o := range tc.then {
				if err := w.client.Delete(t.Context(), o); err != nil {
					t.Fatal(err)
				}
			}
			w.run()
			if got := w.condition(clusterv1.ReadyCondition); got != "True Ready: " {
				t.Errorf("%s\nReady is %q when it goes later", tc.reason, got)
			}
		})
	}
}

// TestNothingToWaitFor: machines that choose no zone of the spec do not wait for one.
func TestNothingToWaitFor(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reason string
		plane  bool
		others []client.Object
		want   string
	}{
		"ZonesOfWorkers": {
			"Only workers choose them; their class may need the control plane first.", false,
			[]client.Object{template("t1", "c1", "c1"), classIn("c1", "z"), template("w", "missing", "c1")},
			"True Ready: ",
		},
		"ClassOfOnePlace": {
			"The class takes no zone, and a template of somebody else lies about.", true,
			[]client.Object{template("t1", "c1", "c1"), classIn("c1", "z"), template("old", "c2", "")},
			"True Ready: ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, append(tc.others, object(func(o *infrav1.MCMCluster) {
				o.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "h", Port: 6443}
				o.Spec.FailureDomains[0].ControlPlane = &tc.plane
			}), cluster(func(c *clusterv1.Cluster) {
				c.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{
					APIGroup: "controlplane.cluster.x-k8s.io", Kind: "KubeadmControlPlane", Name: "cp",
				}
			}))...)
			w.run()
			if got := w.condition(clusterv1.ReadyCondition); got != tc.want {
				t.Errorf("%s\nReady is %q, want %q", tc.reason, got, tc.want)
			}
		})
	}
}

func TestLeftAlone(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason  string
		objects []client.Object
		filter  string
		writes  int
		ready   string
	}{
		"External": {"Another controller writes even the status.", []client.Object{object(func(o *infrav1.MCMCluster) {
			o.Annotations = map[string]string{clusterv1.ManagedByAnnotation: "other"}
		}), cluster()}, "", 0, ""},
		"Filter": {"Another manager looks after it.", []client.Object{object(), cluster()}, "mine", 0, ""},
		"PausedCluster": {"Only the pause is told.", []client.Object{object(), cluster(func(c *clusterv1.Cluster) {
			c.Spec.Paused = new(true)
		})}, "", 1, ""},
		"PausedObject": {"Only the pause is told.", []client.Object{object(func(o *infrav1.MCMCluster) {
			o.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
		}), cluster()}, "", 1, ""},
		"NoCluster": {
			"It may come later.",
			[]client.Object{object()},
			"", 1,
			"False WaitingForCluster: Cluster c1 does not exist",
		},
		"NoOwner": {"Nobody uses it.", []client.Object{object(func(o *infrav1.MCMCluster) {
			o.Labels = nil
		})}, "", 1, "False WaitingForCluster: No Cluster owns this object"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, tc.objects...)
			w.WatchFilter = tc.filter
			w.run()
			if w.writes != tc.writes || len(w.get().Finalizers) != 0 || w.get().Status.Initialization.Provisioned != nil {
				t.Errorf("%d writes, %+v: %s", w.writes, w.get(), tc.reason)
			}
			if got := w.condition(clusterv1.ReadyCondition); !strings.HasPrefix(got, tc.ready) || tc.ready == "" && got != "" {
				t.Errorf("Ready is %q: %s", got, tc.reason)
			}
		})
	}
}

func TestDeletionWaitsForMachines(t *testing.T) {
	t.Parallel()
	w := newEnv(t, object(), cluster(), machine("m1", "c1"), machine("m2", "c1"), machine("x", "other"))
	w.run()
	w.harness.Delete(object())
	w.run()
	if got := w.condition(clusterv1.DeletingCondition); got != "True WaitingForMachines: 2 MCMMachines of the Cluster "+
		"still exist: m1, m2" {
		t.Errorf("Deleting is %q", got)
	}
	if got := w.condition(clusterv1.ReadyCondition); !strings.HasPrefix(got, "False Deleting: 2 MCMMachines") {
		t.Errorf("Ready is %q", got)
	}
	for _, name := range []string{"m1", "m2"} {
		w.harness.Delete(machine(name, "c1"))
	}
	w.run()
	if w.get() != nil {
		t.Error("nothing holds it any more")
	}
}

func TestStaleCacheDoesNotLetGo(t *testing.T) {
	t.Parallel()
	w := newEnv(t, object(), cluster(), machine("m1", "c1"))
	w.run()
	w.harness.Delete(object())
	live := w.client
	w.Client = interceptor.NewClient(live.(client.WithWatch), interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return nil },
	})
	w.run()
	if w.get() == nil {
		t.Error("the API server knows a machine that the cache does not show")
	}
}

func TestMovedObjectIsNotReleased(t *testing.T) {
	t.Parallel()
	w := newEnv(t, object(func(o *infrav1.MCMCluster) {
		o.Annotations, o.Finalizers = map[string]string{capi.DeleteForMoveAnnotation: ""},
			[]string{machinev1.MCMClusterFinalizer}
	}), cluster())
	w.harness.Delete(object())
	w.run()
	if w.get() == nil {
		t.Error("clusterctl takes the finalizer itself")
	}
}

func TestDurableIDStays(t *testing.T) {
	t.Parallel()
	w := newEnv(t, object(func(o *infrav1.MCMCluster) {
		o.Annotations = map[string]string{machinev1.OwnerIDAnnotation: "old"}
	}), cluster())
	w.run()
	if got := w.get().Annotations[machinev1.OwnerIDAnnotation]; got != "old" {
		t.Errorf("id %q after a move, want the old one", got)
	}
}
