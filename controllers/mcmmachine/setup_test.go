package mcmmachine

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/capi"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/watch"
)

func TestWhoIsWoken(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.create(w.newMachine("a")...)
	w.create(w.newMachine("b")...)
	change(w, w.get("a"), func(o *infrav1.MCMMachine) { o.Spec.ProviderID = "sim:///sim-1a/vm-1" })
	address := &ipamv1.IPAddress{Spec: ipamv1.IPAddressSpec{ClaimRef: ipamv1.IPAddressClaimReference{Name: "b-0-0"}}}
	address.Namespace = namespace
	ctx := t.Context()
	c := w.controller
	both := []string{"a", "b"}
	cases := map[string]struct {
		got  []reconcile.Request
		want []string
	}{
		"Machine":         {ofMachine(ctx, machine("a")), []string{"a"}},
		"ForeignMachine":  {ofMachine(ctx, &clusterv1.Machine{}), nil},
		"Cluster":         {c.ofCluster(ctx, cluster()), both},
		"InfraCluster":    {c.ofInfraCluster(ctx, infraCluster()), both},
		"Class":           {c.ofClass(ctx, smallClass()), both},
		"Secret":          {c.ofSecret(ctx, smallSecret()), both},
		"BootstrapSecret": {c.ofSecret(ctx, bootstrapSecret("b")), []string{"b"}},
		"Node": {
			c.ofNode(ctx, &corev1.Node{Spec: corev1.NodeSpec{ProviderID: "sim:///sim-1a/vm-1"}}),
			[]string{"a"},
		},
		"OtherNode":      {c.ofNode(ctx, &corev1.Node{}), nil},
		"Claim":          {ofClaim(ctx, claimNamed("b-0-0")), []string{"b"}},
		"OtherClaim":     {ofClaim(ctx, claimNamed("b-0")), nil},
		"ClaimOfNumbers": {ofClaim(ctx, claimNamed("b-0-1-2-3")), []string{"b-0-1"}},
		"Address":        {ofAddress(ctx, address), []string{"b"}},
		"AddressOfOther": {ofAddress(ctx, &ipamv1.IPAddress{}), nil},
	}
	for name, tc := range cases {
		var names []string
		for _, r := range tc.got {
			names = append(names, r.Name)
		}
		if diff := cmp.Diff(tc.want, names); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestPredicates(t *testing.T) {
	t.Parallel()
	healthy := func(status metav1.ConditionStatus) *clusterv1.Machine {
		m := machine("m")
		m.Status.Conditions = []metav1.Condition{{Type: clusterv1.MachineNodeHealthyCondition, Status: status}}
		return m
	}
	paused := cluster()
	paused.Spec.Paused = new(true)
	lost := &infrav1.MCMMachine{}
	told := &infrav1.MCMMachine{}
	told.Status.Initialization.Provisioned = new(true)
	allowing, held := smallSecret(), smallClass()
	allowing.Annotations = map[string]string{machinev1.AllowedNamespacesAnnotation: "*"}
	allowing.ResourceVersion = "2"
	held.Finalizers = nil
	beat := &corev1.Node{}
	beat.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady}}
	cases := map[string]struct {
		reason  string
		p       predicate.Predicate
		was, is client.Object
		want    bool
	}{
		"OwnStatus":  {"Our own writes cause nothing.", objectChanged(), lost, told, false},
		"LostStatus": {"A status that was lost is written again.", objectChanged(), told, lost, true},
		"Health": {
			"A Node that fails is a reason to look.", machineChanged(), healthy("True"), healthy("False"),
			true,
		},
		"MachineStatus": {"Core writes a Machine's status often.", machineChanged(), healthy("True"), healthy("True"), false},
		"Pause":         {"A pause begins and ends.", capi.ClusterChanged(), cluster(), paused, true},
		"ClusterStatus": {"Core writes a Cluster's status often.", capi.ClusterChanged(), cluster(), cluster(), false},
		"Allowed":       {"A Secret may allow its use.", watch.Versions(), smallSecret(), allowing, true},
		"Protected":     {"A class that is held can be used.", classChanged(), held, smallClass(), true},
		"Heartbeat":     {"Kubelets report every few seconds.", nodeChanged(), &corev1.Node{}, beat, false},
		"DurableID": {
			"Machines wait for the id of their cluster.", infraClusterChanged(), &infrav1.MCMCluster{},
			infraCluster(), true,
		},
	}
	for name, tc := range cases {
		if got := tc.p.Update(event.UpdateEvent{ObjectOld: tc.was, ObjectNew: tc.is}); got != tc.want {
			t.Errorf("%s: passes %v, want %v: %s", name, got, tc.want, tc.reason)
		}
	}
}
