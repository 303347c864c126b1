package inframachinetemplate

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	testingclock "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
)

const namespace = "ns"

type world struct {
	*testing.T
	client     client.Client
	cloud      *sim.Cloud
	controller *Controller
	events     *record.FakeRecorder
	writes     int
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	s := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(s), machinev1.AddToScheme(s), infrav1.AddToScheme(s),
		clusterv1.AddToScheme(s)); err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, events: record.NewFakeRecorder(100)}
	b := fake.NewClientBuilder().WithScheme(
		s).WithObjects(objects...).WithStatusSubresource(
		&infrav1.MCMMachineTemplate{}).WithInterceptorFuncs(interceptor.Funcs{
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
	for _, i := range append(index.Infrastructure(), index.Control()...) {
		b = b.WithIndex(i.Object, i.Field, i.Extract)
	}
	w.client = b.Build()
	clock := testingclock.NewFakePassiveClock(metav1.Now().Time)
	w.cloud = sim.New(sim.Options{Clock: clock, Settings: sim.DefaultSettings()})
	registry, err := cloud.NewRegistry([]cloud.Driver{w.cloud.Driver()}, clock.Now)
	if err != nil {
		t.Fatal(err)
	}
	w.controller = New(Deps{Client: w.client, Clouds: registry, Clock: clock, Events: w.events})
	return w
}

func (w *world) run() time.Duration {
	w.Helper()
	r, err := w.controller.Reconcile(w.Context(),
		reconcile.Request{NamespacedName: client.ObjectKeyFromObject(template())})
	if err != nil {
		w.Fatal(err)
	}
	return r.RequeueAfter
}

func (w *world) get() *infrav1.MCMMachineTemplate {
	w.Helper()
	o := template()
	if err := w.client.Get(w.Context(), client.ObjectKeyFromObject(o), o); err != nil {
		w.Fatal(err)
	}
	return o
}

func (w *world) condition(kind string) string {
	w.Helper()
	if c := meta.FindStatusCondition(w.get().Status.Conditions, kind); c != nil {
		return string(c.Status) + " " + c.Reason + ": " + c.Message
	}
	return ""
}

func template() *infrav1.MCMMachineTemplate {
	o := &infrav1.MCMMachineTemplate{ObjectMeta: metav1.ObjectMeta{Name: "t", Namespace: namespace, UID: "uid"}}
	o.Spec.Template.Spec.MachineClassRef.Name = "c"
	return o
}

func classObject(change ...func(*machinev1.MachineClass)) *machinev1.MachineClass {
	c := &machinev1.MachineClass{
		ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: namespace}, Provider: "sim",
		SecretRef: &corev1.SecretReference{Name: "s"},
	}
	c.ProviderSpec.Raw = []byte(`{"endpoint":"http://sim","region":"sim-1","zone":"sim-1a",
		"instanceType":"gpu","image":"linux-1",
		"tags":{"kubernetes.io/cluster/test":"1","kubernetes.io/role/node":"1"}}`)
	for _, f := range change {
		f(c)
	}
	return c
}

func keys() *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s", Namespace: namespace}, Data: map[string][]byte{
		"accountID": []byte("demo"), "secretKey": []byte("demo-secret"),
	}}
}

func withNodeTemplate(c *machinev1.MachineClass) {
	c.NodeTemplate = &machinev1.NodeTemplate{
		Capacity: corev1.ResourceList{
			"cpu": resource.MustParse("2"), "gpu": resource.MustParse("0"),
			"memory": resource.MustParse("4Gi"), "x.com/y": resource.MustParse("1"),
		},
		InstanceType: "small", Region: "r", Zone: "z", Architecture: new("arm64"),
	}
}

func TestCapacity(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		class    *machinev1.MachineClass
		capacity map[string]string
		arch     string
		reason   string
	}{
		"Class": {
			classObject(withNodeTemplate),
			map[string]string{"cpu": "2", "memory": "4Gi", "x.com/y": "1"},
			"arm64",
			"True CapacityOfClass: ",
		},
		"Cloud": {classObject(), map[string]string{
			"cpu": "16", "memory": "64Gi", "nvidia.com/gpu": "1", "pods": "250",
			"ephemeral-storage": "200Gi",
		}, "amd64", "True CapacityOfCloud: "},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, template(), tc.class, keys())
			w.run()
			got := map[string]string{}
			for name, quantity := range w.get().Status.Capacity {
				got[string(name)] = quantity.String()
			}
			if diff := cmp.Diff(tc.capacity, got); diff != "" {
				t.Errorf("capacity (-want +got):\n%s", diff)
			}
			if info := w.get().Status.NodeInfo; info.Architecture != tc.arch || info.OperatingSystem != "linux" {
				t.Errorf("node info %+v", info)
			}
			if got := w.condition(infrav1.CapacityKnownCondition); got != tc.reason {
				t.Errorf("CapacityKnown is %q", got)
			}
			w.writes = 0
			if wait := w.run(); w.writes != 0 || wait != 0 {
				t.Errorf("%d writes, wait %s in steady state", w.writes, wait)
			}
		})
	}
}

func TestUnknownCapacityIsSaidAndComesLater(t *testing.T) {
	t.Parallel()
	w := newWorld(t, template(), classObject())
	if wait := w.run(); wait == 0 {
		t.Error("nobody tries again")
	}
	if got := w.condition(clusterv1.ReadyCondition); !strings.HasPrefix(got, "False SecretNotFound") ||
		len(w.events.Events) != 1 {
		t.Errorf("Ready is %q, %d Events", got, len(w.events.Events))
	}
	if err := w.client.Create(t.Context(), keys()); err != nil {
		t.Fatal(err)
	}
	w.run()
	if got := w.condition(clusterv1.ReadyCondition); got != "True Ready: " {
		t.Errorf("Ready is %q", got)
	}
}

func TestMissingClassIsNamedByTheFieldOfTheTemplate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, template())
	w.run()
	const want = `False ClassNotFound: use MachineClass "c": spec.template.spec.machineClassRef.name: there is no ` +
		`MachineClass "c" in namespace "ns"; create it or name another one`
	for _, kind := range []string{clusterv1.ReadyCondition, infrav1.CapacityKnownCondition} {
		if got := w.condition(kind); !strings.HasPrefix(got, want) {
			t.Errorf("%s is %q, want %q", kind, got, want)
		}
	}
}

func TestEditedInPlace(t *testing.T) {
	t.Parallel()
	w := newWorld(t, template(), classObject(withNodeTemplate), keys())
	w.run()
	set := func(labels map[string]string) {
		o := w.get()
		o.Spec.Template.Spec.NodeTemplate.Labels = labels
		if err := w.client.Update(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		w.run()
	}
	set(map[string]string{"a": "b"})
	if got := w.condition(clusterv1.ReadyCondition); !strings.HasPrefix(got,
		"False EditedInPlace: spec.template was edited") || len(w.events.Events) != 1 {
		t.Errorf("Ready is %q, %d Events", got, len(w.events.Events))
	}
	set(nil)
	if got := w.condition(clusterv1.ReadyCondition); got != "True Ready: " {
		t.Errorf("Ready is %q once the change is undone", got)
	}
}

// ClusterClass clones templates, annotations and all, and changes the copy.
func TestCopyOfATemplateIsNoEdit(t *testing.T) {
	t.Parallel()
	o := template()
	o.Annotations = map[string]string{infrav1.SpecHashAnnotation: "another-uid/0123"}
	w := newWorld(t, o, classObject(withNodeTemplate), keys())
	w.run()
	if got := w.condition(infrav1.SpecUnchangedCondition); got != "True Unchanged: " {
		t.Errorf("SpecUnchanged is %q", got)
	}
}

func TestPausedTemplate(t *testing.T) {
	t.Parallel()
	o := template()
	o.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
	w := newWorld(t, o, classObject(withNodeTemplate), keys())
	w.run()
	if len(w.get().Status.Capacity) != 0 || len(w.get().Status.Conditions) != 1 {
		t.Errorf("status %+v", w.get().Status)
	}
}

func TestTemplateOfAClusterClassIsLeftAlone(t *testing.T) {
	t.Parallel()
	o := template()
	o.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: clusterv1.GroupVersion.String(), Kind: "ClusterClass",
		Name: "a", UID: "a",
	}}
	w := newWorld(t, o)
	if wait := w.run(); wait != 0 || w.writes != 0 || len(w.events.Events) != 0 {
		t.Errorf("wait %s, %d writes, %d Events about a class that is a placeholder", wait, w.writes, len(w.events.Events))
	}
}

// The template may be seen before its ClusterClass owns it.
func TestWhatWasSaidOfAPlaceholderIsTakenBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, template())
	w.run()
	if got := w.condition(clusterv1.ReadyCondition); !strings.HasPrefix(got, "False ClassNotFound") {
		t.Fatalf("Ready is %q", got)
	}
	o := w.get()
	o.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: clusterv1.GroupVersion.String(), Kind: "ClusterClass",
		Name: "a", UID: "a",
	}}
	if err := w.client.Update(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	w.run()
	if left := w.get().Status; len(left.Conditions) != 0 {
		t.Errorf("still said of a class that is a placeholder: %+v", left.Conditions)
	}
	w.writes = 0
	if w.run(); w.writes != 0 {
		t.Errorf("%d writes once there is nothing to take back", w.writes)
	}
}

func TestMessageKeepsUpWithWhatIsMissing(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		more   []client.Object
		change func(t *testing.T, w *world)
		want   string
	}{
		"Secret": {"The class names another Secret by now, which is missing as well.", nil, func(t *testing.T, w *world) {
			t.Helper()
			c := classObject()
			if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(c), c); err != nil {
				t.Fatal(err)
			}
			c.SecretRef.Name = "other"
			if err := w.client.Update(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}, `False SecretNotFound: use MachineClass "c": secretRef: there is no Secret "ns/other"`},
		"Cloud": {
			"What a cloud says about an outage differs from call to call, and is no news.",
			[]client.Object{keys()},
			func(_ *testing.T, w *world) {
				w.cloud.RemoveFault(0)
				w.cloud.AddFault(sim.Fault{Op: "*", Mode: sim.FaultBefore, Code: "InternalError", Message: "second"})
			}, "first",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, append(tc.more, template(), classObject())...)
			w.cloud.AddFault(sim.Fault{Op: "*", Mode: sim.FaultBefore, Code: "InternalError", Message: "first"})
			w.run()
			tc.change(t, w)
			w.run()
			if got := w.condition(infrav1.CapacityKnownCondition); !strings.Contains(got, tc.want) {
				t.Errorf("CapacityKnown is %q, want %q: %s", got, tc.want, tc.reason)
			}
		})
	}
}
