package capi

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/harness"
)

func object(change ...func(*infrav1.MCMMachine)) *infrav1.MCMMachine {
	o := &infrav1.MCMMachine{ObjectMeta: metav1.ObjectMeta{
		Name: "m", Namespace: "ns", UID: "uid",
		Finalizers: []string{"a", "b"},
	}}
	for _, f := range change {
		f(o)
	}
	return o
}

func TestClusterOf(t *testing.T) {
	t.Parallel()
	owned := func(apiVersion string) func(*infrav1.MCMMachine) {
		return func(o *infrav1.MCMMachine) {
			o.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: "Cluster", Name: "c1"}}
		}
	}
	labelled := func(o *infrav1.MCMMachine) { o.Labels = map[string]string{clusterv1.ClusterNameLabel: "c1"} }
	cases := map[string]struct {
		reason string
		object *infrav1.MCMMachine
		there  bool
		named  string
		found  bool
	}{
		"Label": {"Core labels what belongs to a Cluster.", object(labelled), true, "c1", true},
		"Owner": {
			"The owner reference may come first, of any version.", object(owned("cluster.x-k8s.io/v1beta1")), true,
			"c1", true,
		},
		"OtherKind": {"Others have Clusters too.", object(owned("example.com/v1")), true, "", false},
		"Gone":      {"The Cluster may be gone.", object(labelled), false, "c1", false},
		"None":      {"Nothing names one.", object(), true, "", false},
	}
	for name, tc := range cases {
		c := harness.New(t).Raw
		if tc.there {
			c = harness.New(t, harness.With(&clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c1", Namespace: "ns"}})).Raw
		}
		cluster, named, err := ClusterOf(t.Context(), c, tc.object)
		if err != nil || named != tc.named || (cluster != nil) != tc.found {
			t.Errorf("%s: %v, %q, %v: %s", name, cluster != nil, named, err, tc.reason)
		}
	}
}

func TestConditionTimes(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var all []metav1.Condition
	SetCondition(&all, PausedCondition(""), 1, at)
	SetCondition(&all, PausedCondition(""), 2, at.Add(time.Hour))
	c := meta.FindStatusCondition(all, clusterv1.PausedCondition)
	if c.ObservedGeneration != 2 || !c.LastTransitionTime.Time.Equal(at) {
		t.Errorf("%+v: the time is that of the last change of status", c)
	}
	SetCondition(&all, PausedCondition("why"), 2, at.Add(time.Hour))
	if c = meta.FindStatusCondition(all, clusterv1.PausedCondition); c.Message != "why" ||
		!c.LastTransitionTime.Time.Equal(at.Add(time.Hour)) {
		t.Errorf("%+v", c)
	}
}
