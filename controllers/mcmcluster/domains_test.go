package mcmcluster

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/class"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/harness"
)

// strict is a driver whose classes take only the zones that they name.
type strict struct{ cloud.Driver }

func (d strict) Parse(in cloud.ClassInput) (cloud.Class, []cloud.Problem) {
	c, problems := d.Driver.Parse(in)
	c.AnyZone = in.Labels["any"] != ""
	return c, problems
}

func resolver(t *testing.T) *class.Resolver {
	t.Helper()
	clouds, err := cloud.NewRegistry([]cloud.Driver{strict{sim.NewDriver(nil)}}, clock.RealClock{}.Now)
	if err != nil {
		t.Fatal(err)
	}
	return class.New(clouds)
}

// classIn is a class with these zones.
func classIn(name string, zones ...string) *machinev1.MachineClass {
	c := &machinev1.MachineClass{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}, Provider: "sim"}
	c.ProviderSpec.Raw = []byte(`{"region":"sim-1","zones":["` + strings.Join(zones, `","`) + `"]}`)
	return c
}

func template(name, className, clusterName string) *infrav1.MCMMachineTemplate {
	return fixture.MCMMachineTemplate(name, clusterName, className, fixture.In[*infrav1.MCMMachineTemplate](namespace))
}

// young is a template that Cluster API had no time to adopt.
func young(name, className string) *infrav1.MCMMachineTemplate {
	o := template(name, className, "")
	o.CreationTimestamp = metav1.Now()
	return o
}

func anywhere(c *machinev1.MachineClass) *machinev1.MachineClass {
	c.Labels = map[string]string{"any": "true"}
	return c
}

func TestFailureDomains(t *testing.T) {
	t.Parallel()
	const offered = "True Offered: "
	none := func(o *infrav1.MCMCluster) { o.Spec.FailureDomains = nil }
	cases := map[string]struct {
		reason    string
		object    *infrav1.MCMCluster
		objects   []client.Object
		want      []string
		condition string
	}{
		"Unknown": {
			"Without templates nothing is known.", object(), nil, nil,
			"False ClassNotKnown: spec.failureDomains a, b not offered: no MCMMachineTemplate of Cluster c1 exists; create " +
				"one (checked again when it changes)",
		},
		"UnknownAgain": {
			"What was offered stays.", object(func(o *infrav1.MCMCluster) {
				o.Status.FailureDomains = []clusterv1.FailureDomain{{Name: "b"}, {Name: "gone"}}
			}), nil,
			[]string{"b"},
			"False ClassNotKnown: spec.failureDomains a not offered: no MCMMachineTemplate of Cluster c1 exists; create " +
				"one (checked again when it changes)",
		},
		"NotAdopted": {
			"Cluster API has not made the Cluster the owner of its template yet.", object(),
			[]client.Object{template("t1", "c1", ""), classIn("c1", "a", "b")},
			[]string{"a", "b"},
			offered,
		},
		"Adopted": {
			"The Cluster has a template, so what nobody owns is not its.", object(),
			[]client.Object{
				template("t1", "c1", "c1"), classIn("c1", "a", "b"), template("t2", "c2", ""), classIn("c2", "z"),
			},
			[]string{"a", "b"},
			offered,
		},
		"AdoptedInPart": {
			"The workers' template is adopted, the control plane's follows.", object(func(o *infrav1.MCMCluster) {
				o.Status.FailureDomains = []clusterv1.FailureDomain{{Name: "a"}, {Name: "b"}}
			}),
			[]client.Object{
				template("t1", "c1", "c1"), classIn("c1", "z"), young("t2", "c2"), classIn("c2", "a", "b"),
			},
			[]string{"a", "b"},
			offered,
		},
		"LeftBehind": {
			"A template that has no owner for long keeps no zone that the class has dropped.",
			object(func(o *infrav1.MCMCluster) {
				o.Status.FailureDomains = []clusterv1.FailureDomain{{Name: "a"}, {Name: "b"}}
			}),
			[]client.Object{template("t1", "c1", "c1"), classIn("c1", "a"), template("t2", "c1", "")},
			[]string{"a"},
			"False ZoneNotInClass: spec.failureDomains b not offered: MachineClasses c1 cannot place VMs there; " +
				"add the zones to a class, or remove them here",
		},
		"All": {
			"Each zone has a class.", object(),
			[]client.Object{
				template("t1", "c1", "c1"), classIn("c1", "a"), template("t2", "c2", "c1"), classIn("c2", "b", "c"),
			},
			[]string{"a", "b"},
			offered,
		},
		"One": {
			"What no class can honour is not offered, and that is said.", object(),
			[]client.Object{template("t1", "c1", "c1"), classIn("c1", "a", "z")},
			[]string{"a"},
			"False ZoneNotInClass: spec.failureDomains b not offered: MachineClasses c1 cannot place VMs there; add the " +
				"zones to a class, or remove them here",
		},
		"Any": {
			"Only the cloud knows which zones there are.", object(),
			[]client.Object{template("t1", "c1", "c1"), anywhere(classIn("c1", "z"))},
			[]string{"a", "b"},
			offered,
		},
		"OfAnother": {
			"Another Cluster's classes say nothing.", object(),
			[]client.Object{
				template("t1", "c1", "other"), classIn("c1", "z"),
				cluster(func(c *clusterv1.Cluster) { c.Name = "other" }),
			},
			nil,
			"False ClassNotKnown: spec.failureDomains a, b not offered: no MCMMachineTemplate of Cluster c1 exists; create " +
				"one (checked again when it changes)",
		},
		"ClassMissing": {
			"A class that is not there yet may have the others.", object(),
			[]client.Object{template("t1", "c1", "c1"), classIn("c1", "a"), template("t2", "c2", "c1")},
			[]string{"a"},
			"False ClassNotKnown: spec.failureDomains b not offered: MachineClass c2 does not exist; create it (checked " +
				"again when it changes)",
		},
		"None": {
			"Nothing is offered unasked.", object(none),
			[]client.Object{template("t1", "c1", "c1"), classIn("c1", "a")},
			nil, "",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, append(tc.objects, tc.object, cluster())...)
			w.run()
			var got []string
			for _, d := range w.get().Status.FailureDomains {
				got = append(got, d.Name)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s\n%s", tc.reason, diff)
			}
			if c := w.condition(infrav1.FailureDomainsOfferedCondition); c != tc.condition {
				t.Errorf("%s\ncondition %q, want %q", tc.reason, c, tc.condition)
			}
		})
	}
}

// TestClassesWakeTheirClusters: a class that gets another zone changes what is offered.
func TestClassesWakeTheirClusters(t *testing.T) {
	t.Parallel()
	edited := classIn("c1", "a")
	w := newEnv(t, object(), cluster(), template("t1", "c1", "c1"), edited)
	w.run()
	harness.Edit(w.harness.Cluster, edited, func(c *machinev1.MachineClass) {
		c.ProviderSpec.Raw = classIn("c1", "a", "b").ProviderSpec.Raw
	})
	requests := w.ofClass(t.Context(), edited)
	if len(requests) != 1 || requests[0].NamespacedName != key {
		t.Fatalf("the class wakes %v, want %v", requests, key)
	}
	w.run()
	if n := len(w.get().Status.FailureDomains); n != 2 {
		t.Errorf("%d failure domains, want both", n)
	}
	if !slices.ContainsFunc(w.get().Status.Conditions, func(c metav1.Condition) bool {
		return c.Type == infrav1.FailureDomainsOfferedCondition && c.Status == metav1.ConditionTrue
	}) {
		t.Errorf("conditions %+v", w.get().Status.Conditions)
	}
}
