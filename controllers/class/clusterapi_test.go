package class

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/capi"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/harness"
)

const namespace = "ns"

type env struct {
	*harness.Env
	deps Deps
}

func newEnv(t *testing.T, objects ...client.Object) *env {
	t.Helper()
	w := &env{Env: harness.New(t, harness.With(objects...), harness.Indexed(index.Infrastructure(), index.Control()))}
	w.deps = Deps{Client: w.Client, Live: w.Raw, Events: w.Events}
	return w
}

// run reconciles class and Secrets until nothing changes.
func (w *env) run() {
	w.Helper()
	for range 2 {
		w.Reconcile(NewForClusterAPI(w.deps), key("c"))
		for _, ns := range []string{namespace, "other"} {
			w.Reconcile(NewForClusterAPI(w.deps).Secrets(), client.ObjectKey{Namespace: ns, Name: "s"})
		}
	}
}

func key(name string) client.ObjectKey { return client.ObjectKey{Namespace: namespace, Name: name} }

// marks are the finalizers and marks of an object, "gone" if it is not there.
func (w *env) marks(o client.Object) string {
	w.Helper()
	if !w.Reload(o) {
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
	return fixture.Secret("s", nil, fixture.In[*corev1.Secret](ns), func(s *corev1.Secret) { s.Annotations = annotations })
}

func machine(class, madeFrom string) *infrav1.MCMMachine {
	m := fixture.MCMMachine("m", "c1", class, fixture.In[*infrav1.MCMMachine](namespace))
	if madeFrom != "" {
		m.Annotations = map[string]string{infrav1.MadeFromAnnotation: madeFrom}
	}
	return m
}

func fallingBack(m *infrav1.MCMMachine) *infrav1.MCMMachine {
	m.Spec.FallbackClassRefs = []infrav1.MachineClassReference{{Name: "c"}}
	return m
}

func template() *infrav1.MCMMachineTemplate {
	return fixture.MCMMachineTemplate("t", "c1", "c", fixture.In[*infrav1.MCMMachineTemplate](namespace))
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
			"The native API holds it, and it stays where it is by itself.",
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
		"Fallback": {
			"The VM may be made from it.",
			[]client.Object{classObject(), fallingBack(machine("other", ""))},
			held + " move", held + " move", held,
		},
		"TemplateFallback": {
			"Machines of the pool may need it where it moves to.",
			[]client.Object{classObject(), fixture.MCMMachineTemplate("t", "c1", "other",
				fixture.In[*infrav1.MCMMachineTemplate](namespace), func(t *infrav1.MCMMachineTemplate) {
					t.Spec.Template.Spec.FallbackClassRefs = []infrav1.MachineClassReference{{Name: "c"}}
				})},
			"move", "move", "",
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
			w := newEnv(t, append(tc.objects, secret(namespace, nil), secret("other", allowed))...)
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
	w := newEnv(t, classObject(), machine("c", ""), secret("other", nil))
	w.run()
	if got := w.marks(secret("other", nil)); got != "" {
		t.Errorf("it has %q", got)
	}
}

func TestDeletionWaits(t *testing.T) {
	t.Parallel()
	w := newEnv(t, classObject(), machine("c", ""), secret(namespace, nil))
	w.run()
	if told := w.Heard(); len(told) > 0 {
		t.Errorf("told %q although nothing is deleted", told)
	}
	w.Delete(classObject(), secret(namespace, nil))
	w.run()
	if w.marks(classObject()) == "gone" || w.marks(secret(namespace, nil)) == "gone" {
		t.Error("a machine needs them")
	}
	told := strings.Join(w.Heard(), "\n")
	for _, want := range []string{"Deletion waits for MCMMachine m, ", "Deletion waits for MachineClass c, "} {
		if !strings.Contains(told, want) {
			t.Errorf("told %q, want %q in it", told, want)
		}
	}
	w.Delete(machine("c", ""))
	w.run()
	if got := w.marks(classObject()) + " " + w.marks(secret(namespace, nil)); got != "gone gone" {
		t.Errorf("nobody needs them any more: %s", got)
	}
}

func TestBlockIsTakenBack(t *testing.T) {
	t.Parallel()
	w := newEnv(t, classObject(machinev1.Finalizer), machine("c", ""))
	w.run()
	harness.Edit(w.Cluster, classObject(), func(c *machinev1.MachineClass) {
		c.Finalizers = []string{machinev1.InUseFinalizer}
	})
	w.run()
	if got := w.marks(classObject()); strings.Contains(got, "blocked") {
		t.Errorf("class has %q, and no native users", got)
	}
}
