package integration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// All nodes of a pool break at once. Nothing is replaced, until the cloud says
// that one of the VMs is gone: that one is. The others come back.
func nodesLostTogetherAreKept(s *env) {
	s.move()
	s.class()
	const health = 5
	manager := s.manage() // with protection, which the others do without
	d := s.pool(3, func(d *machinev1.MachineDeployment) { d.Spec.Template.Spec.MachineHealthTimeout = seconds(health) })
	all := s.running(3)
	for i := range all {
		s.kubelet(&all[i], map[string]any{"ready": false})
	}
	for i := range all {
		s.Expect(s.says(&all[i], machinev1.ConditionNodeReady,
			machinev1.ReasonOutage)).To(ContainSubstring("became unhealthy within"))
	}
	s.Expect(s.told("Outage", d.Name)).NotTo(BeEmpty())
	kept, err := manager.Metric(s.Context(), "mcm_machine_outage_kept_machines")
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(kept).To(BeEquivalentTo(3))
	s.eventually("the deployment says so", func(ctx context.Context) error {
		if err := s.Client.Get(ctx, client.ObjectKeyFromObject(d), d); err != nil || d.Status.Progress == nil {
			return fmt.Errorf("no progress: %w", err)
		}
		if c := meta.FindStatusCondition(d.Status.Progress.Conditions, machinev1.ConditionReplicasReady); c == nil ||
			c.Reason != machinev1.ReasonOutage {
			return fmt.Errorf("it says %+v", c)
		}
		return nil
	})
	s.holds(2*health*time.Second, "nothing is replaced", func(ctx context.Context) error { return s.sameAs(ctx, all) })

	s.Expect(s.Cloud.Terminate(s.Context(), vmID(&all[0]))).To(Succeed())
	s.gone(&all[0])
	for i := range all[1:] {
		s.kubelet(&all[1+i], map[string]any{"ready": true})
	}
	now := s.running(3)
	for _, m := range all[1:] {
		s.Expect(slices.ContainsFunc(now, func(n machinev1.Machine) bool {
			return n.UID == m.UID
		})).To(BeTrue(), m.Name+" was replaced")
		s.Expect(s.alive(s.Context(), m.Name)).To(Succeed())
	}
	s.told("OutageOver", d.Name)
}

// sameAs returns an error unless the env has these machines, none of them going.
func (s *env) sameAs(ctx context.Context, machines []machinev1.Machine) error {
	now, err := s.list(ctx)
	if err != nil || len(now) != len(machines) {
		return fmt.Errorf("%d machines: %w", len(now), err)
	}
	for i := range now {
		if now[i].Name != machines[i].Name || now[i].Status.CurrentStatus.Phase != machinev1.MachineUnknown ||
			!now[i].DeletionTimestamp.IsZero() {
			return errors.New(describe(&now[i]))
		}
	}
	return nil
}
