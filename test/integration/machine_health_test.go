package integration

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
	"github.com/capmcm/cluster-api-provider-mcm/test/stack"
)

// Two of three nodes break, each in its own way. At no time are two machines
// being replaced.
func brokenNodesAreReplacedOneAtATime(s *env) {
	s.class()
	s.pool(3, func(d *machinev1.MachineDeployment) { d.Spec.Template.Spec.MachineHealthTimeout = seconds(2) })
	all := s.running(3)
	first, second, healthy := all[0], all[1], all[2]
	s.kubelet(&first, map[string]any{"ready": false})
	s.kubelet(&second, map[string]any{"conditions": map[string]string{"KernelDeadlock": "True"}})

	var waited, named bool
	s.eventually("both are replaced", func(ctx context.Context) error {
		now, err := s.list(ctx)
		if err != nil {
			return err
		}
		there, going, good := 0, 0, 0
		for i := range now {
			m := &now[i]
			c := condition(m, machinev1.ConditionNodeReady)
			switch phase := m.Status.CurrentStatus.Phase; {
			case m.Name != first.Name && m.Name != second.Name:
				if phase == machinev1.MachineRunning {
					good++
				}
				continue
			case phase == machinev1.MachineFailed || phase == machinev1.MachineTerminating || !m.DeletionTimestamp.IsZero():
				going++
			case c != nil && c.Reason == machinev1.ReasonWaitingForTurn:
				waited = true
			}
			there++
			named = named || c != nil && strings.Contains(c.Message, "KernelDeadlock is True")
		}
		switch {
		case going > 1:
			return stack.Fatal(errors.New("both are being replaced at the same time"))
		case going == 1 && there == 1 && good < 2:
			return stack.Fatal(errors.New("the second is being replaced before the first has its successor"))
		case there > 0:
			return fmt.Errorf("%d of 2 are still there", there)
		}
		return nil
	})
	s.Expect(waited).To(BeTrue(), "the one that waits for its turn has to say so")
	s.Expect(named).To(BeTrue(), "the node's condition has to be named")
	s.Expect(s.told("Failed", first.Name)).To(ContainSubstring("was not healthy for 2s"))
	for _, m := range s.running(3) {
		if m.UID == healthy.UID {
			return
		}
	}
	s.Fatal("the healthy machine was replaced")
}

func unhealthyMachineRecovers(s *env) {
	s.class()
	m := s.single("recovers", func(m *machinev1.Machine) {
		m.Spec.NodeConditions = new("Corrupt, KernelDeadlock")
		m.Spec.MachineHealthTimeout = seconds(300)
	})
	s.phase(m, machinev1.MachineRunning)
	s.kubelet(m, map[string]any{"conditions": map[string]string{"Corrupt": "Unknown"}})
	s.phase(m, machinev1.MachineUnknown)
	s.Expect(s.says(m, machinev1.ConditionNodeReady,
		machinev1.ReasonNodeUnhealthy)).To(ContainSubstring("Corrupt is Unknown"))
	s.Expect(m.Status.LastOperation.Type).To(Equal(machinev1.MachineOperationHealthCheck))
	s.Expect(m.Status.LastOperation.State).To(Equal(machinev1.MachineStateProcessing))

	s.kubelet(m, map[string]any{"conditions": map[string]string{"Corrupt": "False"}})
	s.phase(m, machinev1.MachineRunning)
	s.Expect(m.Status.LastOperation.State).To(Equal(machinev1.MachineStateSuccessful))
	s.told("Recovered", m.Name)
	s.Expect(s.alive(s.Context(), m.Name)).To(Succeed())
}

func unhealthyMachineMayStayUnknown(s *env) {
	s.class()
	s.pool(1, func(d *machinev1.MachineDeployment) {
		d.Spec.Template.Spec.MachineHealthTimeout = seconds(1)
		d.Spec.Template.Spec.DisableHealthTimeout = new(true)
	})
	m := &s.running(1)[0]
	s.kubelet(m, map[string]any{"ready": false})
	s.phase(m, machinev1.MachineUnknown)
	s.holds(4*time.Second, "the machine stays Unknown", func(ctx context.Context) error {
		if err := s.Client.Get(ctx, client.ObjectKeyFromObject(m), m); err != nil {
			return err
		}
		if m.Status.CurrentStatus.Phase != machinev1.MachineUnknown || !m.DeletionTimestamp.IsZero() {
			return errors.New(describe(m))
		}
		return nil
	})
}

func machineThatNeverJoinsIsReplaced(s *env) {
	s.class(bootsWith("join: never\n"))
	s.pool(1, func(d *machinev1.MachineDeployment) { d.Spec.Template.Spec.MachineCreationTimeout = seconds(30) })
	alone := s.single("alone", func(m *machinev1.Machine) {
		m.Labels = map[string]string{} // not of the pool
		m.Spec.MachineCreationTimeout = seconds(15)
	})
	s.says(alone, machinev1.ConditionNodeReady, machinev1.ReasonWaitingForNode)
	s.Expect(alone.Status.CurrentStatus.Phase).To(Equal(machinev1.MachinePending))
	var first machinev1.Machine
	s.eventually("the pool's machine waits for its node", func(ctx context.Context) error {
		all, err := s.list(ctx)
		if err != nil || len(all) != 1 || all[0].Status.CurrentStatus.Phase != machinev1.MachinePending {
			return fmt.Errorf("%d machines: %w", len(all), err)
		}
		first = all[0]
		return nil
	})
	// From now on VMs join.
	_, joins := s.Class(s.name, "small")
	secret := &corev1.Secret{ObjectMeta: s.meta(s.name)}
	s.Expect(s.Edit(s.Context(), secret, func() {
		secret.Data[machinev1.UserDataKey] = joins.Data[machinev1.UserDataKey]
	})).To(Succeed())

	s.Expect(s.told("Failed", first.Name)).To(ContainSubstring("failed to join the cluster in"))
	s.gone(&first)
	now := s.running(1)
	s.Expect(now[0].Name).NotTo(Equal(first.Name))
	// Without a set it is not replaced, and its status says why.
	s.phase(alone, machinev1.MachineFailed)
	s.Expect(alone.Status.LastOperation.Description).To(ContainSubstring("failed to join the cluster in 15s"))
	s.Expect(alone.Status.LastOperation.State).To(Equal(machinev1.MachineStateFailed))
	s.Expect(alone.Status.LastOperation.Type).To(Equal(machinev1.MachineOperationCreate))
	s.Expect(condition(alone, machinev1.ConditionNodeReady).Message).To(ContainSubstring("Node alone"))
}

// A Machine whose VM cannot be made fails with its creation timeout. Without a
// set it goes on trying: no controller would replace it.
func machineWithoutVMFails(s *env) {
	s.fault(sim.Fault{
		Op: sim.OpCreateVM, Mode: sim.FaultBefore, Code: sim.CodeServiceUnavailable,
		Message: "the roof is on fire",
	})
	s.class()
	m := s.single("never-made", func(m *machinev1.Machine) { m.Spec.MachineCreationTimeout = seconds(30) })
	s.phase(m, machinev1.MachineCrashLoopBackOff)
	s.Expect(s.says(m, machinev1.ConditionVMReady,
		machinev1.ReasonCloudUnavailable)).To(ContainSubstring("the roof is on fire"))
	s.phase(m, machinev1.MachineFailed)
	s.Expect(m.Status.LastOperation.Type).To(Equal(machinev1.MachineOperationCreate))
	s.told("Failed", m.Name)
	// A bootstrap token lives as long as a creation may take.
	s.Expect(s.Edit(s.Context(), m, func() { m.Spec.MachineCreationTimeout = seconds(600) })).To(Succeed())
	s.repair()
	s.phase(m, machinev1.MachineRunning)
	s.Expect(s.alive(s.Context(), m.Name)).To(Succeed())
}
