package integration

import (
	"context"
	"errors"
	"fmt"
	"slices"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/test/stack"
)

var inPlaceTrials = []trialCase{
	{"InPlaceAuto", (*trial).inPlaceAuto},
	{"InPlaceManual", (*trial).inPlaceManual},
}

func inPlace(o machinev1.OrchestrationType) func(*machinev1.MachineDeployment) {
	return func(d *machinev1.MachineDeployment) {
		update := &machinev1.InPlaceUpdateMachineDeployment{OrchestrationType: o}
		update.MaxSurge, update.MaxUnavailable = new(intstr.FromInt32(0)), new(intstr.FromInt32(1))
		d.Spec.Strategy = machinev1.MachineDeploymentStrategy{
			Type:          machinev1.InPlaceUpdateStrategyType,
			InPlaceUpdate: update,
		}
	}
}

// agents does what the agents on the nodes of a deployment do: they update nodes
// that are ready for it, and make updated ones ready for pods.
func (t *trial) agents(machines []machinev1.Machine) error {
	for i := range machines {
		node := t.node(&machines[i])
		_, done := node.Labels[machinev1.UpdateResultLabel]
		if readyForUpdate(node) && !done {
			t.edit(node, func() { node.Labels[machinev1.UpdateResultLabel] = machinev1.UpdateSuccessful })
		}
		if tainted(node, machinev1.CriticalComponentsNotReadyTaint) {
			t.edit(node, func() {
				node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(t corev1.Taint) bool {
					return t.Key == machinev1.CriticalComponentsNotReadyTaint
				})
			})
		}
	}
	return nil
}

func readyForUpdate(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == machinev1.NodeInPlaceUpdate && c.Reason == machinev1.ReasonReadyForUpdate
	})
}

func (t *trial) selected(machines []machinev1.Machine) int {
	count := 0
	for i := range machines {
		if _, ok := t.node(&machines[i]).Labels[machinev1.SelectedForUpdateLabel]; ok {
			count++
		}
	}
	return count
}

// backToWork waits until nothing on the nodes reminds of the update.
func (t *trial) backToWork(machines []machinev1.Machine) {
	t.Helper()
	for i := range machines {
		node := t.node(&machines[i])
		t.until(node, node.Name+" is back to work", func() error {
			for _, label := range []string{
				machinev1.CandidateForUpdateLabel, machinev1.SelectedForUpdateLabel,
				machinev1.UpdateResultLabel,
			} {
				if _, ok := node.Labels[label]; ok {
					return fmt.Errorf("it has label %s", label)
				}
			}
			if node.Spec.Unschedulable || tainted(node, machinev1.PreferNoScheduleKey) ||
				node.Annotations[machinev1.ScaleDownDisabledByMCMAnnotation] != "" {
				return fmt.Errorf("unschedulable %t, taints %v, annotations %v", node.Spec.Unschedulable, node.Spec.Taints,
					node.Annotations)
			}
			return nil
		})
	}
}

// inPlaceAuto: nodes are updated one by one; machines and VMs stay.
func (t *trial) inPlaceAuto() {
	v1, v2 := t.class("v1"), t.class("v2")
	d := t.deployment(v1, 3, "0", "1", inPlace(machinev1.OrchestrationTypeAuto))
	before := t.settled(d)
	t.edit(d, func() { d.Spec.Template.Spec.Class.Name = v2 })
	t.eventually("all nodes are updated", func(context.Context) error {
		if n := t.selected(before); n > 1 {
			return stack.Fatal(fmt.Errorf("%d nodes are selected at once, and only 1 may be unavailable", n))
		}
		if err := t.agents(before); err != nil {
			return err
		}
		if err := t.Client.Get(t.Context(), namespaced(d.Name), d); err != nil {
			return err
		}
		machines, err := t.Machines(t.Context(), d.Name)
		if err != nil {
			return err
		}
		return whole(d, machines)
	})
	after := t.settled(d)
	set := t.sets(d)[1]
	for i := range after {
		t.Expect(after[i].UID).To(Equal(before[i].UID))
		t.Expect(after[i].Spec.ProviderID).To(Equal(before[i].Spec.ProviderID))
		t.Expect(metav1.GetControllerOf(&after[i]).UID).To(Equal(set.UID))
		t.Expect(after[i].Labels).To(HaveKeyWithValue(machinev1.TemplateHashLabel, set.Labels[machinev1.TemplateHashLabel]))
	}
	t.backToWork(after)
	t.until(&after[0], "the machine forgets its result", func() error {
		if _, ok := after[0].Labels[machinev1.UpdateResultLabel]; ok {
			return errors.New("it has the label")
		}
		return nil
	})
}

// inPlaceManual: a person selects the nodes; one whose update fails says why and
// can be tried again.
func (t *trial) inPlaceManual() {
	v1, v2 := t.class("v1"), t.class("v2")
	d := t.deployment(v1, 2, "0", "1", inPlace(machinev1.OrchestrationTypeManual))
	before := t.settled(d)
	t.edit(d, func() { d.Spec.Template.Spec.Class.Name = v2 })
	nodes := []*corev1.Node{t.node(&before[0]), t.node(&before[1])}
	for _, node := range nodes {
		t.until(node, "the node becomes a candidate", func() error {
			if _, ok := node.Labels[machinev1.CandidateForUpdateLabel]; !ok {
				return errors.New("it is none")
			}
			return nil
		})
	}
	t.Expect(t.selected(before)).To(BeZero())

	t.edit(nodes[0], func() { nodes[0].Labels[machinev1.SelectedForUpdateLabel] = "true" })
	t.until(nodes[0], "the node is drained", func() error {
		if !readyForUpdate(nodes[0]) || !nodes[0].Spec.Unschedulable {
			return fmt.Errorf("conditions %v", nodes[0].Status.Conditions)
		}
		return nil
	})
	t.phase(&before[0], machinev1.MachineInPlaceUpdating)
	t.edit(nodes[0], func() {
		nodes[0].Annotations = with(nodes[0].Annotations, machinev1.UpdateFailedReasonAnnotation, "disk is full")
		nodes[0].Labels[machinev1.UpdateResultLabel] = machinev1.UpdateFailed
	})
	t.phase(&before[0], machinev1.MachineInPlaceUpdateFailed)
	t.heard(&before[0], "InPlaceUpdate", "disk is full")
	t.edit(nodes[0], func() { nodes[0].Labels[machinev1.UpdateResultLabel] = machinev1.UpdateSuccessful })
	t.until(d, "the first machine is updated", func() error {
		if d.Status.UpdatedReplicas != 1 {
			return fmt.Errorf("%d machines are", d.Status.UpdatedReplicas)
		}
		return nil
	})
	t.until(&before[1], "the other one is left alone", func() error {
		if before[1].Status.CurrentStatus.Phase != machinev1.MachineRunning || before[1].Spec.Class.Name != v1 {
			return stack.Fatal(fmt.Errorf("it is %s, of class %s", before[1].Status.CurrentStatus.Phase,
				before[1].Spec.Class.Name))
		}
		return nil
	})
	t.edit(nodes[1], func() { nodes[1].Labels[machinev1.SelectedForUpdateLabel] = "true" })
	t.eventually("both are updated", func(context.Context) error {
		if err := t.agents(before); err != nil {
			return err
		}
		if err := t.Client.Get(t.Context(), namespaced(d.Name), d); err != nil {
			return err
		}
		machines, err := t.Machines(t.Context(), d.Name)
		if err != nil {
			return err
		}
		return whole(d, machines)
	})
	after := t.settled(d)
	t.Expect(uids(after)).To(Equal(uids(before)))
	t.backToWork(after)
}
