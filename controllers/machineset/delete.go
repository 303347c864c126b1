package machineset

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// deleteMachines asks for the deletion of machines, at most burst of them. A machine
// that has changed since it was looked at is spared: it may have recovered, or
// belong to another set. It is looked at again soon.
func (c *Controller) deleteMachines(ctx context.Context, s *scope, machines []*machinev1.Machine) error {
	var names []string
	var spared, failure error
	for _, m := range machines[:min(len(machines), burstReplicas)] {
		err := c.deleteMachine(ctx, s, m)
		if apierrors.IsConflict(err) {
			spared = err
			continue
		}
		if err != nil {
			failure = c.emitFailureEvent(s, machinev1.EventFailedDelete, "Error deleting", err)
			break
		}
		names = append(names, m.Name)
	}
	c.emitMachinesEvent(s, machinev1.EventSuccessfulDelete, "Deleted machine", "Deleted Machines", names)
	return errors.Join(failure, spared)
}

func (c *Controller) deleteMachine(ctx context.Context, s *scope, m *machinev1.Machine) error {
	preconditions := client.Preconditions{UID: &m.UID}
	if s.set.DeletionTimestamp.IsZero() {
		preconditions.ResourceVersion = &m.ResourceVersion
	}
	err := c.Client.Delete(ctx, m.DeepCopy(), preconditions)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete Machine %s: %w", m.Name, err)
	}
	if m.Status.CurrentStatus.Phase == machinev1.MachineFailed &&
		m.Status.LastOperation.Type == machinev1.MachineOperationHealthCheck {
		StaleMachines.Inc()
	}
	s.replaceMachine(s.memory.recordDelete(m, s.now))
	return nil
}

// deleteSet deletes the machines of a set that is being deleted, and lets the set
// go once the API server has none left. Machines that shall outlive the set are
// left to the garbage collector, which takes their owner away.
func (c *Controller) deleteSet(ctx context.Context, s *scope) error {
	if controllerutil.ContainsFinalizer(s.set, metav1.FinalizerOrphanDependents) {
		return nil
	}
	if err := c.confirmNotHeld(ctx, s); err != nil {
		return err
	}
	var synced error
	if !s.invalid() {
		synced = c.syncMachines(ctx, s)
	}
	if len(s.machines) > 0 {
		s.scaleErr = c.deleteMachines(ctx, s, active(s.machines))
		return errors.Join(s.scaleErr, synced)
	}
	if !controllerutil.ContainsFinalizer(s.set, machinev1.Finalizer) {
		return nil
	}
	left, err := c.countLiveMachines(ctx, s)
	if err != nil {
		return err
	}
	if left > 0 {
		return errCacheStale("Machines of the MachineSet are still there")
	}
	return c.removeFinalizer(ctx, s)
}

// countLiveMachines counts the set's machines on the API server. What is asked for is a
// machine that the cache does not show yet, and so has the labels that the set
// gave it; one that lost them meanwhile goes with its owner, to the garbage
// collector. To read all machines of the namespace would cost the square of their
// number where many sets are deleted. A set without a selector has to.
func (c *Controller) countLiveMachines(ctx context.Context, s *scope) (int, error) {
	which := s.selector
	if which == nil {
		which = labels.Everything()
	}
	list := &machinev1.MachineList{}
	err := c.Live.List(ctx, list, client.InNamespace(s.set.Namespace), client.MatchingLabelsSelector{Selector: which})
	if err != nil {
		return 0, fmt.Errorf("count Machines on the API server: %w", err)
	}
	count := 0
	for i := range list.Items {
		if metav1.IsControlledBy(&list.Items[i], s.set) {
			count++
		}
	}
	return count, nil
}

// removeFinalizer takes the finalizer away. The set may be gone right afterwards.
func (c *Controller) removeFinalizer(ctx context.Context, s *scope) error {
	err := c.patchSet(ctx, s, func(set *machinev1.MachineSet) { controllerutil.RemoveFinalizer(set, machinev1.Finalizer) })
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	c.marks.Ended(s.set)
	s.finalizerRemoved = true
	return nil
}
