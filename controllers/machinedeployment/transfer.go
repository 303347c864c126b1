package machinedeployment

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// transferMachines moves the machines that were updated in place to the current set, each
// with one write. The replicas follow in the next pass; see count. A set whose
// size changes before the cache shows its controller that the machine has moved
// would delete a machine for it, or make one. Until then the label that the
// machine carries keeps it from being surplus in its new set, and its old set
// makes none.
func (s *scope) transferMachines(ctx context.Context) error {
	class, err := s.newSetClass(ctx)
	if err != nil {
		return err
	}
	for _, o := range s.oldSets() {
		for _, m := range o.live() {
			ready, err := s.transferable(ctx, m)
			if err != nil {
				return err
			}
			if !ready {
				continue
			}
			if err := s.transferMachine(ctx, m, o, class); err != nil {
				return err
			}
		}
	}
	return nil
}

// transferable says that a machine's node was updated, and that both the
// machine and the node say so.
func (s *scope) transferable(ctx context.Context, m *machinev1.Machine) (bool, error) {
	if m.Status.CurrentStatus.Phase == machinev1.MachineInPlaceUpdating ||
		!slices.ContainsFunc(m.Status.Conditions, updateSuccessful) {
		return false, nil
	}
	node, err := s.node(ctx, m)
	if err != nil || node == nil {
		return false, err
	}
	return node.Labels[machinev1.UpdateResultLabel] == machinev1.UpdateSuccessful, nil
}

func updateSuccessful(c corev1.NodeCondition) bool {
	return c.Type == machinev1.NodeInPlaceUpdate && c.Reason == machinev1.ReasonUpdateSuccessful
}

// transferMachine gives a machine to the current set: owner, labels and class. A machine
// that has changed since it was read may have moved already, so it is not
// written then.
func (s *scope) transferMachine(ctx context.Context, m *machinev1.Machine, from *ownedSet, class *machinev1.MachineClass) error {
	if err := s.confirmNotHeld(ctx); err != nil {
		return err
	}
	moved := m.DeepCopy()
	to := s.newSet.observed
	owner := *metav1.NewControllerRef(to, machinev1.GroupVersion.WithKind(machinev1.MachineSetKind))
	moved.OwnerReferences = slices.DeleteFunc(moved.OwnerReferences, func(r metav1.OwnerReference) bool {
		return r.UID == from.observed.UID
	})
	moved.OwnerReferences = append([]metav1.OwnerReference{owner}, moved.OwnerReferences...)
	if s := from.observed.Spec.Selector; s != nil {
		for key := range s.MatchLabels {
			delete(moved.Labels, key)
		}
	}
	if s := to.Spec.Selector; s != nil {
		for key, value := range s.MatchLabels {
			setLabel(moved, key, value)
		}
	}
	setLabel(moved, machinev1.UpdateResultLabel, machinev1.UpdateSuccessful)
	if s.canTakeClass(ctx, class, m) {
		moved.Spec.Class = to.Spec.Template.Spec.Class
	}
	if err := s.Client.Patch(ctx, moved, client.MergeFromWithOptions(m,
		client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("move machine %s to %s: %w", m.Name, to.Name, err)
	}
	return nil
}

// newSetClass reads the class of the current set; nil if it is gone or going.
func (s *scope) newSetClass(ctx context.Context) (*machinev1.MachineClass, error) {
	class := &machinev1.MachineClass{}
	name := s.newSet.observed.Spec.Template.Spec.Class.Name
	err := s.Client.Get(ctx, client.ObjectKey{Namespace: s.d.Namespace, Name: name}, class)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read machine class %s: %w", name, err)
	}
	if apierrors.IsNotFound(err) || !class.DeletionTimestamp.IsZero() {
		return nil, nil //nolint:nilnil // no class is an answer here
	}
	return class, nil
}

// canTakeClass says that a machine which was updated in place may refer to the class
// of its new set from now on.
//
// MCM leaves the old class in the machine, so that it can never be removed, and
// the machine's virtual capacity stays that of the old one. The class serves a
// machine that has its VM in two ways only: it says where the VM is and with
// which credentials it is deleted. So the new class takes over where it speaks
// of the same cloud and region; elsewhere the machine keeps the old one, since
// with the new one its VM could be looked for in the wrong place and be lost.
func (s *scope) canTakeClass(ctx context.Context, class *machinev1.MachineClass, m *machinev1.Machine) bool {
	if class == nil || class.Name == m.Spec.Class.Name {
		return false
	}
	old := &machinev1.MachineClass{}
	if err := s.Client.Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: m.Spec.Class.Name}, old); err != nil {
		// A class that is gone deletes no VM. Any other failure must not move it.
		return client.IgnoreNotFound(err) == nil
	}
	return old.Provider == class.Provider && region(old) == region(class)
}

func region(c *machinev1.MachineClass) string {
	if c.NodeTemplate == nil {
		return ""
	}
	return c.NodeTemplate.Region
}
