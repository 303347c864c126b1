package plan

import (
	"slices"
	"strings"
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/pools"
)

// TestBadInputOfClusterAPI: what keeps a pool from becoming native, or is lost.
func TestBadInputOfClusterAPI(t *testing.T) {
	t.Parallel()
	deployment := func(change func(*clusterv1.MachineDeployment)) func(*migration.PoolState) {
		return func(s *migration.PoolState) { change(s.ClusterAPI.Deployment) }
	}
	for _, c := range []struct {
		reason string
		spoil  func(*migration.PoolState)
		want   string
	}{
		{"a deletion has to end", func(s *migration.PoolState) {
			s.ClusterAPI.Machines[0].DeletionTimestamp = &pools.TestBirth
		}, "is being deleted"},
		{
			"its VM is not ours", func(s *migration.PoolState) { s.ClusterAPI.MCMMachines = s.ClusterAPI.MCMMachines[1:] },
			"no MCMMachine",
		},
		{"its VM is not complete", func(s *migration.PoolState) {
			s.ClusterAPI.MCMMachines[0].Annotations[machinev1.CreateAttemptAnnotation] = "1"
		}, "is being made"},
		{"its node is gone", func(s *migration.PoolState) { clear(s.Nodes) }, "has not joined"},
		{"the class is needed", func(s *migration.PoolState) { clear(s.Native.Classes) }, "does not exist"},
		{"a ClusterClass would make it again", deployment(func(d *clusterv1.MachineDeployment) {
			d.Labels[clusterv1.ClusterTopologyOwnedLabel] = ""
		}), "ClusterClass manages it"},
		{"a rollout begins", deployment(func(d *clusterv1.MachineDeployment) {
			d.Spec.Template.Spec.Version = "v9"
		}), "a rollout begins"},
		{"it scales", deployment(func(d *clusterv1.MachineDeployment) {
			d.Spec.Replicas = new(int32(7))
		}), "7 machines are wanted"},
		{"its template is not ours", deployment(func(d *clusterv1.MachineDeployment) {
			d.Spec.Template.Spec.InfrastructureRef.Name = "x"
		}), "not this provider's"},
		{"boot data of its own", deployment(func(d *clusterv1.MachineDeployment) {
			d.Spec.Template.Spec.Bootstrap.ConfigRef.Kind = "KubeadmConfigTemplate"
		}), "user data of their MachineClass"},
		{"hooks", func(s *migration.PoolState) {
			s.ClusterAPI.Machines[0].Annotations["pre-drain.delete.hook.machine.cluster.x-k8s.io/a"] = ""
		}, "waits for no hooks"},
		{"nobody knows which API is authoritative", func(s *migration.PoolState) {
			s.ClusterAPI.Machines[0].Annotations[clusterv1.PausedAnnotation] = ""
		}, "no move of the pool is on record"},
		{"a VM that is to stay", func(s *migration.PoolState) {
			s.ClusterAPI.MCMMachines[0].Annotations[machinev1.RetainVMAnnotation] = "true"
		}, "goes with its Machine"},
		{"the address of a VM is a claim's", func(s *migration.PoolState) {
			s.ClusterAPI.MCMMachines[1].Spec.Network.Devices = []infrav1.NetworkDevice{{}}
		}, "the addresses of running VMs go to others"},
		{"new VMs get addresses from pools", func(s *migration.PoolState) {
			s.ClusterAPI.MachineTemplates[0].Spec.Template.Spec.Network.Devices = []infrav1.NetworkDevice{{}}
		}, "replacements would boot with DHCP"},
		{"readiness gates", deployment(func(d *clusterv1.MachineDeployment) {
			d.Spec.Template.Spec.ReadinessGates = []clusterv1.MachineReadinessGate{{ConditionType: "a"}}
		}), "knows none"},
		{"OnDelete", deployment(func(d *clusterv1.MachineDeployment) {
			d.Spec.Rollout.Strategy.Type = clusterv1.OnDeleteMachineDeploymentStrategyType
		}), "spec.paused"},
		{"a drain without end", deployment(func(d *clusterv1.MachineDeployment) {
			d.Spec.Template.Spec.Deletion.NodeDrainTimeoutSeconds = nil
		}), "as long as it takes"},
		{"remediation of its own", func(s *migration.PoolState) {
			s.ClusterAPI.HealthCheck.Spec.Remediation.TemplateRef.Kind = "X"
		}, "unhealthy machine is replaced"},
	} {
		t.Run(c.reason, func(t *testing.T) {
			t.Parallel()
			s := pools.OnClusterAPI(2)
			s.Record = nil
			pools.Around(s)
			o := migration.Options{To: migration.Native, Cluster: "shoot"}
			if blocked := Of(s, o).Blocked(); len(blocked) > 0 {
				t.Fatalf("blocked before anything is wrong: %v", blocked)
			}
			c.spoil(s)
			if blocked := Of(s, o).Blocked(); !slices.ContainsFunc(blocked, func(f migration.Finding) bool {
				return strings.Contains(f.Text, c.want)
			}) {
				t.Errorf("want it blocked by %q, got %v", c.want, blocked)
			}
		})
	}
}
