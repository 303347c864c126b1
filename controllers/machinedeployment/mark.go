package machinedeployment

import (
	"context"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/message"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/rollout"
)

// markForDeletion marks the machines that a scaler has listed, so that their sets
// delete them first, removes marks from machines that are no longer listed, and
// drops entries of the list that are done. After it has marked a machine it is
// not ready: the sets may only be scaled in once the caches show the marks to
// their controller, or they would delete other machines.
func (s *scope) markForDeletion(ctx context.Context) (bool, error) {
	requests, malformed := rollout.ParseDeletionRequests(
		s.d.Annotations[machinev1.TriggerDeletionAnnotation], s.lastScalerChange())
	for _, entry := range malformed {
		s.emitWarning(machinev1.ReasonInvalidSpec,
			"Annotation %s: entry %q is dropped; entries are machine~2006-01-02T15:04:05Z",
			machinev1.TriggerDeletionAnnotation, message.Truncate(entry, maxQuoted))
	}
	machines := s.machinesByName()
	open := slices.DeleteFunc(requests, func(r rollout.DeletionRequest) bool {
		return !s.isOpen(ctx, r, machines[r.Name])
	})
	marked, err := s.markMachines(ctx, open)
	if err != nil {
		return false, err
	}
	s.setDeletionRequests(open)
	if err := s.patchDeployment(ctx); err != nil {
		return false, err
	}
	if marked {
		s.requeue = staleCacheRetry // the watch events of the machines come sooner
	}
	return !marked, nil
}

// lastScalerChange returns when the scaler last changed the replicas; now if that is unknown.
func (s *scope) lastScalerChange() time.Time {
	at, err := time.Parse(time.RFC3339, s.d.Annotations[machinev1.LastReplicaChangeByScalerAnnotation])
	if err != nil {
		return s.now
	}
	return at
}

// machinesByName returns the machines of the deployment by name.
func (s *scope) machinesByName() map[string]*machinev1.Machine {
	all := map[string]*machinev1.Machine{}
	for _, o := range s.sets {
		for _, m := range o.machines {
			all[m.Name] = m
		}
	}
	return all
}

// isOpen reports whether a listed machine still has to be deleted. m is nil if the
// deployment has no such machine; MCM marks it even if another deployment has it.
func (s *scope) isOpen(ctx context.Context, r rollout.DeletionRequest, m *machinev1.Machine) bool {
	if m == nil {
		err := s.Client.Get(ctx, client.ObjectKey{Namespace: s.d.Namespace, Name: r.Name}, &machinev1.Machine{})
		if err == nil {
			s.emitWarning(machinev1.ReasonInvalidSpec,
				"Annotation %s: machine %q is dropped; it does not belong to this deployment",
				machinev1.TriggerDeletionAnnotation, r.Name)
		}
		return false
	}
	return m.DeletionTimestamp.IsZero() && m.Status.CurrentStatus.Phase != machinev1.MachineFailed &&
		m.Status.CurrentStatus.Phase != machinev1.MachineTerminating
}

// markMachines sets and removes the marks of all machines, and reports whether one
// was changed.
func (s *scope) markMachines(ctx context.Context, open []rollout.DeletionRequest) (bool, error) {
	requestedAt := map[string]string{}
	for _, r := range open {
		requestedAt[r.Name] = r.RequestedAt
	}
	changed := false
	for _, o := range s.sets {
		for _, m := range o.live() {
			marked := s.withDeletionMark(m, requestedAt[m.Name])
			if marked == nil {
				continue
			}
			changed = true
			if err := s.patchMachine(ctx, m, marked); err != nil {
				return changed, err
			}
		}
	}
	return changed, nil
}

// withDeletionMark returns a copy of the machine with the right marks; nil if it
// has them. requestedAt is "" for a machine that is not listed. Only marks with a
// time are removed: a priority alone may be a user's. Failed machines keep their
// marks: they are not listed because they are replaced anyway.
func (s *scope) withDeletionMark(m *machinev1.Machine, requestedAt string) *machinev1.Machine {
	listed := requestedAt != ""
	_, timed := m.Annotations[machinev1.MarkedForDeletionAnnotation]
	marked := timed && m.Annotations[machinev1.PriorityAnnotation] == machinev1.HighestPriority
	if listed == marked || !listed && m.Status.CurrentStatus.Phase == machinev1.MachineFailed {
		return nil
	}
	changed := m.DeepCopy()
	if listed {
		machinev1.SetAnnotation(changed, machinev1.PriorityAnnotation, machinev1.HighestPriority)
		if !timed {
			machinev1.SetAnnotation(changed, machinev1.MarkedForDeletionAnnotation, requestedAt)
		}
		return changed
	}
	priority, ok := s.d.Spec.Template.Annotations[machinev1.PriorityAnnotation]
	if !ok {
		priority = machinev1.DefaultPriority
	}
	machinev1.SetAnnotation(changed, machinev1.PriorityAnnotation, priority)
	delete(changed.Annotations, machinev1.MarkedForDeletionAnnotation)
	return changed
}

// setDeletionRequests writes the open requests back into the annotation. The sets
// compare them with the time of the scaler's last change, so there must be one.
func (s *scope) setDeletionRequests(open []rollout.DeletionRequest) {
	if len(open) == 0 {
		delete(s.desired.Annotations, machinev1.TriggerDeletionAnnotation)
		return
	}
	entries := make([]string, len(open))
	for i, r := range open {
		entries[i] = r.String()
	}
	machinev1.SetAnnotation(s.desired, machinev1.TriggerDeletionAnnotation, strings.Join(entries, ","))
	if s.d.Annotations[machinev1.LastReplicaChangeByScalerAnnotation] == "" {
		machinev1.SetAnnotation(s.desired, machinev1.LastReplicaChangeByScalerAnnotation, s.now.UTC().Format(time.RFC3339))
	}
}
