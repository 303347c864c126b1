package inframachineclass

import (
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/capi"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
)

const namespace = "ns"

type world struct {
	*testing.T
	deps   Deps
	events *record.FakeRecorder
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	s := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(s), machinev1.AddToScheme(s), infrav1.AddToScheme(s),
		clusterv1.AddToScheme(s)); err != nil {
		t.Fatal(err)
	}
	b := fake.NewClientBuilder().WithScheme(s).WithObjects(objects...)
	for _, i := range append(index.Infrastructure(), index.Control()...) {
		b = b.WithIndex(i.Object, i.Field, i.Extract)
	}
	w := &world{T: t, events: record.NewFakeRecorder(100)}
	c := b.Build()
	w.deps = Deps{Client: c, Live: c, Events: w.events}
	return w
}

// run reconciles class and Secrets until nothing changes.
func (w *world) run() {
	w.Helper()
	for range 2 {
		if _, err := New(w.deps).Reconcile(w.Context(), reconcile.Request{NamespacedName: key("c")}); err != nil {
			w.Fatal(err)
		}
		for _, ns := range []string{namespace, "other"} {
			if _, err := NewSecrets(w.deps).Reconcile(w.Context(),
				reconcile.Request{NamespacedName: client.ObjectKey{Namespace: ns, Name: "s"}}); err != nil {
				w.Fatal(err)
			}
		}
	}
}

func key(name string) client.ObjectKey { return client.ObjectKey{Namespace: namespace, Name: name} }

// marks are the finalizers and marks of an object, "gone" if it is not there.
func (w *world) marks(o client.Object) string {
	w.Helper()
	if err := w.deps.Client.Get(w.Context(), client.ObjectKeyFromObject(o), o); err != nil {
		if client.IgnoreNotFound(err) != nil {
			w.Fatal(err)
		}
		return "gone"
	}
	marks := slices.Clone(o.GetFinalizers())
	if _, ok := o.GetLabels()[capi.MoveLabel]; ok {
		marks = append(marks, "move")
	}
	if v := o.GetAnnotations()[capi.BlockMoveAnnotation]; v != "" {
		marks = append(marks, "blocked")
	}
	return strings.Join(marks, " ")
}

func classObject(finalizers ...string) *machinev1.MachineClass {
	return &machinev1.MachineClass{
		ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: namespace, Finalizers: finalizers}, Provider: "sim",
		SecretRef: &corev1.SecretReference{Name: "s"}, CredentialsSecretRef: &corev1.SecretReference{
			Name:      "s",
			Namespace: "other",
		},
	}
}

// marked is a class that the bootstrap provider has marked, or a user.
func marked(class *machinev1.MachineClass) *machinev1.MachineClass {
	class.Labels = map[string]string{capi.MoveLabel: ""}
	return class
}

func secret(ns string, annotations map[string]string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s", Namespace: ns, Annotations: annotations}}
}

func machine(class, madeFrom string) *infrav1.MCMMachine {
	m := &infrav1.MCMMachine{ObjectMeta: metav1.ObjectMeta{Name: "m", Namespace: namespace}}
	m.Spec.MachineClassRef.Name = class
	if madeFrom != "" {
		m.Annotations = map[string]string{infrav1.MadeFromAnnotation: madeFrom}
	}
	return m
}

func template() *infrav1.MCMMachineTemplate {
	t := &infrav1.MCMMachineTemplate{ObjectMeta: metav1.ObjectMeta{Name: "t", Namespace: namespace}}
	t.Spec.Template.Spec.MachineClassRef.Name = "c"
	return t
}

func TestMarksFollowUse(t *testing.T) {
	t.Parallel()
	const held, native = machinev1.InUseFinalizer, machinev1.Finalizer
	allowed := map[string]string{machinev1.AllowedNamespacesAnnotation: "*"}
	cases := map[string]struct {
		reason                 string
		objects                []client.Object
		class, secret, foreign string
	}{
		"Unused":   {"Nobody needs it.", []client.Object{classObject()}, "", "", ""},
		"Released": {"The last machine has gone.", []client.Object{classObject(held)}, "", "", ""},
		"Native": {
			"The native door holds it, and it stays where it is by itself.",
			[]client.Object{classObject(native)},
			native, "", "",
		},
		"Used": {"A VM that exists needs it.", []client.Object{classObject(), machine("c", "")}, held + " move", held +
			" move", held},
		"MadeFrom": {
			"The VM was made from it, whatever the spec says now.",
			[]client.Object{classObject(), machine("other", "c")},
			held + " move", held + " move", held,
		},
		"Template": {"A pool of no machines moves too.", []client.Object{classObject(), template()}, "move", "move", ""},
		"Marked": {
			"Whoever marked it moves it, away from native machines.",
			[]client.Object{marked(classObject(native))},
			native + " move blocked", "move", "",
		},
		"Both": {"Native machines do not move along.", []client.Object{classObject(native), machine("c", "")}, native +
			" " + held + " move blocked", held + " move", held},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, append(tc.objects, secret(namespace, nil), secret("other", allowed))...)
			w.run()
			if got := w.marks(classObject()); got != tc.class {
				t.Errorf("class has %q, want %q: %s", got, tc.class, tc.reason)
			}
			if got := w.marks(secret(namespace, nil)); got != tc.secret {
				t.Errorf("Secret has %q, want %q: %s", got, tc.secret, tc.reason)
			}
			if got := w.marks(secret("other", nil)); got != tc.foreign {
				t.Errorf("Secret of another namespace has %q, want %q: %s", got, tc.foreign, tc.reason)
			}
		})
	}
}

func TestForeignSecretThatDoesNotAllowIsNotTouched(t *testing.T) {
	t.Parallel()
	w := newWorld(t, classObject(), machine("c", ""), secret("other", nil))
	w.run()
	if got := w.marks(secret("other", nil)); got != "" {
		t.Errorf("it has %q", got)
	}
}

func TestDeletionWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(t, classObject(), machine("c", ""), secret(namespace, nil))
	w.run()
	for _, o := range []client.Object{classObject(), secret(namespace, nil)} {
		if err := w.deps.Client.Delete(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	w.run()
	if w.marks(classObject()) == "gone" || w.marks(secret(namespace, nil)) == "gone" || len(w.events.Events) == 0 {
		t.Error("a machine needs them")
	}
	if err := w.deps.Client.Delete(t.Context(), machine("c", "")); err != nil {
		t.Fatal(err)
	}
	w.run()
	if got := w.marks(classObject()) + " " + w.marks(secret(namespace, nil)); got != "gone gone" {
		t.Errorf("nobody needs them any more: %s", got)
	}
}

func TestBlockIsTakenBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, classObject(machinev1.Finalizer), machine("c", ""))
	w.run()
	c := &machinev1.MachineClass{}
	if err := w.deps.Client.Get(t.Context(), key("c"), c); err != nil {
		t.Fatal(err)
	}
	c.Finalizers = []string{machinev1.InUseFinalizer}
	if err := w.deps.Client.Update(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	w.run()
	if got := w.marks(classObject()); strings.Contains(got, "blocked") {
		t.Errorf("class has %q, and no native users", got)
	}
}
