package class_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	classes "github.com/capmcm/cluster-api-provider-mcm/controllers/class"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/class"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/harness"
)

// env is a control cluster with the reconcilers under test.
type env struct {
	*harness.Env
	deps    classes.Deps
	classes *classes.Controller
	secrets *classes.Secrets
}

func newEnv(t *testing.T, objects ...client.Object) *env {
	t.Helper()
	w := &env{Env: harness.New(t, harness.With(objects...), harness.Indexed(index.Control()))}
	w.deps = classes.Deps{
		Client: w.Client, Live: w.Raw, Classes: class.New(w.Registry(w.NewCloud())), Events: w.Events,
	}
	w.classes, w.secrets = classes.New(w.deps), classes.New(w.deps).Secrets()
	return w
}

// reconcile runs both reconcilers over everything, twice: the second pass must
// have nothing to do.
func (w *env) reconcile() {
	w.Helper()
	var classes machinev1.MachineClassList
	var secrets corev1.SecretList
	w.List(&classes)
	w.List(&secrets)
	for range 2 {
		for i := range classes.Items {
			w.run(w.classes, &classes.Items[i])
		}
		for i := range secrets.Items {
			w.run(w.secrets, &secrets.Items[i])
		}
	}
}

func (w *env) run(r reconcile.Reconciler, o client.Object) {
	w.Helper()
	if result := w.Reconcile(r, client.ObjectKeyFromObject(o)); result.RequeueAfter > 0 {
		w.Fatalf("%s: %v: everything is event-driven", o.GetName(), result)
	}
}

// ends fails unless o ends with these finalizers after so many writes.
func (w *env) ends(reason string, o client.Object, finalizers []string, writes int) {
	w.Helper()
	if diff := cmp.Diff(finalizers, w.finalizers(o)); diff != "" {
		w.Errorf("finalizers (-want +got): %s\n%s", reason, diff)
	}
	if got := w.Writes(); len(got) != writes {
		w.Errorf("writes %v, want %d: %s", got, writes, reason)
	}
}

func (w *env) finalizers(o client.Object) []string {
	w.Helper()
	if !w.Reload(o) {
		w.Fatalf("there is no %s", o.GetName())
	}
	return o.GetFinalizers()
}

func machineClass(change ...func(*machinev1.MachineClass)) *machinev1.MachineClass {
	return fixture.MachineClass("a", append([]func(*machinev1.MachineClass){func(c *machinev1.MachineClass) {
		c.Generation = 1
		c.SecretRef = &corev1.SecretReference{Name: "boot"}
		c.CredentialsSecretRef = &corev1.SecretReference{Name: "keys", Namespace: "other"}
	}}, change...)...)
}

func deleting(o client.Object, finalizers ...string) {
	now := metav1.NewTime(time.Unix(0, 0))
	o.SetDeletionTimestamp(&now)
	o.SetFinalizers(finalizers)
}

func machine(name, kind, class string) *machinev1.Machine {
	return fixture.Machine(name, class, func(m *machinev1.Machine) { m.Spec.Class.Kind = kind })
}

func secret(namespace, name string, data ...string) *corev1.Secret {
	return fixture.Secret(name, nil, fixture.In[*corev1.Secret](namespace), func(s *corev1.Secret) {
		for _, key := range data {
			s.Data[key] = []byte("v")
		}
	})
}

func secrets() []client.Object {
	return []client.Object{secret("default", "boot", "userData"), secret("other", "keys", "accountID", "secretKey")}
}

func TestClassFinalizer(t *testing.T) {
	t.Parallel()
	terminating := machine("m", "MachineClass", "a")
	deleting(terminating, "x")
	held := func(c *machinev1.MachineClass) { c.Finalizers = []string{"other/one", machinev1.Finalizer} }
	cases := map[string]struct {
		reason   string
		class    *machinev1.MachineClass
		machines []client.Object
		want     []string
		writes   int
	}{
		"Used": {
			"A class is held while a Machine needs it.", machineClass(),
			[]client.Object{machine("m", "MachineClass", "a")},
			[]string{machinev1.Finalizer},
			1,
		},
		"Terminating": {
			"A Machine needs its class until its VM is gone.", machineClass(),
			[]client.Object{terminating},
			[]string{machinev1.Finalizer},
			1,
		},
		"Held": {
			"What is as it should be is not written.", machineClass(held),
			[]client.Object{machine("m", "MachineClass", "a")},
			[]string{"other/one", machinev1.Finalizer},
			0,
		},
		"Unused": {
			"A class is free when its last Machine is gone; others' finalizers stay.", machineClass(held), nil,
			[]string{"other/one"},
			1,
		},
		"BesideOther": {
			"A reference that does not count hides none that does.", machineClass(),
			[]client.Object{machine("a", "AWSMachineClass", "a"), machine("m", "MachineClass", "a")},
			[]string{machinev1.Finalizer},
			1,
		},
		"OtherKind": {
			"Only references of kind MachineClass count, as with MCM.", machineClass(),
			[]client.Object{machine("m", "AWSMachineClass", "a")},
			nil, 0,
		},
		"OtherClass": {
			"Another class's Machine does not hold this one.", machineClass(),
			[]client.Object{machine("m", "MachineClass", "b")},
			nil, 0,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, append(tc.machines, tc.class)...)
			for range 2 {
				w.run(w.classes, tc.class)
			}
			w.ends(tc.reason, tc.class, tc.want, tc.writes)
			for _, write := range w.Writes() {
				if strings.Contains(write.Body, "providerSpec") || !strings.Contains(write.Body, "resourceVersion") {
					t.Errorf("%s: only the finalizers are written, and not over a newer version", write.Body)
				}
			}
		})
	}
}

func TestClassDeletionWaits(t *testing.T) {
	t.Parallel()
	c := machineClass()
	deleting(c, machinev1.Finalizer)
	w := newEnv(t, append(secrets(), c, machine("m-2", "MachineClass", "a"), machine("m-1", "MachineClass", "a"))...)
	w.reconcile()
	want := []string{"Warning DeletionWaits Deletion waits for 2 Machines, which need this class to remove their " +
		"VMs, e.g. m-1; delete them, or wait"}
	if diff := cmp.Diff(want, w.Heard()); diff != "" {
		t.Errorf("the wait is visible, once (-want +got):\n%s", diff)
	}
	for _, m := range []string{"m-1", "m-2"} {
		w.Delete(machine(m, "", ""))
	}
	w.run(w.classes, c)
	if w.Reload(c) {
		t.Error("the class goes with its last Machine")
	}
}

func TestClassDeletionAsksTheServer(t *testing.T) {
	t.Parallel()
	c := machineClass()
	deleting(c, machinev1.Finalizer)
	full := newEnv(t, c.DeepCopy(), machine("new", "MachineClass", "a"))
	w := newEnv(t, c)
	w.deps.Live = full.Raw // the cache has not seen the Machine yet
	w.run(classes.New(w.deps), c)
	if diff := cmp.Diff([]string{machinev1.Finalizer}, w.finalizers(c)); diff != "" {
		t.Errorf("a Machine that the cache does not show would lose its class (-want +got):\n%s", diff)
	}
}

func TestProblemsAreToldOnce(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason  string
		objects []client.Object
		want    []string // each contains, in order, one for each Event
	}{
		"Good": {"Nothing to tell.", append(secrets(), machineClass()), nil},
		"Provider": {
			"The known clouds are named.", append(secrets(), machineClass(func(c *machinev1.MachineClass) { c.Provider = "x" })),
			[]string{`Warning InvalidSpec Machines of this class cannot be created: provider: no driver is named "x", use ` +
				`one of sim`},
		},
		"Spec": {
			"The field is named.", append(secrets(), machineClass(func(c *machinev1.MachineClass) {
				c.ProviderSpec.Raw = []byte(`"x"`)
			})),
			[]string{"Warning InvalidSpec Machines of this class cannot be created: providerSpec"},
		},
		"NullSpec": {
			"Whatever the CRD admits must not crash.", append(secrets(), machineClass(func(c *machinev1.MachineClass) {
				c.ProviderSpec.Raw = nil
			})),
			[]string{"Warning InvalidSpec"},
		},
		"UnknownField": {
			"Unknown fields are warnings.",
			append(secrets(), machineClass(fixture.ProviderSpec(map[string]any{"colour": "red"}))),
			[]string{"Warning SpecWarning providerSpec.colour: "},
		},
		"NoSecret": {
			"The Secret is named.",
			[]client.Object{machineClass(), secret("other", "keys", "accountID", "secretKey")},
			[]string{`Warning SecretNotFound Machines of this class cannot be created: secretRef: there is no Secret ` +
				`"default/boot"`},
		},
		"NoUserData": {
			"The entry is named.",
			[]client.Object{
				machineClass(), secret("default", "boot"),
				secret("other", "keys", "accountID", "secretKey"),
			},
			[]string{`Warning InvalidUserData Machines of this class cannot be created: secretRef: the Secret ` +
				`has no entry "userData"`},
		},
		"NodeTemplate": {
			"Every missing key is named.", append(secrets(), machineClass(func(c *machinev1.MachineClass) {
				c.NodeTemplate = &machinev1.NodeTemplate{}
			})),
			[]string{"Warning InvalidSpec Machines of this class cannot be created: nodeTemplate.capacity: has no entry " +
				"\"cpu\""},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, tc.objects...)
			w.reconcile()
			got := w.Heard()
			if len(got) != len(tc.want) {
				t.Fatalf("told %q, want %q: %s", got, tc.want, tc.reason)
			}
			for i := range got {
				if !strings.Contains(got[i], tc.want[i]) {
					t.Errorf("told %q, want %q: %s", got[i], tc.want[i], tc.reason)
				}
			}
		})
	}
}

func TestProblemIsToldAgainForTheNextVersion(t *testing.T) {
	t.Parallel()
	c := machineClass(func(c *machinev1.MachineClass) { c.Provider = "x" })
	w := newEnv(t, append(secrets(), c)...)
	w.reconcile()
	harness.Edit(w.Cluster, c, func(c *machinev1.MachineClass) { c.Generation = 2 })
	w.reconcile()
	if got := w.Heard(); len(got) != 2 {
		t.Errorf("told %q, want one for each version", got)
	}
}

// TestSecretsThatMixAreToldOnce: MCM merges the Secrets of one namespace into one login. That stays,
// and is told once; a pair of two namespaces is refused.
func TestSecretsThatMixAreToldOnce(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason, namespace, want string
	}{
		"one namespace": {
			"MCM's users may have it so.", "default", "Warning SpecWarning credentialsSecretRef: Secret default/boot " +
				"(secretRef) gives url and Secret default/keys (credentialsSecretRef) gives secretKey of one login; they are " +
				"merged, as by MCM",
		},
		"two namespaces": {
			"Nothing is logged in with.", "other", "Warning InvalidSecret Machines of this class cannot be created: " +
				"credentialsSecretRef: Secret default/boot (secretRef) gives url and Secret other/keys (credentialsSecretRef) " +
				"gives secretKey of one login; put them all into one of the two",
		},
	}
	for name, tc := range cases {
		object := machineClass(func(c *machinev1.MachineClass) { c.CredentialsSecretRef.Namespace = tc.namespace })
		boot := secret("default", "boot", "userData", harness.URLEntry)
		w := newEnv(t, object, boot, secret(tc.namespace, "keys", "accountID", "secretKey"))
		clouds, err := cloud.NewRegistry([]cloud.Driver{&harness.Located{Driver: w.NewCloud().Driver()}}, w.Clock.Now)
		w.Must(err)
		w.deps.Classes = class.New(clouds)
		w.classes = classes.New(w.deps)
		w.reconcile()
		if got := w.Heard(); len(got) != 1 || !strings.Contains(got[0], tc.want) {
			t.Errorf("%s: told %q, want once %q\nbecause: %s", name, got, tc.want, tc.reason)
		}
		harness.Edit(w.Cluster, boot, func(s *corev1.Secret) {
			delete(s.Data, harness.URLEntry)
			s.Data["secretKey"] = []byte("x")
		})
		w.reconcile()
		if got := w.Heard(); len(got) != 1 || !strings.Contains(got[0], "secret.url: is missing") {
			t.Errorf("%s: told %q after the change", name, got)
		}
	}
}
