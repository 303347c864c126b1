package machine

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

func TestBadInputIsToldAndMended(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		breaks func(*env, *machinev1.Machine)
		repair func(*env)
		kind   string // condition
		want   []string
	}{
		"ClassMissing": {
			reason: "The condition has to name the class.",
			breaks: func(w *env, _ *machinev1.Machine) { w.dropClass() },
			repair: func(w *env) { w.create(smallClass()) },
			kind:   machinev1.ConditionVMReady, want: []string{"ClassNotFound", `"small"`, "spec.class.name"},
		},
		"KindMissing": {
			reason: "The condition has to name the field.",
			breaks: func(_ *env, m *machinev1.Machine) { m.Spec.Class.Kind = "" },
			repair: func(w *env) {
				m := w.machine("m")
				m.Spec.Class.Kind = machinev1.MachineClassKind
				w.update(m)
			},
			kind: machinev1.ConditionSpecValid, want: []string{"InvalidSpec", "spec.class.kind"},
		},
		"ProviderUnknown": {
			reason: "The condition has to say which providers there are.",
			breaks: func(w *env, _ *machinev1.Machine) {
				w.editClass(func(c *machinev1.MachineClass) { c.Provider = "nowhere" })
			},
			repair: func(w *env) { w.editClass(func(c *machinev1.MachineClass) { c.Provider = "SIM" }) },
			kind:   machinev1.ConditionVMReady, want: []string{"provider", "nowhere", "sim"},
		},
		"SpecUndecodable": {
			reason: "A spec that is no object is told.",
			breaks: func(w *env, _ *machinev1.Machine) {
				w.editClass(func(c *machinev1.MachineClass) { c.ProviderSpec.Raw = []byte(`[]`) })
			},
			repair: func(w *env) {
				w.editClass(func(c *machinev1.MachineClass) { c.ProviderSpec = smallClass().ProviderSpec })
			},
			kind: machinev1.ConditionVMReady, want: []string{"InvalidSpec", "providerSpec"},
		},
		"UserDataMissing": {
			reason: "The condition has to name the key.",
			breaks: func(w *env, _ *machinev1.Machine) {
				w.editSecret(func(s *corev1.Secret) { delete(s.Data, "userData") })
			},
			repair: func(w *env) { w.editSecret(func(s *corev1.Secret) { s.Data = smallSecret().Data }) },
			kind:   machinev1.ConditionVMReady, want: []string{"InvalidUserData", "userData"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, interceptor.Funcs{})
			m := newMachine("m", w.clock.Now())
			tc.breaks(w, m)
			w.create(m)
			for range 3 {
				if _, err := w.reconcile("m"); err != nil {
					t.Fatalf("%v: a bad object is no failure of the controller", err)
				}
				w.pass(time.Second)
			}
			said := w.condition("m", tc.kind)
			for _, word := range tc.want {
				if !strings.Contains(said, word) {
					t.Errorf("condition %q does not say %q: %s", said, word, tc.reason)
				}
			}
			if told := len(w.events.Events); told != 1 {
				t.Errorf("%d Events in 3 passes, want 1", told)
			}
			tc.repair(w)
			w.settle("m", func() bool { return w.phase("m") == machinev1.MachinePending })
		})
	}
}

func TestBadSpecDoesNotBlockDeletion(t *testing.T) {
	t.Parallel()
	w := newEnv(t, interceptor.Funcs{})
	w.running("m")
	w.editClass(func(c *machinev1.MachineClass) {
		c.ProviderSpec.Raw = []byte(strings.ReplaceAll(string(c.ProviderSpec.Raw), `"instanceType":"small"`,
			`"instanceType":7`))
		c.NodeTemplate = &machinev1.NodeTemplate{}
	})
	w.editSecret(func(s *corev1.Secret) { delete(s.Data, "userData") })
	w.delete(w.machine("m"))
	w.settle("m", func() bool { return w.machine("m") == nil })
	if _, live := w.vms(); live != 0 {
		t.Errorf("%d VMs left behind", live)
	}
}

func TestDeletionWithoutClassWaitsVisiblyUntilReleased(t *testing.T) {
	t.Parallel()
	w := newEnv(t, interceptor.Funcs{})
	w.running("m")
	w.dropClass()
	w.delete(w.machine("m"))
	for range 3 {
		_, _ = w.reconcile("m")
		w.pass(time.Minute)
	}
	if said := w.condition("m", machinev1.ConditionDeleted); !strings.Contains(said, "ClassNotFound") ||
		!strings.Contains(said, machinev1.ReleaseAnnotation) {
		t.Fatalf("condition %q has to name what is missing and the way out", said)
	}
	m := w.machine("m")
	m.Annotations[machinev1.ReleaseAnnotation] = "true"
	w.update(m)
	w.settle("m", func() bool { return w.machine("m") == nil })
	if _, live := w.vms(); live != 1 {
		t.Errorf("%d VMs, want the one that was released to be left alone", live)
	}
}

func TestMachineThatNeverHadAClassGoesAtOnce(t *testing.T) {
	t.Parallel()
	w := newEnv(t, interceptor.Funcs{})
	m := newMachine("m", w.clock.Now())
	m.Spec.Class.Name = "typo"
	w.create(m)
	_, _ = w.reconcile("m")
	w.delete(w.machine("m"))
	_, _ = w.reconcile("m")
	if w.machine("m") != nil {
		t.Errorf("the machine waits for a VM that cannot exist: %s", w.condition("m", machinev1.ConditionDeleted))
	}
}

func TestNamesOfAnyLength(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"m", strings.Repeat("n", 63), strings.Repeat("long", 63) + "x"} {
		long := len(name) > 63
		w := newEnv(t, interceptor.Funcs{})
		w.create(newMachine(name, w.clock.Now()))
		for range 5 {
			if _, err := w.reconcile(name); err != nil {
				t.Fatalf("name of %d characters: %v", len(name), err)
			}
			w.pass(time.Second)
		}
		said := w.condition(name, machinev1.ConditionSpecValid)
		if made, _ := w.vms(); long != strings.Contains(said, "metadata.name") || (made == 0) != long {
			t.Errorf("name of %d characters: %d VMs, condition %q", len(name), made, said)
		}
		w.delete(w.machine(name))
		w.settle(name, func() bool { return w.machine(name) == nil })
	}
}

// dropClass removes the class as somebody who forces it would.
func (w *env) dropClass() {
	w.Helper()
	w.editClass(func(c *machinev1.MachineClass) { c.Finalizers = nil })
	w.delete(&machinev1.MachineClass{ObjectMeta: metav1.ObjectMeta{Name: "small", Namespace: namespace}})
}

func (w *env) editClass(edit func(*machinev1.MachineClass)) {
	w.Helper()
	c := &machinev1.MachineClass{}
	if err := w.client.Get(w.Context(), client.ObjectKey{Namespace: namespace, Name: "small"}, c); err != nil {
		w.Fatal(err)
	}
	edit(c)
	if err := w.client.Update(w.Context(), c); err != nil {
		w.Fatal(err)
	}
}

func (w *env) editSecret(edit func(*corev1.Secret)) {
	w.Helper()
	s := &corev1.Secret{}
	if err := w.client.Get(w.Context(), client.ObjectKey{Namespace: namespace, Name: "small"}, s); err != nil {
		w.Fatal(err)
	}
	edit(s)
	if err := w.client.Update(w.Context(), s); err != nil {
		w.Fatal(err)
	}
}
