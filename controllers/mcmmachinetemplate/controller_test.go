package mcmmachinetemplate

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/fallback"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/harness"
)

const namespace = "ns"

var key = client.ObjectKey{Namespace: namespace, Name: "t"}

type env struct {
	*harness.Env
	cloud      *sim.Cloud
	controller *Controller
}

func newEnv(t *testing.T, objects ...client.Object) *env {
	t.Helper()
	w := &env{Env: harness.New(t, harness.With(objects...), harness.Indexed(index.Infrastructure(), index.Control()))}
	w.cloud = w.NewCloud()
	w.controller = New(Deps{Client: w.Client, Clouds: w.Registry(w.cloud), Clock: w.Clock, Events: w.Events})
	return w
}

func (w *env) run() time.Duration {
	w.Helper()
	return w.Reconcile(w.controller, key).RequeueAfter
}

func (w *env) get() *infrav1.MCMMachineTemplate {
	w.Helper()
	return harness.Get[infrav1.MCMMachineTemplate](w.Cluster, key)
}

func (w *env) condition(kind string) string {
	w.Helper()
	return harness.Condition(w.get().Status.Conditions, kind)
}

func template() *infrav1.MCMMachineTemplate {
	return fixture.MCMMachineTemplate("t", "c1", "c", fixture.In[*infrav1.MCMMachineTemplate](namespace),
		func(o *infrav1.MCMMachineTemplate) { o.UID, o.Labels = "uid", nil })
}

func ownedByClass(o *infrav1.MCMMachineTemplate) {
	o.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: clusterv1.GroupVersion.String(), Kind: "ClusterClass", Name: "a", UID: "a",
	}}
}

func classObject(change ...func(*machinev1.MachineClass)) *machinev1.MachineClass {
	return fixture.MachineClass("c", append([]func(*machinev1.MachineClass){
		fixture.In[*machinev1.MachineClass](namespace), fixture.ProviderSpec(map[string]any{"instanceType": "gpu"}),
		func(c *machinev1.MachineClass) { c.SecretRef = &corev1.SecretReference{Name: "s"} },
	}, change...)...)
}

func keys() *corev1.Secret { return fixture.Credentials("s", fixture.In[*corev1.Secret](namespace)) }

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
			w := newEnv(t, template(), tc.class, keys())
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
			w.Forget()
			if wait := w.run(); len(w.Writes()) != 0 || wait != 0 {
				t.Errorf("%d writes, wait %s in steady state", len(w.Writes()), wait)
			}
		})
	}
}

func TestUnknownCapacityIsSaidAndComesLater(t *testing.T) {
	t.Parallel()
	w := newEnv(t, template(), classObject())
	if wait := w.run(); wait == 0 {
		t.Error("nobody tries again")
	}
	if got := w.condition(clusterv1.ReadyCondition); !strings.HasPrefix(got, "False SecretNotFound") ||
		len(w.Events.Events) != 1 {
		t.Errorf("Ready is %q, %d Events", got, len(w.Events.Events))
	}
	w.Create(keys())
	w.run()
	if got := w.condition(clusterv1.ReadyCondition); got != "True Ready: " {
		t.Errorf("Ready is %q", got)
	}
}

func TestMissingClassIsNamedByTheFieldOfTheTemplate(t *testing.T) {
	t.Parallel()
	w := newEnv(t, template())
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
	w := newEnv(t, template(), classObject(withNodeTemplate), keys())
	w.run()
	set := func(labels map[string]string) {
		harness.Edit(w.Cluster, w.get(), func(o *infrav1.MCMMachineTemplate) {
			o.Spec.Template.Spec.NodeTemplate.Labels = labels
		})
		w.run()
	}
	set(map[string]string{"a": "b"})
	if got := w.condition(clusterv1.ReadyCondition); !strings.HasPrefix(got,
		"False EditedInPlace: spec.template was edited") || len(w.Events.Events) != 1 {
		t.Errorf("Ready is %q, %d Events", got, len(w.Events.Events))
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
	w := newEnv(t, o, classObject(withNodeTemplate), keys())
	w.run()
	if got := w.condition(infrav1.SpecUnchangedCondition); got != "True Unchanged: " {
		t.Errorf("SpecUnchanged is %q", got)
	}
}

func TestPausedTemplate(t *testing.T) {
	t.Parallel()
	o := template()
	o.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
	w := newEnv(t, o, classObject(withNodeTemplate), keys())
	w.run()
	if len(w.get().Status.Capacity) != 0 || len(w.get().Status.Conditions) != 1 {
		t.Errorf("status %+v", w.get().Status)
	}
}

func TestTemplateOfAClusterClassIsLeftAlone(t *testing.T) {
	t.Parallel()
	o := template()
	ownedByClass(o)
	w := newEnv(t, o)
	if wait := w.run(); wait != 0 || len(w.Writes()) != 0 || len(w.Events.Events) != 0 {
		t.Errorf("wait %s, writes %v, %d Events about a class that is a placeholder", wait, w.Writes(), len(w.Events.Events))
	}
}

// The template may be seen before its ClusterClass owns it.
func TestWhatWasSaidOfAPlaceholderIsTakenBack(t *testing.T) {
	t.Parallel()
	w := newEnv(t, template())
	w.run()
	if got := w.condition(clusterv1.ReadyCondition); !strings.HasPrefix(got, "False ClassNotFound") {
		t.Fatalf("Ready is %q", got)
	}
	harness.Edit(w.Cluster, w.get(), ownedByClass)
	w.run()
	if left := w.get().Status; len(left.Conditions) != 0 {
		t.Errorf("still said of a class that is a placeholder: %+v", left.Conditions)
	}
	w.Forget()
	if w.run(); len(w.Writes()) != 0 {
		t.Errorf("%d writes once there is nothing to take back", len(w.Writes()))
	}
}

func TestMessageKeepsUpWithWhatIsMissing(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		more   []client.Object
		change func(w *env)
		want   string
	}{
		"Secret": {"The class names another Secret by now, which is missing as well.", nil, func(w *env) {
			harness.Edit(w.Cluster, classObject(), func(c *machinev1.MachineClass) { c.SecretRef.Name = "other" })
		}, `False SecretNotFound: use MachineClass "c": secretRef: there is no Secret "ns/other"`},
		"Cloud": {
			"What a cloud says about an outage differs from call to call, and is no news.",
			[]client.Object{keys()},
			func(w *env) {
				w.cloud.RemoveFault(0)
				w.cloud.AddFault(sim.Fault{Op: "*", Mode: sim.FaultBefore, Code: "InternalError", Message: "second"})
			}, "first",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, append(tc.more, template(), classObject())...)
			w.cloud.AddFault(sim.Fault{Op: "*", Mode: sim.FaultBefore, Code: "InternalError", Message: "first"})
			w.run()
			tc.change(w)
			w.run()
			if got := w.condition(infrav1.CapacityKnownCondition); !strings.Contains(got, tc.want) {
				t.Errorf("CapacityKnown is %q, want %q: %s", got, tc.want, tc.reason)
			}
		})
	}
}

// TestExhaustedClassesWakeTemplates: those that name several classes; of another template nothing
// changes, and the cloud would be asked in vain.
func TestExhaustedClassesWakeTemplates(t *testing.T) {
	t.Parallel()
	pool := template()
	pool.Spec.Template.Spec.FallbackClassRefs = []infrav1.MachineClassReference{{Name: "large"}}
	other := template()
	other.Name = "single"
	w := newEnv(t, classObject(), keys(), pool, other)
	got := w.controller.withFallbacks(t.Context(), classObject())
	if want := []reconcile.Request{{NamespacedName: key}}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestCapacityOfTheClassThatComes(t *testing.T) {
	t.Parallel()
	large := fixture.MachineClass("large", fixture.In[*machinev1.MachineClass](namespace), withNodeTemplate,
		func(c *machinev1.MachineClass) {
			c.NodeTemplate.Capacity["cpu"] = resource.MustParse("8")
			c.SecretRef = &corev1.SecretReference{Name: "s"}
		})
	pool := template()
	pool.Spec.Template.Spec.FallbackClassRefs = []infrav1.MachineClassReference{{Name: "large"}}
	w := newEnv(t, classObject(withNodeTemplate), large, keys(), pool)
	memory := fallback.NewMemory(w.Clock, time.Minute)
	w.controller.Fallback = memory
	all, err := fallback.Candidates(t.Context(), w.Client, fallback.ReadOnlyClass,
		fallback.Pool{Namespace: namespace, Classes: []string{"c", "large"}})
	w.Must(err)
	cpus := func() string { w.run(); return w.get().Status.Capacity.Cpu().String() }
	if got := cpus(); got != "2" {
		t.Errorf("%s CPUs while nothing is known of the first class", got)
	}
	memory.Refused(all[0].Offer, "sold out")
	if got := cpus(); got != "8" || !strings.Contains(w.condition(infrav1.CapacityKnownCondition), "large") {
		t.Errorf("%s CPUs while the first class is exhausted: %s", got, w.condition(infrav1.CapacityKnownCondition))
	}
	memory.Made(all[0].Offer)
	if got := cpus(); got != "2" || strings.Contains(w.condition(infrav1.CapacityKnownCondition), "large") {
		t.Errorf("%s CPUs when the first class has room again: %s", got, w.condition(infrav1.CapacityKnownCondition))
	}
}
