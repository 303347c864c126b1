package recovery

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture"
)

// TestClusterAPI: a VM of a Cluster gets Machine, boot data and MCMMachine.
func TestClusterAPI(t *testing.T) {
	t.Parallel()
	s := cluster()
	s.loseOfCluster(t, "pool-bcdfg-bbbbb")
	s.Nodes[0].Status.NodeInfo.KubeletVersion = "v1.36.3"
	p := Of(s, Options{})
	v := p.VMs[0]
	if v.Verdict != Recover || v.Set != "pool-bcdfg" || len(v.Objects) != 3 {
		t.Fatalf("%+v", v)
	}
	m, secret := v.Objects[0].(*clusterv1.Machine), v.Objects[1].(*corev1.Secret)
	infra := v.Objects[2].(*infrav1.MCMMachine)
	if m.Spec.ProviderID != "sim:///zone/vm-pool-bcdfg-bbbbb" || m.Spec.InfrastructureRef.Name != infra.Name ||
		*m.Spec.Bootstrap.DataSecretName != secret.Name || m.Spec.Bootstrap.ConfigRef.IsDefined() ||
		m.Spec.Version != "v1.36.3" || m.Labels[clusterv1.MachineDeploymentNameLabel] != "pool" ||
		!metav1.IsControlledBy(m, &s.ClusterSets[0]) {
		t.Errorf("the Machine is %+v", m)
	}
	if machinev1.OwnerID(infra) != "owner-of-pool-bcdfg-bbbbb" || infra.Spec.ProviderID != m.Spec.ProviderID ||
		infra.Spec.MachineClassRef.Name != class || infra.Labels[clusterv1.ClusterNameLabel] != "c" ||
		metav1.GetControllerOf(infra).Name != m.Name || infra.Finalizers[0] != machinev1.MCMMachineFinalizer {
		t.Errorf("the MCMMachine is %+v", infra)
	}
	want := []*Change{{1, 2}, {1, 2}}
	if diff := cmp.Diff(want, []*Change{p.Pools[0].Replicas, p.Pools[0].DeploymentReplicas}); diff != "" {
		t.Error(diff)
	}
}

// TestClusterAPIAssign: what keeps a VM of a Cluster from being recovered.
func TestClusterAPIAssign(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason  string
		change  func(*State)
		orphan  func(*machinev1.Orphan)
		verdict Verdict
		blocked string
	}{
		"SetIsGone": {
			reason:  "The deployment has another set now.",
			orphan:  func(o *machinev1.Orphan) { o.Machine = "pool-zzzzz-bbbbb" },
			verdict: Recover,
		},
		"OtherCluster": {
			reason: "Sets of other Clusters may have the same name.", verdict: Blocked, blocked: "tells no MachineSet",
			orphan: func(o *machinev1.Orphan) { o.ClusterID = "other" },
		},
		"Paused": {
			reason: "Nobody looks at the new objects.", verdict: Blocked, blocked: "is paused",
			change: func(s *State) { s.Clusters[0].Spec.Paused = new(true) },
		},
		"NoTemplate": {
			reason: "The class comes from the template.", verdict: Blocked, blocked: "has no MCMMachineTemplate",
			change: func(s *State) { s.MachineTemplates = nil },
		},
		"NoProviderID": {
			reason: "Cluster API finds the Node by it.", verdict: Blocked, blocked: "does not tell the providerID",
			change: func(s *State) { s.Nodes = nil },
			orphan: func(o *machinev1.Orphan) { o.NodeProviderID = "" },
		},
		"MachineExists": {
			reason: "The name is taken.", verdict: Blocked, blocked: "exists, and its MCMMachine does not",
			orphan: func(o *machinev1.Orphan) { o.Machine = "pool-bcdfg-22222" },
		},
		"Recovered": {
			reason: "The MCMMachine has the VM.", verdict: Recovered,
			change: func(s *State) {
				m := fixture.MCMMachine("pool-bcdfg-bbbbb", "c", class)
				m.Spec.ProviderID = "sim:///zone/vm-pool-bcdfg-bbbbb"
				s.MCMMachines = append(s.MCMMachines, *m)
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := cluster()
			s.loseOfCluster(t, "pool-bcdfg-bbbbb", func(o *machinev1.Orphan) {
				if tc.orphan != nil {
					tc.orphan(o)
				}
			})
			if tc.change != nil {
				tc.change(s)
			}
			if v := Of(s, Options{}).VMs[0]; v.Verdict != tc.verdict || !strings.Contains(v.Reason, tc.blocked) {
				t.Errorf("%s\n%s: %s", tc.reason, v.Verdict, v.Reason)
			}
		})
	}
}
