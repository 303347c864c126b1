package integration

import (
	"context"
	"errors"
	"fmt"
	"time"

	. "github.com/onsi/gomega"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/test/stack"
)

var scaleTrials = []trialCase{
	{"ScaleDuringRollout", (*trial).scaleDuringRollout},
	{"TriggerDeletion", (*trial).triggerDeletion},
	{"DeleteMachineAnnotation", (*trial).deleteMachineAnnotation},
	{"FreezeAndUnfreeze", (*trial).freezeItself},
	{"UnfreezeByHand", (*trial).unfreezeByHand},
	{"AutoPreserve", (*trial).autoPreserve},
}

// scaleDuringRollout: in the middle of a rollout more replicas go to the new set
// alone, and fewer are taken without making the service worse than it may be.
func (t *trial) scaleDuringRollout() {
	v1, v2 := t.class("v1"), t.class("v2", aloof)
	d := t.deployment(v1, 3, "1", "0")
	t.settled(d)
	old := t.sets(d)[0]
	t.edit(d, func() { d.Spec.Template.Spec.Class.Name = v2 })
	t.eventually("the first new machine joins", func(context.Context) error {
		if t.join(v2, 1) == 0 {
			return errors.New("it has no VM yet")
		}
		return nil
	})
	t.until(d, "one machine is updated, another waits", func() error {
		if d.Status.UpdatedReplicas != 2 || d.Status.AvailableReplicas != 3 || d.Status.Replicas != 4 {
			return fmt.Errorf("%d updated, %d available of %d", d.Status.UpdatedReplicas, d.Status.AvailableReplicas,
				d.Status.Replicas)
		}
		return nil
	})
	t.edit(d, func() { d.Spec.Replicas = 5 })
	t.until(d, "the new set grows", func() error {
		if d.Status.UpdatedReplicas != 4 || d.Status.ObservedGeneration < d.Generation {
			return fmt.Errorf("%d updated", d.Status.UpdatedReplicas)
		}
		return nil
	})
	t.until(&old, "the old set stays", func() error {
		if old.Spec.Replicas != 2 {
			return stack.Fatal(fmt.Errorf("it has %d replicas, want 2", old.Spec.Replicas))
		}
		return nil
	})
	t.edit(d, func() { d.Spec.Replicas = 2 })
	t.until(d, "machines go", func() error {
		if d.Status.AvailableReplicas < 2 {
			return stack.Fatal(fmt.Errorf("only %d machines are available", d.Status.AvailableReplicas))
		}
		if d.Status.Replicas > 3 || d.Status.ObservedGeneration < d.Generation {
			return fmt.Errorf("%d machines", d.Status.Replicas)
		}
		return nil
	})
	t.settledWith(d, func() { t.join(v2, -1) })
}

// triggerDeletion: a scaler says which machines go, in each of the forms that
// scalers use.
func (t *trial) triggerDeletion() {
	d := t.deployment(t.class("v1"), 4, "1", "0")
	forms := []struct {
		reason string
		choose func(victim *machinev1.Machine)
	}{
		{"one update with the time of the scaling", func(victim *machinev1.Machine) {
			now := time.Now().UTC().Format(time.RFC3339)
			t.edit(d, func() {
				d.Spec.Replicas--
				d.Annotations = with(d.Annotations, machinev1.TriggerDeletionAnnotation, victim.Name+"~"+now)
				d.Annotations = with(d.Annotations, machinev1.LastReplicaChangeByScalerAnnotation, now)
			})
		}},
		{"plain names, from scalers of old", func(victim *machinev1.Machine) {
			t.edit(d, func() {
				d.Spec.Replicas--
				d.Annotations = with(d.Annotations, machinev1.TriggerDeletionAnnotation, victim.Name)
			})
		}},
		{"a priority on the machine", func(victim *machinev1.Machine) {
			t.edit(victim, func() {
				victim.Annotations = with(victim.Annotations, machinev1.PriorityAnnotation, machinev1.HighestPriority)
			})
			t.edit(d, func() { d.Spec.Replicas-- })
		}},
	}
	for _, form := range forms {
		machines := t.settled(d)
		victim := youngest(machines)
		form.choose(victim)
		left := uids(t.settled(d))
		want := uids(machines)
		delete(want, victim.UID)
		t.Expect(left).To(Equal(want), form.reason)
		t.until(d, "the list is worked off", func() error {
			if list := d.Annotations[machinev1.TriggerDeletionAnnotation]; list != "" {
				return fmt.Errorf("it has %q", list)
			}
			return nil
		})
	}
}

// youngest is the one that the ranking of equal machines would delete last.
func youngest(machines []machinev1.Machine) *machinev1.Machine {
	last := &machines[0]
	for i := range machines {
		if m := &machines[i]; !m.CreationTimestamp.Before(&last.CreationTimestamp) {
			last = m
		}
	}
	return last
}

// deleteMachineAnnotation: the upstream autoscaler annotates machines and writes
// the scale subresource.
func (t *trial) deleteMachineAnnotation() {
	d := t.deployment(t.class("v1"), 3, "1", "0")
	machines := t.settled(d)
	victim := youngest(machines)
	t.edit(victim, func() {
		victim.Annotations = with(victim.Annotations, machinev1.DeleteMachineAnnotation, time.Now().UTC().String())
	})
	scale := &autoscalingv1.Scale{}
	t.Expect(t.Client.SubResource("scale").Get(t.Context(), d, scale)).To(Succeed())
	t.Expect(scale.Status.Replicas).To(Equal(int32(3)))
	scale.Spec.Replicas = 2
	t.Expect(t.Client.SubResource("scale").Update(t.Context(), d, client.WithSubResourceBody(scale))).To(Succeed())
	t.until(d, "the scale is taken over", func() error {
		if d.Spec.Replicas != 2 {
			return fmt.Errorf("spec.replicas is %d", d.Spec.Replicas)
		}
		return nil
	})
	want := uids(machines)
	delete(want, victim.UID)
	t.Expect(uids(t.settled(d))).To(Equal(want))
}

// held keeps a Machine until the trial lets it go.
const held = "example.com/held"

// freeze makes a deployment whose set has too many machines and wants another one, because
// those that shall go are held. It has two replicas, and the limit is 4.
func (t *trial) freeze() (*machinev1.MachineDeployment, *machinev1.MachineSet) {
	t.Helper()
	d := t.deployment(t.class("v1"), 4, "0", "1", func(d *machinev1.MachineDeployment) {
		d.Spec.Template.Finalizers = []string{held}
	})
	t.settled(d)
	t.edit(d, func() { d.Spec.Replicas = 1 })
	t.until(d, "the surplus is going", func() error {
		machines, err := t.Machines(t.Context(), d.Name)
		going := 0
		for i := range machines {
			if !machines[i].DeletionTimestamp.IsZero() {
				going++
			}
		}
		if err == nil && going != 3 {
			err = fmt.Errorf("%d machines are going, want 3", going)
		}
		return err
	})
	t.edit(d, func() { d.Spec.Replicas = 2 })
	t.until(d, "the deployment is frozen", func() error { return frozenIs(d, true) })
	set := t.sets(d)[0]
	t.until(&set, "the set is frozen", func() error {
		if set.Labels[machinev1.FreezeLabel] != "True" || len(set.Status.Conditions) != 1 ||
			set.Status.Conditions[0].Type != machinev1.MachineSetFrozen ||
			set.Status.Conditions[0].Reason != machinev1.ReasonOverShooting {
			return fmt.Errorf("labels %v, conditions %v", set.Labels, set.Status.Conditions)
		}
		return nil
	})
	t.heard(&set, machinev1.EventFrozeMachineSet)
	return d, &set
}

// frozenIs compares label and condition of a deployment.
func frozenIs(d *machinev1.MachineDeployment, want bool) error {
	condition := false
	for _, c := range d.Status.Conditions {
		if c.Type == machinev1.MachineDeploymentFrozen {
			condition = c.Status == machinev1.ConditionTrue && c.Reason == machinev1.ReasonOverShooting
		}
	}
	if label := d.Labels[machinev1.FreezeLabel] == "True"; label != want || condition != want {
		return fmt.Errorf("label %t, condition %t, want %t", label, condition, want)
	}
	return nil
}

// free lets the held machines that are being deleted go, or all of them.
func (t *trial) free(d *machinev1.MachineDeployment, all bool) {
	t.Helper()
	machines, err := t.Machines(t.Context(), d.Name)
	t.Expect(err).NotTo(HaveOccurred())
	for i := range machines {
		if m := &machines[i]; all || !m.DeletionTimestamp.IsZero() {
			t.edit(m, func() {
				var others []string
				for _, f := range m.Finalizers {
					if f != held {
						others = append(others, f)
					}
				}
				m.Finalizers = others
			})
		}
	}
}

// freezeItself: a set with too many machines makes none, and does so again by
// itself when they are gone.
func (t *trial) freezeItself() {
	d, set := t.freeze()
	t.says(set, machinev1.ConditionReplicasReady, metav1.ConditionFalse, machinev1.ReasonFrozen,
		machinev1.UnfreezeAnnotation)
	t.says(d, machinev1.ConditionReplicasReady, metav1.ConditionFalse, machinev1.ReasonFrozen, set.Name)
	machines, err := t.Machines(t.Context(), d.Name)
	t.Expect(err).NotTo(HaveOccurred())
	t.Expect(machines).To(HaveLen(4), "nothing was made")
	t.free(d, false)
	t.until(d, "the deployment is unfrozen", func() error { return frozenIs(d, false) })
	t.heard(set, machinev1.EventUnfrozeMachineSet)
	t.settled(d)
	t.free(d, true)
}

// unfreezeByHand: a person may unfreeze a deployment that still has too many.
func (t *trial) unfreezeByHand() {
	d, set := t.freeze()
	t.says(set, machinev1.ConditionReplicasReady, metav1.ConditionFalse, machinev1.ReasonFrozen)
	t.edit(d, func() { d.Annotations = with(d.Annotations, machinev1.UnfreezeAnnotation, "true") })
	t.until(d, "the deployment is unfrozen", func() error {
		if _, ok := d.Annotations[machinev1.UnfreezeAnnotation]; ok {
			return errors.New("the annotation is still there")
		}
		return frozenIs(d, false)
	})
	t.heard(set, machinev1.EventUnfrozeMachineSet)
	t.until(d, "the missing machine is made", func() error {
		if d.Status.AvailableReplicas != 2 || d.Status.Replicas != 5 {
			return fmt.Errorf("%d of %d machines are available", d.Status.AvailableReplicas, d.Status.Replicas)
		}
		return nil
	})
	t.free(d, true)
	t.settled(d)
}

// autoPreserve: as many failed machines as wanted are kept, the others replaced.
func (t *trial) autoPreserve() {
	d := t.deployment(t.class("v1"), 2, "1", "0", func(d *machinev1.MachineDeployment) {
		d.Spec.AutoPreserveFailedMachineMax = 1
		d.Spec.Template.Spec.MachineConfiguration = &machinev1.MachineConfiguration{MachineHealthTimeout: lasting(1)}
	})
	machines := t.settled(d)
	first, second := &machines[0], &machines[1]
	t.kubelet(first, map[string]any{"ready": false})
	t.until(first, "the failed machine is kept", func() error {
		if first.Status.CurrentStatus.Phase != machinev1.MachineFailed ||
			first.Status.CurrentStatus.PreserveExpiryTime == nil ||
			first.Annotations[machinev1.PreserveAnnotation] != machinev1.PreserveAuto {
			return fmt.Errorf("phase %s, annotations %v, expiry %v", first.Status.CurrentStatus.Phase, first.Annotations,
				first.Status.CurrentStatus.PreserveExpiryTime)
		}
		return nil
	})
	t.until(d, "it is counted as kept", func() error {
		if d.Status.PreservedFailedReplicas != 1 {
			return fmt.Errorf("preservedFailedReplicas is %d", d.Status.PreservedFailedReplicas)
		}
		return nil
	})
	t.kubelet(second, map[string]any{"ready": false})
	t.goes(second)
	t.eventually("the other one is replaced", func(ctx context.Context) error {
		now, err := t.Machines(ctx, d.Name)
		if err != nil {
			return err
		}
		running, kept := 0, 0
		for i := range now {
			if now[i].Status.CurrentStatus.Phase == machinev1.MachineRunning {
				running++
			}
			if equality.Semantic.DeepEqual(now[i].UID, first.UID) && now[i].DeletionTimestamp.IsZero() {
				kept++
			}
		}
		if running != 1 || kept != 1 {
			return fmt.Errorf("%d Running, %d kept", running, kept)
		}
		return nil
	})
}
