package machineclass_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/class"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/machineclass"
)

const goodSpec = `{"endpoint":"http://sim.invalid","region":"sim-1","instanceType":"small","image":"linux-1",
	"tags":{"kubernetes.io/cluster/c":"1","kubernetes.io/role/node":"1"}}`

// world is a control cluster with the reconcilers under test.
type world struct {
	client  client.Client
	live    client.Reader
	deps    machineclass.Deps
	classes *machineclass.Controller
	secrets *machineclass.Secrets
	events  *record.FakeRecorder
	writes  []string
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	s := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(s), machinev1.AddToScheme(s)); err != nil {
		t.Fatal(err)
	}
	w := &world{events: record.NewFakeRecorder(100)}
	b := fake.NewClientBuilder().WithScheme(s).WithObjects(objects...)
	for _, i := range index.Control() {
		b = b.WithIndex(i.Object, i.Field, i.Extract)
	}
	inner := b.Build()
	w.live = inner
	w.client = interceptor.NewClient(inner, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch,
			opts ...client.PatchOption,
		) error {
			data, err := p.Data(o)
			if err != nil {
				return err
			}
			w.writes = append(w.writes, o.GetName()+" "+string(data))
			return c.Patch(ctx, o, p, opts...)
		},
	})
	clk := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
	clouds, err := cloud.NewRegistry([]cloud.Driver{sim.New(sim.Options{
		Clock:    clk,
		Settings: sim.DefaultSettings(),
	}).Driver()}, clk.Now)
	if err != nil {
		t.Fatal(err)
	}
	w.deps = machineclass.Deps{Client: w.client, Live: w.live, Classes: class.New(clouds), Events: w.events}
	w.classes, w.secrets = machineclass.New(w.deps), machineclass.NewSecrets(w.deps)
	return w
}

// reconcile runs both reconcilers over everything, twice: the second pass must
// have nothing to do.
func (w *world) reconcile(t *testing.T) {
	t.Helper()
	var classes machinev1.MachineClassList
	var secrets corev1.SecretList
	if err := errors.Join(w.client.List(t.Context(), &classes), w.client.List(t.Context(), &secrets)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		for i := range classes.Items {
			w.run(t, w.classes, &classes.Items[i])
		}
		for i := range secrets.Items {
			w.run(t, w.secrets, &secrets.Items[i])
		}
	}
}

func (w *world) run(t *testing.T, r reconcile.Reconciler, o client.Object) {
	t.Helper()
	result, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(o)})
	if err != nil || result.RequeueAfter > 0 {
		t.Fatalf("%s: %v, %v: everything is event-driven", o.GetName(), result, err)
	}
}

func (w *world) told() []string {
	var all []string
	for {
		select {
		case e := <-w.events.Events:
			all = append(all, e)
		default:
			return all
		}
	}
}

func (w *world) finalizers(t *testing.T, o client.Object) []string {
	t.Helper()
	if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
		t.Fatal(err)
	}
	return o.GetFinalizers()
}

// ends fails unless o ends with these finalizers after so many writes.
func (w *world) ends(t *testing.T, reason string, o client.Object, finalizers []string, writes int) {
	t.Helper()
	if diff := cmp.Diff(finalizers, w.finalizers(t, o)); diff != "" {
		t.Errorf("finalizers (-want +got): %s\n%s", reason, diff)
	}
	if len(w.writes) != writes {
		t.Errorf("writes %v, want %d: %s", w.writes, writes, reason)
	}
}

func machineClass(change ...func(*machinev1.MachineClass)) *machinev1.MachineClass {
	c := &machinev1.MachineClass{
		ObjectMeta:           metav1.ObjectMeta{Namespace: "default", Name: "a", Generation: 1, UID: "a"},
		Provider:             "sim",
		ProviderSpec:         runtime.RawExtension{Raw: []byte(goodSpec)},
		SecretRef:            &corev1.SecretReference{Name: "boot"},
		CredentialsSecretRef: &corev1.SecretReference{Name: "keys", Namespace: "other"},
	}
	for _, f := range change {
		f(c)
	}
	return c
}

func deleting(o client.Object, finalizers ...string) {
	now := metav1.NewTime(time.Unix(0, 0))
	o.SetDeletionTimestamp(&now)
	o.SetFinalizers(finalizers)
}

func machine(name, kind, class string) *machinev1.Machine {
	return &machinev1.Machine{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       machinev1.MachineSpec{Class: machinev1.ClassSpec{Kind: kind, Name: class}},
	}
}

func secret(namespace, name string, data ...string) *corev1.Secret {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string][]byte{}}
	for _, key := range data {
		s.Data[key] = []byte("v")
	}
	return s
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
			w := newWorld(t, append(tc.machines, tc.class)...)
			for range 2 {
				w.run(t, w.classes, tc.class)
			}
			w.ends(t, tc.reason, tc.class, tc.want, tc.writes)
			for _, write := range w.writes {
				if strings.Contains(write, "providerSpec") || !strings.Contains(write, "resourceVersion") {
					t.Errorf("%s: only the finalizers are written, and not over a newer version", write)
				}
			}
		})
	}
}

func TestClassDeletionWaits(t *testing.T) {
	t.Parallel()
	c := machineClass()
	deleting(c, machinev1.Finalizer)
	w := newWorld(t, append(secrets(), c, machine("m-2", "MachineClass", "a"), machine("m-1", "MachineClass", "a"))...)
	w.reconcile(t)
	want := []string{"Warning DeletionWaits Deletion waits for 2 Machines, which need this class to remove their " +
		"VMs, e.g. m-1"}
	if diff := cmp.Diff(want, w.told()); diff != "" {
		t.Errorf("the wait is visible, once (-want +got):\n%s", diff)
	}
	for _, m := range []string{"m-1", "m-2"} {
		if err := w.client.Delete(t.Context(), machine(m, "", "")); err != nil {
			t.Fatal(err)
		}
	}
	w.run(t, w.classes, c)
	if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(c), c); client.IgnoreNotFound(err) != nil ||
		err == nil {
		t.Errorf("the class goes with its last Machine: %v", err)
	}
}

func TestClassDeletionAsksTheServer(t *testing.T) {
	t.Parallel()
	c := machineClass()
	deleting(c, machinev1.Finalizer)
	full := newWorld(t, c.DeepCopy(), machine("new", "MachineClass", "a"))
	w := newWorld(t, c)
	w.deps.Live = full.live // the cache has not seen the Machine yet
	w.run(t, machineclass.New(w.deps), c)
	if diff := cmp.Diff([]string{machinev1.Finalizer}, w.finalizers(t, c)); diff != "" {
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
			"Unknown fields are warnings.", append(secrets(), machineClass(func(c *machinev1.MachineClass) {
				c.ProviderSpec.Raw = []byte(strings.Replace(goodSpec, "{", `{"colour":"red",`, 1))
			})),
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
			[]string{`Warning InvalidUserData Machines of this class cannot be created: secretRef: no Secret of the class ` +
				`has an entry "userData"`},
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
			w := newWorld(t, tc.objects...)
			w.reconcile(t)
			got := w.told()
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
	w := newWorld(t, append(secrets(), c)...)
	w.reconcile(t)
	changed := c.DeepCopy()
	changed.Generation = 2
	if err := w.client.Patch(t.Context(), changed, client.MergeFrom(c)); err != nil {
		t.Fatal(err)
	}
	w.reconcile(t)
	if got := w.told(); len(got) != 2 {
		t.Errorf("told %q, want one for each version", got)
	}
}
