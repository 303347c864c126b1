package integration

import (
	"context"
	"errors"
	"fmt"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/test/stack"
)

var rolloutTrials = []trialCase{
	{"Recreate", (*trial).recreate},
	{"Pause", (*trial).pause},
	{"Rollback", (*trial).rollback},
	{"RevisionHistoryLimit", (*trial).revisionHistory},
	{"ProgressDeadline", (*trial).progressDeadline},
	{"TemplateLabelRolls", (*trial).templateLabel},
	{"SettingsDoNotRoll", (*trial).settingsInPlace},
	{"RolloutMarks", (*trial).rolloutMarks},
}

// recreate: no new machine is made before the last old one is gone.
func (t *trial) recreate() {
	v1, v2 := t.class("v1"), t.class("v2")
	d := t.deployment(v1, 2, "0", "0", func(d *machinev1.MachineDeployment) {
		d.Spec.Strategy = machinev1.MachineDeploymentStrategy{Type: machinev1.RecreateStrategyType}
	})
	t.settled(d)
	t.edit(d, func() { d.Spec.Template.Spec.Class.Name = v2 })
	t.eventually("machines are recreated", func(ctx context.Context) error {
		machines, err := t.Machines(ctx, d.Name)
		if err != nil {
			return err
		}
		old, fresh := 0, 0
		for i := range machines {
			if machines[i].Spec.Class.Name == v1 {
				old++
			} else {
				fresh++
			}
		}
		if old > 0 && fresh > 0 {
			return stack.Fatal(fmt.Errorf("%d old and %d new machines exist at once", old, fresh))
		}
		if fresh != 2 {
			return fmt.Errorf("%d old and %d new machines", old, fresh)
		}
		return nil
	})
	t.settled(d)
	t.reaches(d, machinev1.ConditionTrue, machinev1.ReasonNewMachineSetAvailable)
}

// pause: a paused deployment scales, and does not roll.
func (t *trial) pause() {
	v1, v2 := t.class("v1"), t.class("v2")
	d := t.deployment(v1, 1, "1", "0")
	first := t.settled(d)
	t.edit(d, func() {
		d.Spec.Paused = true
		d.Spec.Template.Spec.Class.Name = v2
	})
	t.reaches(d, machinev1.ConditionUnknown, machinev1.ReasonDeploymentPaused)
	t.edit(d, func() { d.Spec.Replicas = 2 })
	t.eventually("the old set is scaled", func(ctx context.Context) error {
		machines, err := t.Machines(ctx, d.Name)
		if err != nil || len(machines) != 2 {
			return fmt.Errorf("%d machines: %w", len(machines), err)
		}
		for i := range machines {
			if machines[i].Spec.Class.Name != v1 {
				return stack.Fatal(errors.New("a machine of the new class was made"))
			}
			if machines[i].Status.CurrentStatus.Phase != machinev1.MachineRunning {
				return errors.New("not all are Running")
			}
		}
		return nil
	})
	t.Expect(t.sets(d)).To(HaveLen(1))
	t.edit(d, func() { d.Spec.Paused = false })
	for _, m := range t.settled(d) {
		t.Expect(m.UID).NotTo(Equal(first[0].UID))
	}
	t.reaches(d, machinev1.ConditionTrue, machinev1.ReasonNewMachineSetAvailable)
}

// rollback: to a revision, to the last one, and to one that does not exist.
func (t *trial) rollback() {
	v1, v2 := t.class("v1"), t.class("v2")
	d := t.deployment(v1, 1, "1", "0")
	t.settled(d)
	before := t.sets(d)
	t.edit(d, func() { d.Spec.Template.Spec.Class.Name = v2 })
	t.settled(d)
	t.edit(d, func() { d.Spec.RollbackTo = &machinev1.RollbackConfig{Revision: 1} })
	t.heard(d, machinev1.EventDeploymentRollback, "revision 1")
	t.until(d, "the template is that of revision 1", func() error {
		if d.Spec.RollbackTo != nil || d.Spec.Template.Spec.Class.Name != v1 {
			return fmt.Errorf("class %s, rollbackTo %v", d.Spec.Template.Spec.Class.Name, d.Spec.RollbackTo)
		}
		return nil
	})
	machines := t.settled(d)
	t.Expect(metav1.GetControllerOf(&machines[0]).Name).To(Equal(before[0].Name), "the set of revision 1 is used again")
	t.Expect(t.sets(d)).To(HaveLen(2))

	t.edit(d, func() { d.Spec.RollbackTo = &machinev1.RollbackConfig{Revision: 99} })
	t.heard(d, machinev1.EventRollbackRevisionNotFound, "99")
	t.until(d, "the request is cleared", func() error {
		if d.Spec.RollbackTo != nil {
			return errors.New("it is still there")
		}
		return nil
	})
	t.Expect(uids(t.settled(d))).To(Equal(uids(machines)))

	t.edit(d, func() { d.Spec.RollbackTo = &machinev1.RollbackConfig{} })
	t.until(d, "the last revision is back", func() error {
		if d.Spec.RollbackTo != nil || d.Spec.Template.Spec.Class.Name != v2 {
			return fmt.Errorf("class %s", d.Spec.Template.Spec.Class.Name)
		}
		return nil
	})
	t.settled(d)
}

// revisionHistory: old sets beyond the limit go, the oldest first.
func (t *trial) revisionHistory() {
	class := t.class("v1")
	d := t.deployment(class, 1, "1", "0", func(d *machinev1.MachineDeployment) {
		d.Spec.RevisionHistoryLimit = ptr.To[int32](1)
	})
	t.settled(d)
	oldest := t.sets(d)[0]
	for _, revision := range []string{"2", "3"} {
		t.edit(d, func() { d.Spec.Template.Annotations = map[string]string{"revision": revision} })
		t.settled(d)
	}
	t.goes(&oldest)
	t.eventually("one old set is kept", func(context.Context) error {
		if sets := t.sets(d); len(sets) != 2 || sets[0].Spec.Template.Annotations["revision"] != "2" {
			return fmt.Errorf("%d sets", len(sets))
		}
		return nil
	})
}

// progressDeadline: a rollout that does not proceed says so, and recovers.
func (t *trial) progressDeadline() {
	const zone, kind = "sim-1b", "gpu"
	v1, v2, v3 := t.class("v1"), t.class("v2", placed(zone, kind)), t.class("v3")
	t.capacity(zone, kind, 0)
	d := t.deployment(v1, 1, "1", "0", func(d *machinev1.MachineDeployment) {
		d.Spec.ProgressDeadlineSeconds = ptr.To[int32](3)
	})
	old := t.settled(d)
	t.edit(d, func() { d.Spec.Template.Spec.Class.Name = v2 })
	t.reaches(d, machinev1.ConditionFalse, machinev1.ReasonProgressDeadlineExceeded)
	t.Expect(t.Client.Get(t.Context(), namespaced(old[0].Name), &old[0])).To(Succeed())
	t.Expect(old[0].DeletionTimestamp).To(BeNil(), "the old machine is needed")
	t.says(d, machinev1.ConditionReplicasReady, metav1.ConditionFalse, machinev1.ReasonScalingUp, "capacity")
	machines, err := t.Machines(t.Context(), d.Name)
	t.Expect(err).NotTo(HaveOccurred())
	for i := range machines {
		if m := &machines[i]; m.Spec.Class.Name == v2 {
			t.says(m, machinev1.ConditionVMReady, metav1.ConditionFalse, machinev1.ReasonCapacityExhausted)
			t.Expect(m.Status.LastOperation.ErrorCode).To(Equal("ResourceExhausted"), "autoscalers look for it")
			t.Expect(m.Status.CurrentStatus.Phase).To(Equal(machinev1.MachineCrashLoopBackOff))
		}
	}
	t.edit(d, func() { d.Spec.Template.Spec.Class.Name = v3 })
	t.settled(d)
	t.reaches(d, machinev1.ConditionTrue, machinev1.ReasonNewMachineSetAvailable)
}

// templateLabel: a changed label of the template replaces all machines.
func (t *trial) templateLabel() {
	class := t.class("v1")
	d := t.deployment(class, 2, "1", "1")
	before := uids(t.settled(d))
	t.edit(d, func() { d.Spec.Template.Labels["colour"] = "blue" })
	t.eventually("all machines are new", func(ctx context.Context) error {
		machines, err := t.Machines(ctx, d.Name)
		if err != nil {
			return err
		}
		for i := range machines {
			if before[machines[i].UID] {
				return fmt.Errorf("%s is still there", machines[i].Name)
			}
		}
		return nil
	})
	for _, m := range t.settled(d) {
		t.Expect(m.Labels).To(HaveKeyWithValue("colour", "blue"))
	}
	t.Expect(t.sets(d)).To(HaveLen(2))
}

// settingsInPlace: the node template and the timeouts reach the machines that
// are there.
func (t *trial) settingsInPlace() {
	class := t.class("v1")
	d := t.deployment(class, 2, "1", "0")
	before := uids(t.settled(d))
	t.edit(d, func() {
		spec := &d.Spec.Template.Spec
		spec.NodeTemplateSpec.Labels["colour"] = "blue"
		spec.NodeTemplateSpec.Annotations = map[string]string{"note": "kept"}
		spec.NodeTemplateSpec.Spec.Taints = []corev1.Taint{{
			Key: "dedicated", Value: "tests",
			Effect: corev1.TaintEffectNoSchedule,
		}}
		spec.MachineConfiguration = &machinev1.MachineConfiguration{MachineDrainTimeout: lasting(77)}
	})
	for _, m := range t.settled(d) {
		t.until(&m, "the machine follows", func() error {
			if c := m.Spec.MachineConfiguration; c == nil || c.MachineDrainTimeout == nil ||
				*c.MachineDrainTimeout != *lasting(77) {
				return errors.New("drainTimeout is not 77s")
			}
			return nil
		})
		node := t.node(&m)
		t.until(node, "the node follows", func() error {
			if node.Labels["colour"] != "blue" || node.Annotations["note"] != "kept" || !tainted(node, "dedicated") {
				return fmt.Errorf("labels %v, taints %v", node.Labels, node.Spec.Taints)
			}
			return nil
		})
	}
	t.Expect(uids(t.settled(d))).To(Equal(before))
	t.Expect(t.sets(d)).To(HaveLen(1))
	t.edit(d, func() {
		delete(d.Spec.Template.Spec.NodeTemplateSpec.Labels, "colour")
		d.Spec.Template.Spec.NodeTemplateSpec.Spec.Taints = nil
	})
	for _, m := range t.settled(d) {
		node := t.node(&m)
		t.until(node, "what the template had is removed", func() error {
			if node.Labels["colour"] != "" || tainted(node, "dedicated") || node.Annotations["note"] != "kept" {
				return fmt.Errorf("labels %v, taints %v", node.Labels, node.Spec.Taints)
			}
			return nil
		})
	}
	t.Expect(uids(t.settled(d))).To(Equal(before))
}

func tainted(node *corev1.Node, key string) bool {
	for _, taint := range node.Spec.Taints {
		if taint.Key == key {
			return true
		}
	}
	return false
}

// rolloutMarks: during a rollout the old nodes are marked for scheduler and
// autoscaler; afterwards nothing is left of that. A user's annotation stays.
func (t *trial) rolloutMarks() {
	v1, v2 := t.class("v1"), t.class("v2", aloof)
	d := t.deployment(v1, 2, "1", "0")
	machines := t.settled(d)
	users := t.node(&machines[0])
	t.edit(users, func() {
		users.Annotations = with(users.Annotations, machinev1.ScaleDownDisabledAnnotation, "true")
	})
	t.edit(d, func() { d.Spec.Template.Spec.Class.Name = v2 })
	marked := func(m *machinev1.Machine, want bool, byUs bool) {
		node := t.node(m)
		t.until(node, "marks of "+node.Name, func() error {
			_, mark := node.Annotations[machinev1.ScaleDownDisabledByMCMAnnotation]
			_, kept := node.Annotations[machinev1.ScaleDownDisabledAnnotation]
			if tainted(node, machinev1.PreferNoScheduleKey) != want || mark != (want && byUs) || kept != (want || !byUs) {
				return fmt.Errorf("taints %v, annotations %v", node.Spec.Taints, node.Annotations)
			}
			return nil
		})
	}
	marked(&machines[0], true, false)
	marked(&machines[1], true, true)
	// Going back ends the rollout.
	t.edit(d, func() { d.Spec.Template.Spec.Class.Name = v1 })
	marked(&machines[0], false, false)
	marked(&machines[1], false, true)
	t.Expect(uids(t.settled(d))).To(Equal(uids(machines)))
	// A rollout that ends leaves nothing on the new nodes.
	t.edit(d, func() { d.Spec.Template.Spec.Class.Name = v2 })
	for _, m := range t.settledWith(d, func() { t.join(v2, -1) }) {
		marked(&m, false, true)
	}
}

func with(all map[string]string, key, value string) map[string]string {
	if all == nil {
		all = map[string]string{}
	}
	all[key] = value
	return all
}
