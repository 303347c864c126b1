package infracluster

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/capi"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
)

const namespace = "ns"

var key = client.ObjectKey{Namespace: namespace, Name: "c1"}

// env is a management cluster with the controller.
type env struct {
	*testing.T
	*Controller
	client client.Client
	events *record.FakeRecorder
	writes int
}

func newEnv(t *testing.T, objects ...client.Object) *env {
	t.Helper()
	s := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(s), machinev1.AddToScheme(s), infrav1.AddToScheme(s),
		clusterv1.AddToScheme(s)); err != nil {
		t.Fatal(err)
	}
	w := &env{T: t, events: record.NewFakeRecorder(100)}
	b := fake.NewClientBuilder().WithScheme(
		s).WithObjects(objects...).WithStatusSubresource(&infrav1.MCMCluster{}).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch,
			opts ...client.PatchOption,
		) error {
			w.writes++
			return c.Patch(ctx, o, p, opts...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch,
			opts ...client.SubResourcePatchOption,
		) error {
			w.writes++
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		},
	})
	for _, i := range index.Infrastructure() {
		b = b.WithIndex(i.Object, i.Field, i.Extract)
	}
	w.client = b.Build()
	w.Controller = New(Deps{
		Client: w.client, Live: w.client, Classes: resolver(t), Clock: testingclock.NewFakePassiveClock(metav1.Now().Time),
		Events: w.events,
	})
	return w
}

func (w *env) run() time.Duration {
	w.Helper()
	r, err := w.Reconcile(w.Context(), reconcile.Request{NamespacedName: key})
	if err != nil {
		w.Fatal(err)
	}
	return r.RequeueAfter
}

func (w *env) get() *infrav1.MCMCluster {
	w.Helper()
	o := &infrav1.MCMCluster{}
	err := w.client.Get(w.Context(), key, o)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		w.Fatal(err)
	}
	return o
}

func (w *env) condition(kind string) string {
	w.Helper()
	if c := meta.FindStatusCondition(w.get().Status.Conditions, kind); c != nil {
		return string(c.Status) + " " + c.Reason + ": " + c.Message
	}
	return ""
}

func object(change ...func(*infrav1.MCMCluster)) *infrav1.MCMCluster {
	o := &infrav1.MCMCluster{ObjectMeta: metav1.ObjectMeta{
		Name: "c1", Namespace: namespace, UID: "uid", Generation: 3,
		Labels: map[string]string{clusterv1.ClusterNameLabel: "c1"},
	}}
	o.Spec.FailureDomains = []clusterv1.FailureDomain{{Name: "a", Attributes: map[string]string{"x": "y"}}, {Name: "b"}}
	for _, f := range change {
		f(o)
	}
	return o
}

func cluster(change ...func(*clusterv1.Cluster)) *clusterv1.Cluster {
	c := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c1", Namespace: namespace}}
	c.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{
		APIGroup: infrav1.GroupVersion.Group,
		Kind:     "MCMCluster", Name: "c1",
	}
	for _, f := range change {
		f(c)
	}
	return c
}

func machine(name, clusterName string) *infrav1.MCMMachine {
	return &infrav1.MCMMachine{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: namespace,
		Labels: map[string]string{clusterv1.ClusterNameLabel: clusterName},
	}}
}

func TestProvisioned(t *testing.T) {
	t.Parallel()
	endpoint := func(o *infrav1.MCMCluster) {
		o.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "h", Port: 6443}
	}
	w := newEnv(t, object(endpoint), cluster())
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
	if err := w.client.Delete(t.Context(), object()); err != nil {
		t.Fatal(err)
	}
	w.run()
	if got := w.condition(clusterv1.DeletingCondition); got != "True WaitingForMachines: 2 MCMMachines of the Cluster "+
		"still exist: m1, m2" {
		t.Errorf("Deleting is %q", got)
	}
	if got := w.condition(clusterv1.ReadyCondition); !strings.HasPrefix(got, "False Deleting: 2 MCMMachines") {
		t.Errorf("Ready is %q", got)
	}
	for _, name := range []string{"m1", "m2"} {
		if err := w.client.Delete(t.Context(), machine(name, "c1")); err != nil {
			t.Fatal(err)
		}
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
	if err := w.client.Delete(t.Context(), object()); err != nil {
		t.Fatal(err)
	}
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
	if err := w.client.Delete(t.Context(), object()); err != nil {
		t.Fatal(err)
	}
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
