package controllers

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	classes "github.com/capmcm/cluster-api-provider-mcm/controllers/class"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/class"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/harness"
)

// classEnv has a class with its Secret, and the class controllers of both APIs.
type classEnv struct {
	*harness.Env
	reconcilers []reconcile.Reconciler
}

var classKey = client.ObjectKey{Namespace: fixture.Namespace, Name: "c"}

func newClassEnv(t *testing.T) *classEnv {
	t.Helper()
	w := &classEnv{Env: harness.New(t, harness.With(fixture.MachineClass("c"), fixture.Secret("c", nil)),
		harness.Indexed(index.Infrastructure(), index.Control()))}
	native := classes.New(classes.Deps{
		Client: w.Client, Live: w.Client, Classes: class.New(w.Registry(w.NewCloud())), Events: w.Events,
	})
	capi := classes.NewForClusterAPI(classes.Deps{Client: w.Client, Live: w.Client, Events: w.Events})
	w.reconcilers = []reconcile.Reconciler{native, native.Secrets(), capi, capi.Secrets()}
	return w
}

// settle runs everybody, in both orders, and returns the finalizers of class and
// Secret. After every single pass somebody must hold each of them.
func (w *classEnv) settle(mustHold bool) (class, secret []string) {
	w.Helper()
	for range 3 {
		for _, r := range slices.Concat(w.reconcilers, []reconcile.Reconciler{
			w.reconcilers[3], w.reconcilers[2],
			w.reconcilers[1], w.reconcilers[0],
		}) {
			w.Reconcile(r, classKey)
			if class, secret = w.finalizers(&machinev1.MachineClass{}), w.finalizers(&corev1.Secret{}); mustHold &&
				(len(class) == 0 || len(secret) == 0) {
				w.Errorf("a gap: class held by %v, Secret by %v", class, secret)
			}
		}
	}
	return class, secret
}

func (w *classEnv) finalizers(o client.Object) []string {
	w.Helper()
	if !w.Load(o, classKey) {
		return nil
	}
	return slices.Sorted(slices.Values(o.GetFinalizers()))
}

// TestClassOfBothAPIs: while a pool moves, its class and Secret are held by each
// group that has users, held and terminating ones included, and at every moment
// at least one holds them.
func TestClassOfBothAPIs(t *testing.T) {
	t.Parallel()
	w := newClassEnv(t)
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
		return fixture.Machine(name, "c", func(m *machinev1.Machine) { m.Finalizers = []string{machinev1.Finalizer} })
	}
	w.Create(native("a"), native("b"))
	w.settle(false) // brings the first finalizers
	expect("before the move", true, false)

	harness.Edit(w.Cluster, native("b"), fixture.Annotations[*machinev1.Machine](
		machinev1.MigrationHoldAnnotation, "x", machinev1.MigrationHeldAnnotation, "x"))
	w.Delete(native("b"))
	w.RemoveFinalizers(native("a"))
	w.Delete(native("a"))
	expect("one is left, held and terminating", true, false)

	copied := fixture.MCMMachine("b", "c1", "c", fixture.Annotations[*infrav1.MCMMachine](clusterv1.PausedAnnotation, ""))
	copied.Spec.ProviderID = "sim:///sim-1a/vm-1"
	w.Create(copied)
	expect("it has a copy, which is paused", true, true)

	w.Delete(fixture.MachineClass("c"))
	expect("somebody deletes the class in the middle", true, true)

	w.RemoveFinalizers(native("b"))
	expect("the native machine has gone", false, true)

	w.Delete(copied)
	if class, secret := w.settle(false); len(class)+len(secret) > 0 {
		t.Errorf("nobody needs them: class held by %v, Secret by %v", class, secret)
	}
}
