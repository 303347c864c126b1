package machineset

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/fresh"
	"github.com/capmcm/cluster-api-provider-mcm/internal/fence"
)

// StaleMachines counts machines that were deleted because their health check
// had failed. The manager registers it.
var StaleMachines = prometheus.NewCounter(prometheus.CounterOpts{
	Name: "mcm_machine_stale_machines_total",
	Help: "Machines deleted because their health check had failed.",
})

// deleteMachines deletes Machines, at most burstReplicas of them. A Machine that
// has changed since it was read is not deleted: it may have recovered, or belong
// to another set. The next reconcile decides again.
func (c *Controller) deleteMachines(ctx context.Context, s *scope, machines []*machinev1.Machine) error {
	var names []string
	var conflict, failure error
	for _, m := range machines[:min(len(machines), burstReplicas)] {
		err := c.deleteMachine(ctx, s, m)
		if apierrors.IsConflict(err) {
			conflict = err
			continue
		}
		if err != nil {
			c.emitFailureEvent(s, machinev1.EventFailedDelete, "Error deleting", err)
			failure = err
			break
		}
		names = append(names, m.Name)
	}
	c.emitMachinesEvent(s, machinev1.EventSuccessfulDelete, "Deleted machine", "Deleted Machines", names)
	return errors.Join(failure, conflict)
}

func (c *Controller) deleteMachine(ctx context.Context, s *scope, m *machinev1.Machine) error {
	preconditions := client.Preconditions{UID: &m.UID}
	if s.set.DeletionTimestamp.IsZero() {
		preconditions.ResourceVersion = &m.ResourceVersion
	}
	err := c.Client.Delete(ctx, m.DeepCopy(), preconditions)
	s.memory.noteDelete(m, c.Clock.Now(), err)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete Machine %s: %w", m.Name, err)
	}
	if m.Status.CurrentStatus.Phase == machinev1.MachineFailed &&
		m.Status.LastOperation.Type == machinev1.MachineOperationHealthCheck {
		StaleMachines.Inc()
	}
	s.replaceMachine(s.memory.machines.Deleted(m, s.now))
	return nil
}

// noteDelete remembers a request to delete m that got no answer, and forgets it after one that did.
func (r *memory) noteDelete(m *machinev1.Machine, at time.Time, err error) {
	if err == nil || fresh.Rejected(err) {
		delete(r.deletes, m.UID)
		return
	}
	if r.deletes == nil {
		r.deletes = map[types.UID]unanswered{}
	}
	r.deletes[m.UID] = unanswered{at: at, resourceVersion: m.ResourceVersion}
}

// deletesInFlight returns those of the Machines that a request without an answer may still delete. If the
// set deleted another one instead, it could lose both.
func (s *scope) deletesInFlight(machines []*machinev1.Machine) []*machinev1.Machine {
	maps.DeleteFunc(s.memory.deletes, func(_ types.UID, d unanswered) bool { return s.now.Sub(d.at) >= fence.Reach })
	var found []*machinev1.Machine
	for _, m := range machines {
		if d, asked := s.memory.deletes[m.UID]; asked && d.resourceVersion == m.ResourceVersion {
			found = append(found, m)
		}
	}
	return found
}

// deleteSet deletes the Machines of a set that is being deleted, and removes the
// set's finalizer once the API server has none left. With the propagation policy
// Orphan it waits for the garbage collector, which removes the owner references.
func (c *Controller) deleteSet(ctx context.Context, s *scope) error {
	if controllerutil.ContainsFinalizer(s.set, metav1.FinalizerOrphanDependents) {
		return nil
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
	left, err := c.listRemainingMachines(ctx, s)
	if err != nil {
		return err
	}
	if len(left) > 0 {
		return errCacheStale("Machines of the MachineSet still exist")
	}
	return c.removeFinalizer(ctx, s)
}

// removeFinalizer removes the finalizer. The set may cease to exist with that.
func (c *Controller) removeFinalizer(ctx context.Context, s *scope) error {
	err := c.patchSet(ctx, s, func(set *machinev1.MachineSet) { controllerutil.RemoveFinalizer(set, machinev1.Finalizer) })
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	s.finalizerRemoved = true
	return nil
}
