package integration

import (
	"context"
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/test/stack"
)

// TestMCMFlow is the flow of MCM's own integration suite, with every assertion
// that it makes (facts: MCM pkg/test/integration/common/framework.go). It runs
// as that suite runs MCM: overshooting period 300 ms.
func TestMCMFlow(t *testing.T) {
	t.Parallel()
	s := start(t, stack.Options{}, "--machine-safety-overshooting-period=300ms")
	s.Expect(s.CreateClass(t.Context(), "test-mc-v1", "small")).To(Succeed())
	s.Expect(s.CreateClass(t.Context(), "test-mc-v2", "large")).To(Succeed())

	// 1a: a Machine without owner, labels or label name.
	machine := &machinev1.Machine{ObjectMeta: metav1.ObjectMeta{Name: "test-machine", Namespace: stack.Namespace}}
	machine.Spec.Class = machinev1.ClassSpec{Kind: machinev1.MachineClassKind, Name: "test-mc-v1"}
	machine.Spec.NodeTemplateSpec.Labels = map[string]string{"test-label": "test-label"}
	s.Expect(s.Client.Create(t.Context(), machine)).To(Succeed())
	s.nodes(1)
	// 1b: deleting it leaves nothing.
	s.Expect(s.Client.Delete(t.Context(), machine)).To(Succeed())
	s.eventually("the machine goes", func(ctx context.Context) error { return s.absent(ctx, machine) })
	s.nodes(0)
	// 1c: a machine that does not exist cannot be deleted.
	s.Expect(apierrors.IsNotFound(s.Client.Delete(t.Context(), machine))).To(BeTrue())
	s.nodes(0)

	// 2a: a deployment without replicas has exactly one set.
	d := stack.Deployment("test-machine-deployment", "test-mc-v1", 0, "2", "1")
	d.Spec.Selector.MatchLabels = map[string]string{"test-label": "test-label"}
	d.Spec.Template.Labels = map[string]string{"test-label": "test-label"}
	d.Spec.MinReadySeconds = 500
	s.Expect(s.Client.Create(t.Context(), d)).To(Succeed())
	var set machinev1.MachineSet
	s.eventually("exactly one MachineSet", func(ctx context.Context) error {
		sets, err := s.setsOf(ctx, d.Name)
		if err != nil || len(sets) != 1 {
			return fmt.Errorf("%d MachineSets: %w", len(sets), err)
		}
		set = sets[0]
		return nil
	})
	frozen := s.freezeEvents(set.Name)
	s.scale(d, 1)
	s.eventually("conditions of a deployment with one machine", func(ctx context.Context) error {
		if err := s.Client.Get(ctx, client.ObjectKeyFromObject(d), d); err != nil {
			return err
		}
		if d.Status.AvailableReplicas != 1 {
			return fmt.Errorf("availableReplicas is %d: minReadySeconds must not count", d.Status.AvailableReplicas)
		}
		want := map[machinev1.MachineDeploymentConditionType]string{
			machinev1.MachineDeploymentAvailable:   "MinimumReplicasAvailable",
			machinev1.MachineDeploymentProgressing: "NewMachineSetAvailable",
		}
		for _, c := range d.Status.Conditions {
			if c.Status != machinev1.ConditionTrue || want[c.Type] != c.Reason {
				return fmt.Errorf("condition %s is %s, %s", c.Type, c.Status, c.Reason)
			}
		}
		if len(d.Status.Conditions) != len(want) {
			return fmt.Errorf("%d conditions, want exactly %d", len(d.Status.Conditions), len(want))
		}
		return nil
	})
	s.nodes(1)
	// 2b, 2c: out and in.
	s.scale(d, 6)
	s.nodes(6)
	s.scale(d, 2)
	s.nodes(2)
	// 2d: 6 machines at 2 replicas with surge 2 and safety-up 2 froze the set
	// once, and it was unfrozen once.
	s.eventually("one freeze and one unfreeze", func(context.Context) error {
		if now := s.freezeEvents(set.Name); now != frozen+2 {
			return fmt.Errorf("%d Events of freezing and unfreezing, want %d", now, frozen+2)
		}
		return nil
	})
	// 2e: class and replicas change in one update.
	s.Expect(s.Edit(t.Context(), d, func() {
		d.Spec.Template.Spec.Class.Name = "test-mc-v2"
		d.Spec.Replicas = 4
	})).To(Succeed())
	s.eventually("4 updated machines", func(ctx context.Context) error {
		if err := s.Client.Get(ctx, client.ObjectKeyFromObject(d), d); err != nil {
			return err
		}
		if d.Status.UpdatedReplicas != 4 || d.Status.AvailableReplicas != 4 {
			return fmt.Errorf("%d updated, %d available", d.Status.UpdatedReplicas, d.Status.AvailableReplicas)
		}
		return nil
	})
	s.nodes(4)
	// 2f: deleting the deployment leaves nothing.
	s.Expect(s.Client.Delete(t.Context(), d)).To(Succeed())
	s.nodes(0)
	s.eventually("the deployment goes", func(ctx context.Context) error { return s.absent(ctx, d) })
	// Setup of the next run: the classes' finalizers are released.
	for _, name := range []string{"test-mc-v1", "test-mc-v2"} {
		c := &machinev1.MachineClass{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: stack.Namespace}}
		s.Expect(s.Client.Delete(t.Context(), c)).To(Succeed())
		s.eventually("the class goes", func(ctx context.Context) error { return s.absent(ctx, c) })
	}
	// 3: nothing is left in the cloud.
	s.eventually("an empty cloud", func(ctx context.Context) error {
		left, err := s.Cloud.Live(ctx, "")
		if err == nil && len(left) != 0 {
			return fmt.Errorf("%d resources are left", len(left))
		}
		return err
	})
}

// nodes waits for exactly that many nodes, all of them ready.
func (s *suite) nodes(want int) {
	s.Helper()
	s.eventually(fmt.Sprintf("%d ready nodes", want), func(ctx context.Context) error {
		nodes, ready, err := s.Nodes(ctx)
		if err == nil && (len(nodes) != want || ready != want) {
			return fmt.Errorf("%d nodes, %d ready", len(nodes), ready)
		}
		return err
	})
}

func (s *suite) scale(d *machinev1.MachineDeployment, replicas int32) {
	s.Helper()
	s.Expect(s.Edit(s.Context(), d, func() { d.Spec.Replicas = replicas })).To(Succeed())
}

// setsOf returns the MachineSets that a MachineDeployment controls.
func (s *suite) setsOf(ctx context.Context, name string) ([]machinev1.MachineSet, error) {
	var list machinev1.MachineSetList
	if err := s.Client.List(ctx, &list, client.InNamespace(stack.Namespace)); err != nil {
		return nil, err
	}
	var found []machinev1.MachineSet
	for _, set := range list.Items {
		if len(set.OwnerReferences) > 0 && set.OwnerReferences[0].Name == name {
			found = append(found, set)
		}
	}
	return found, nil
}

// freezeEvents counts Event objects about a set, as MCM's suite does.
func (s *suite) freezeEvents(set string) int {
	s.Helper()
	count := 0
	for _, reason := range []string{"FrozeMachineSet", "UnfrozeMachineSet"} {
		events, err := s.Events(s.Context(), reason, set)
		s.Expect(err).NotTo(HaveOccurred())
		count += len(events)
	}
	return count
}

// absent returns nil when an object is gone, also if another one has its name by now: a
// deployment gives the set that replaces a deleted one the same name. One that is
// there still is read into o.
func (s *suite) absent(ctx context.Context, o client.Object) error {
	uid := o.GetUID() // empty if whoever has the name is meant
	err := s.Client.Get(ctx, client.ObjectKeyFromObject(o), o)
	switch {
	case apierrors.IsNotFound(err), err == nil && uid != "" && o.GetUID() != uid:
		return nil
	case err == nil:
		return fmt.Errorf("%s is still there", o.GetName())
	}
	return err
}
