package controllers

import (
	"errors"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/inframachineclass"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/class"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/machineclass"
)

// classWorld has a class with its Secret, and the class controllers of both doors.
type classWorld struct {
	*testing.T
	client      client.Client
	reconcilers []reconcile.Reconciler
}

func newClassWorld(t *testing.T) *classWorld {
	t.Helper()
	s := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(s), machinev1.AddToScheme(s), infrav1.AddToScheme(s),
		clusterv1.AddToScheme(s)); err != nil {
		t.Fatal(err)
	}
	object := &machinev1.MachineClass{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}, Provider: "sim"}
	object.SecretRef = &corev1.SecretReference{Namespace: "ns", Name: "c"}
	object.ProviderSpec.Raw = []byte(
		`{"endpoint":"http://sim.invalid","region":"sim-1","instanceType":"small","image":"linux-1",
		"tags":{"kubernetes.io/cluster/c":"1","kubernetes.io/role/node":"1"}}`)
	b := fake.NewClientBuilder().WithScheme(s).WithObjects(object,
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}})
	for _, i := range append(index.Infrastructure(), index.Control()...) {
		b = b.WithIndex(i.Object, i.Field, i.Extract)
	}
	w := &classWorld{T: t, client: b.Build()}
	clk := clocktesting.NewFakePassiveClock(metav1.Unix(0, 0).Time)
	clouds, err := cloud.NewRegistry([]cloud.Driver{sim.New(sim.Options{
		Clock:    clk,
		Settings: sim.DefaultSettings(),
	}).Driver()}, clk.Now)
	if err != nil {
		t.Fatal(err)
	}
	events := record.NewFakeRecorder(1000)
	native := machineclass.Deps{Client: w.client, Live: w.client, Classes: class.New(clouds), Events: events}
	capi := inframachineclass.Deps{Client: w.client, Live: w.client, Events: events}
	w.reconcilers = []reconcile.Reconciler{
		machineclass.New(native), machineclass.NewSecrets(native), inframachineclass.New(capi),
		inframachineclass.NewSecrets(capi),
	}
	return w
}

// settle runs everybody, in both orders, and returns the finalizers of class and
// Secret. After every single pass somebody must hold each of them.
func (w *classWorld) settle(mustHold bool) (class, secret []string) {
	w.Helper()
	for range 3 {
		for _, r := range slices.Concat(w.reconcilers, []reconcile.Reconciler{
			w.reconcilers[3], w.reconcilers[2],
			w.reconcilers[1], w.reconcilers[0],
		}) {
			if _, err := r.Reconcile(w.Context(), reconcile.Request{NamespacedName: client.ObjectKey{
				Namespace: "ns",
				Name:      "c",
			}}); err != nil {
				w.Fatal(err)
			}
			if class, secret = w.finalizers(&machinev1.MachineClass{}), w.finalizers(&corev1.Secret{}); mustHold &&
				(len(class) == 0 || len(secret) == 0) {
				w.Errorf("a gap: class held by %v, Secret by %v", class, secret)
			}
		}
	}
	return class, secret
}

func (w *classWorld) finalizers(o client.Object) []string {
	w.Helper()
	if err := w.client.Get(w.Context(), client.ObjectKey{Namespace: "ns", Name: "c"}, o); err != nil {
		if client.IgnoreNotFound(err) != nil {
			w.Fatal(err)
		}
		return nil
	}
	return slices.Sorted(slices.Values(o.GetFinalizers()))
}

func (w *classWorld) do(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// TestClassOfBothDoors: while a pool moves, its class and Secret are held by each
// door that has users, held and terminating ones included, and at every moment
// at least one holds them.
func TestClassOfBothDoors(t *testing.T) {
	t.Parallel()
	w := newClassWorld(t)
	expect := func(why string, native, clusterAPI bool) {
		t.Helper()
		class, secret := w.settle(true)
		var want []string
		if clusterAPI {
			want = append(want, machinev1.InUseFinalizer)
		}
		if native {
			want = append(want, machinev1.Finalizer)
		}
		if slices.Sort(want); !slices.Equal(class, want) {
			t.Errorf("%s: class held by %v, want %v", why, class, want)
		}
		if slices.Contains(secret, machinev1.InUseFinalizer) != clusterAPI ||
			!slices.Contains(secret, machinev1.SecretFinalizer) {
			t.Errorf("%s: Secret held by %v", why, secret)
		}
	}
	native := func(name string) *machinev1.Machine {
		m := &machinev1.Machine{ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: name,
			Finalizers: []string{machinev1.Finalizer},
		}}
		m.Spec.Class = machinev1.ClassSpec{Kind: machinev1.MachineClassKind, Name: "c"}
		return m
	}
	for _, name := range []string{"a", "b"} {
		w.do(w.client.Create(t.Context(), native(name)))
	}
	w.settle(false) // brings the first finalizers
	expect("before the move", true, false)

	held := native("b")
	held.Annotations = map[string]string{machinev1.MigrationHoldAnnotation: "x", machinev1.MigrationHeldAnnotation: "x"}
	w.do(w.client.Patch(t.Context(), held, client.MergeFrom(native("b"))))
	w.do(w.client.Delete(t.Context(), native("b")))
	gone := native("a")
	gone.Finalizers = nil
	w.do(w.client.Patch(t.Context(), gone, client.MergeFrom(native("a"))))
	w.do(w.client.Delete(t.Context(), gone))
	expect("one is left, held and terminating", true, false)

	copied := &infrav1.MCMMachine{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "b",
		Annotations: map[string]string{clusterv1.PausedAnnotation: ""},
	}}
	copied.Spec.MachineClassRef.Name, copied.Spec.ProviderID = "c", "sim:///sim-1a/vm-1"
	w.do(w.client.Create(t.Context(), copied))
	expect("it has a copy, which is paused", true, true)

	w.do(w.client.Delete(t.Context(), &machinev1.MachineClass{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}}))
	expect("somebody deletes the class in the middle", true, true)

	let := native("b")
	let.Finalizers = nil
	w.do(w.client.Patch(t.Context(), let, client.MergeFrom(native("b"))))
	expect("the native machine has gone", false, true)

	w.do(w.client.Delete(t.Context(), copied))
	if class, secret := w.settle(false); len(class)+len(secret) > 0 {
		t.Errorf("nobody needs them: class held by %v, Secret by %v", class, secret)
	}
}
