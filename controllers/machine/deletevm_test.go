package machine

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

func TestDeniedDeletionIsReleasedByTheUser(t *testing.T) {
	t.Parallel()
	for _, recorded := range []bool{true, false} {
		w := newEnv(t, interceptor.Funcs{})
		w.running("m")
		if !recorded {
			m := w.machine("m")
			m.Spec.ProviderID, m.Labels = "", nil
			w.update(m)
		}
		w.editSecret(func(s *corev1.Secret) { s.Data["secretKey"] = []byte("revoked-secret") })
		w.delete(w.machine("m"))
		_, _ = w.reconcile("m")
		if said := w.condition("m", machinev1.ConditionDeleted); !strings.HasPrefix(said,
			machinev1.ReasonCredentialsRefused) {
			t.Fatalf("condition %q has to say that the credentials are refused", said)
		}
		m := w.machine("m")
		machinev1.SetAnnotation(m, machinev1.ReleaseAnnotation, "true")
		w.update(m)
		w.settle("m", func() bool { return w.machine("m") == nil })
	}
}

// otherClass is a class of the same account, with what change changes.
func otherClass(name string, change func(*machinev1.MachineClass)) *machinev1.MachineClass {
	c := smallClass()
	c.Name = name
	if change != nil {
		change(c)
	}
	return c
}

// loseClass removes a class as somebody does who takes its finalizer off.
func (w *env) loseClass(name string) {
	w.Helper()
	c := &machinev1.MachineClass{}
	if err := w.client.Get(w.Context(), client.ObjectKey{Namespace: namespace, Name: name}, c); err != nil {
		w.Fatal(err)
	}
	c.Finalizers = nil
	if err := w.client.Update(w.Context(), c); err != nil {
		w.Fatal(err)
	}
	w.delete(c)
}

// The class of a Machine is gone. Its VM is deleted with another class, if that one proves
// that it is this Machine's.
func TestDeletionWithAnotherClass(t *testing.T) {
	t.Parallel()
	replace := func(from, to string) func(*machinev1.MachineClass) {
		return func(c *machinev1.MachineClass) {
			c.ProviderSpec.Raw = []byte(strings.ReplaceAll(string(c.ProviderSpec.Raw), from, to))
		}
	}
	cases := map[string]struct {
		reason  string
		classes []*machinev1.MachineClass
		prepare func(*env)
		waits   string // in the condition; empty: the VM goes
	}{
		"SameAccount": {
			reason: "Another class of the account reaches the VM.", classes: []*machinev1.MachineClass{otherClass("a", nil)},
		},
		"OtherType": {
			reason: "What a VM of it would be is of no interest.",
			classes: []*machinev1.MachineClass{
				otherClass("a", replace(`"image":"linux-1"`, `"image":[]`)),
			},
		},
		"TheSecondOne": {
			reason: "One that does not reach it is passed over.",
			classes: []*machinev1.MachineClass{
				otherClass("a", replace("sim-1", "sim-2")), otherClass("b", nil),
			},
		},
		"None": {reason: "There is no other.", waits: "there is none of this cloud with credentials"},
		"OtherNamespace": {
			reason: "Another namespace's credentials are not used.", waits: "there is none of this cloud with credentials",
			classes: []*machinev1.MachineClass{otherClass("a", func(c *machinev1.MachineClass) { c.Namespace = "other" })},
		},
		"OtherCluster": {
			reason: "Its ownership tags are another cluster's: that driver would find nothing.", waits: `with "a": `,
			classes: []*machinev1.MachineClass{otherClass("a", replace("cluster/test", "cluster/other"))},
		},
		"OtherRegion": {
			reason: "What is not there is not gone.", waits: `with "a": `,
			classes: []*machinev1.MachineClass{otherClass("a", replace("sim-1", "sim-2"))},
		},
		"OtherOwner": {
			reason: "The VM has another machine's owner id.", waits: `with "a": `,
			classes: []*machinev1.MachineClass{otherClass("a", nil)},
			prepare: func(w *env) {
				m := w.machine("m")
				machinev1.SetAnnotation(m, machinev1.OwnerIDAnnotation, "somebody-else")
				w.update(m)
			},
		},
		"NoSecret": {
			reason: "It has no credentials either.", waits: "there is none of this cloud with credentials",
			classes: []*machinev1.MachineClass{otherClass("a", func(c *machinev1.MachineClass) { c.SecretRef.Name = "none" })},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, interceptor.Funcs{})
			w.running("m")
			for _, c := range tc.classes {
				w.create(c)
			}
			w.loseClass("small")
			if tc.prepare != nil {
				tc.prepare(w)
			}
			w.restart()
			w.delete(w.machine("m"))
			if tc.waits == "" {
				w.settle("m", func() bool { return w.machine("m") == nil })
				if _, live := w.vms(); live != 0 {
					t.Errorf("the VM is left: %s", tc.reason)
				}
				return
			}
			for range 5 {
				_, _ = w.reconcile("m")
				w.pass(10 * time.Minute)
			}
			said := w.condition("m", machinev1.ConditionDeleted)
			for _, want := range []string{
				machinev1.ReasonClassNotFound, tc.waits, "provider, region and credentials",
				machinev1.ReleaseAnnotation + "=true",
			} {
				if !strings.Contains(said, want) {
					t.Errorf("condition %q does not mention %q", said, want)
				}
			}
			if _, live := w.vms(); live != 1 {
				t.Errorf("%d VMs left: %s", live, tc.reason)
			}
		})
	}
}

// The class that proved it is recorded before the VM goes: one that does not find the VM
// any more means that it is gone only if it has found it before.
func TestSubstituteClassIsRecordedFirst(t *testing.T) {
	t.Parallel()
	w := newEnv(t, interceptor.Funcs{})
	w.running("m")
	w.create(otherClass("a", nil))
	w.create(otherClass("b", nil))
	w.loseClass("small")
	w.delete(w.machine("m"))
	w.settle("m", func() bool { return w.machine("m").Annotations[machinev1.SubstituteClassAnnotation] != "" })
	if name, _ := machinev1.SubstituteClass(w.machine("m")); name != "a" {
		t.Fatalf("recorded %q", name)
	}
	if said := w.heardOne("ClassSubstituted"); !strings.Contains(said, `with MachineClass "a"`) {
		t.Errorf("Event %q", said)
	}
	w.restart()
	w.loseClass("a") // the next one that looks in the same place goes on
	w.settle("m", func() bool { return w.machine("m") == nil })
	if _, live := w.vms(); live != 0 {
		t.Error("the VM is left")
	}
}

// A class whose Secret is gone is as good as none.
func TestDeletionWithAnotherClassWithoutSecret(t *testing.T) {
	t.Parallel()
	w := newEnv(t, interceptor.Funcs{})
	w.running("m")
	spare := smallSecret()
	spare.Name = "spare"
	w.create(spare)
	w.create(otherClass("a", func(c *machinev1.MachineClass) { c.SecretRef.Name = "spare" }))
	w.delete(smallSecret())
	w.delete(w.machine("m"))
	w.settle("m", func() bool { return w.machine("m") == nil })
	if _, live := w.vms(); live != 0 {
		t.Error("the VM is left")
	}
}
