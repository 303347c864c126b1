package explain

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// capi is a Cluster of Cluster API with a Machine, its MCMMachine and its MCMConfig.
type capi struct {
	cluster, infraCluster, machine, infra, boot *Object
}

func newCAPI() capi {
	meta := func(name string, uid types.UID) metav1.ObjectMeta {
		return metav1.ObjectMeta{
			Namespace: "garden", Name: name, UID: uid, CreationTimestamp: metav1.NewTime(now.Add(-5 * time.Minute)),
			Labels: map[string]string{clusterv1.ClusterNameLabel: "prod"},
		}
	}
	c := capi{
		cluster:      OfCluster(&clusterv1.Cluster{ObjectMeta: meta("prod", "uid-c")}),
		infraCluster: OfMCMCluster(&infrav1.MCMCluster{ObjectMeta: meta("prod", "uid-ic")}),
		machine: OfCAPIMachine(&clusterv1.Machine{
			ObjectMeta: meta("m", "uid-cm"), Spec: clusterv1.MachineSpec{ClusterName: "prod"},
		}),
	}
	infra := &infrav1.MCMMachine{ObjectMeta: meta("m", "uid-im")}
	infra.Spec.MachineClassRef.Name = "workers-v1"
	ownedBy(infra, KindMachine, "uid-cm")
	c.infra = OfMCMMachine(infra)
	c.boot = &Object{
		Ref: Ref{APIVersion: "bootstrap.cluster.x-k8s.io/v1alpha1", Kind: KindMCMConfig, Namespace: "garden", Name: "m"},
		API: ClusterAPI, UID: "uid-b", Owner: "uid-cm", OwnerID: "uid-b", Attempt: 1,
	}
	condition(c.cluster, clusterv1.ClusterInfrastructureReadyCondition, metav1.ConditionTrue, "Ready")
	condition(c.cluster, clusterv1.ClusterControlPlaneInitializedCondition, metav1.ConditionTrue, "Ready")
	return c
}

func TestWhyClusterAPI(t *testing.T) {
	t.Parallel()
	const yes, no = metav1.ConditionTrue, metav1.ConditionFalse
	booted := func(c capi) { condition(c.boot, clusterv1.ReadyCondition, yes, "DataSecretAvailable") }
	vm := func(c capi) {
		booted(c)
		condition(c.infra, infrav1.VMProvisionedCondition, yes, infrav1.ReasonProvisioned)
	}
	joined := func(c capi) {
		vm(c)
		c.machine.Joined, c.machine.Node = true, "n"
		condition(c.machine, clusterv1.MachineNodeHealthyCondition, yes, "NodeHealthy")
	}
	gone := now
	for name, tc := range map[string]struct {
		change       func(capi)
		reason, kind string
		concern      Concern
	}{
		"healthy": {change: joined},
		"load balancer before the node": {change: func(c capi) {
			vm(c)
			condition(c.infra, infrav1.LoadBalancerRegisteredCondition, no, machinev1.ReasonRegistering)
		}, reason: machinev1.ReasonRegistering, kind: KindMCMMachine, concern: Cloud},
		"load balancer of a node that has joined": {change: func(c capi) {
			joined(c)
			condition(c.infra, infrav1.LoadBalancerRegisteredCondition, no, cloud.ReasonLoadBalancersUnsupported)
		}, reason: cloud.ReasonLoadBalancersUnsupported, kind: KindMCMMachine, concern: ClassField},
		"tags": {change: func(c capi) {
			joined(c)
			condition(c.infra, infrav1.TagsUpdatedCondition, no, cloud.ReasonTagsUnsupported)
		}, reason: cloud.ReasonTagsUnsupported, kind: KindMCMMachine, concern: Cloud},
		"boot data that is kept": {change: func(c capi) {
			joined(c)
			condition(c.infra, infrav1.BootDataRemovedCondition, no, machinev1.ReasonCloudUnavailable)
		}, reason: machinev1.ReasonCloudUnavailable, kind: KindMCMMachine, concern: Cloud},
		"health before tags": {change: func(c capi) {
			vm(c)
			c.machine.Joined, c.machine.Node = true, "n"
			condition(c.machine, clusterv1.MachineNodeHealthyCondition, no, clusterv1.MachineNodeNotHealthyReason)
			condition(c.infra, infrav1.TagsUpdatedCondition, no, cloud.ReasonTagsUnsupported)
		}, reason: clusterv1.MachineNodeNotHealthyReason, kind: KindMachine, concern: Health},
		"paused by a migration": {change: func(c capi) {
			c.machine.CopiedFrom = "uid-native"
			c.machine.pause("annotation")
		}, reason: reasonMigration, kind: KindMachine, concern: Hold},
		"paused after a migration has finished": {change: func(c capi) {
			c.machine.CopiedFrom = "uid-removed"
			c.machine.pause("annotation")
		}, reason: reasonPaused, kind: KindMachine, concern: Paused},
		"paused on the way to the native API": {change: func(c capi) {
			c.machine.UID = "uid-moving" // the native Machine is its copy
			c.machine.pause("annotation")
			c.infra.Owner, c.boot.Owner = c.machine.UID, c.machine.UID
		}, reason: reasonMigration, kind: KindMachine, concern: Hold},
		"paused": {
			change: func(c capi) { c.cluster.pause("spec.paused") }, reason: reasonPaused, kind: KindCluster, concern: Paused,
		},
		"the MCMCluster is more exact than the Cluster": {change: func(c capi) {
			c.cluster.Conditions = nil
			condition(c.cluster, clusterv1.ClusterInfrastructureReadyCondition, no, "NotReady")
			condition(c.infraCluster, clusterv1.ReadyCondition, no, infrav1.ReasonWaitingForEndpoint)
		}, reason: infrav1.ReasonWaitingForEndpoint, kind: KindMCMCluster, concern: Order},
		"boot data": {change: func(c capi) {
			condition(c.boot, clusterv1.ReadyCondition, no, machinev1.ReasonInvalidUserData)
		}, reason: machinev1.ReasonInvalidUserData, kind: KindMCMConfig, concern: SecretKey},
		"VM": {change: func(c capi) {
			booted(c)
			condition(c.infra, infrav1.VMProvisionedCondition, no, machinev1.ReasonCredentialsRefused)
		}, reason: machinev1.ReasonCredentialsRefused, kind: KindMCMMachine, concern: Credentials},
		"node": {change: vm, reason: clusterv1.MachineNodeDoesNotExistReason, kind: KindMachine, concern: Join},
		"drain": {change: func(c capi) {
			c.machine.Deleting = &gone
			condition(c.machine, clusterv1.MachineDeletingCondition, yes, clusterv1.MachineDeletingDrainingNodeReason)
		}, reason: clusterv1.MachineDeletingDrainingNodeReason, kind: KindMachine, concern: Drain},
		"the MCMMachine is more exact than the Machine": {change: func(c capi) {
			c.machine.Deleting = &gone
			condition(c.machine, clusterv1.MachineDeletingCondition, yes,
				clusterv1.MachineDeletingWaitingForInfrastructureDeletionReason)
			condition(c.infra, clusterv1.DeletingCondition, yes, machinev1.ReasonCredentialsRefused)
		}, reason: machinev1.ReasonCredentialsRefused, kind: KindMCMMachine, concern: Credentials},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCAPI()
			tc.change(c)
			native := OfMachine(machine(func(m *machinev1.Machine) {
				m.UID = "uid-native"
				m.Annotations = map[string]string{machinev1.MigratedFromAnnotation: "Machine/m/uid-moving"}
			}))
			f := &Facts{Now: now, Objects: []*Object{c.cluster, c.infraCluster, c.machine, c.infra, c.boot, native}}
			for _, o := range []*Object{c.machine, c.infra} {
				m := f.Why(o).Missing
				switch {
				case tc.reason == "" && m != nil:
					t.Errorf("%s: missing %+v, want nothing", o.Kind, m)
				case tc.reason != "" && m == nil:
					t.Errorf("%s: nothing is missing, want %s", o.Kind, tc.reason)
				case m != nil && (m.Reason != tc.reason || m.Object.Kind != tc.kind || m.Concern != tc.concern):
					t.Errorf("%s: %s of %s, concern %s; want %s of %s, %s", o.Kind, m.Reason, m.Object.Kind, m.Concern, tc.reason,
						tc.kind, tc.concern)
				}
			}
		})
	}
}
