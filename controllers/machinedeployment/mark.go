package machinedeployment

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// A deletionRequest is a machine that a scaler wants to be deleted first, and since when.
type deletionRequest struct{ name, requestedAt string }

func (c deletionRequest) String() string { return c.name + "~" + c.requestedAt }

// parseDeletionRequests reads the annotation trigger-deletion: entries "name~time", or
// only names from scalers of old, which get the time legacy. malformed are the
// others.
func parseDeletionRequests(value string, legacy time.Time) (choices []deletionRequest, malformed []string) {
	for entry := range strings.SplitSeq(value, ",") {
		entry = strings.TrimSpace(entry)
		name, since, timed := strings.Cut(entry, "~")
		switch {
		case entry == "":
		case !timed:
			choices = append(choices, deletionRequest{name, legacy.UTC().Format(time.RFC3339)})
		case name == "" || !isTime(since):
			malformed = append(malformed, entry)
		default:
			choices = append(choices, deletionRequest{name, since})
		}
	}
	return choices, malformed
}

// markForDeletion marks the machines that a scaler has chosen, so that their sets delete
// them first, takes marks back from machines that it no longer wants to go, and
// drops entries from its list that are done. It is not ready in a pass that has
// marked: the sets may only shrink when the marks are in the cache that their
// controller reads too, or they would delete others.
func (s *scope) markForDeletion(ctx context.Context) (bool, error) {
	choices, malformed := parseDeletionRequests(s.d.Annotations[machinev1.TriggerDeletionAnnotation], s.lastScalerChange())
	for _, entry := range malformed {
		s.emitWarning(machinev1.ReasonInvalidSpec, "Annotation %s: entry %q is dropped; entries are machine~2006-01-02T15:04:05Z",
			machinev1.TriggerDeletionAnnotation, truncate(entry))
	}
	machines := s.machinesByName()
	open := slices.DeleteFunc(choices, func(c deletionRequest) bool { return !s.stillRequested(ctx, c, machines[c.name]) })
	marked, err := s.markMachines(ctx, open)
	if err != nil {
		return false, err
	}
	s.keepRequests(open)
	if err := s.patchDeployment(ctx); err != nil {
		return false, err
	}
	if marked {
		s.requeue = staleCacheRetry // the machines' own events come sooner
	}
	return !marked, nil
}

// lastScalerChange is when the scaler last changed the replicas; now if that is unknown.
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

// stillRequested says that a chosen machine is still to go. m is nil if the deployment has
// no such machine; MCM marks it even if it is another's.
func (s *scope) stillRequested(ctx context.Context, c deletionRequest, m *machinev1.Machine) bool {
	if m == nil {
		err := s.Client.Get(ctx, client.ObjectKey{Namespace: s.d.Namespace, Name: c.name}, &machinev1.Machine{})
		if err == nil {
			s.emitWarning(machinev1.ReasonInvalidSpec, "Annotation %s: machine %q is dropped; it does not belong to this deployment",
				machinev1.TriggerDeletionAnnotation, c.name)
		}
		return false // without it, it is just gone
	}
	return m.DeletionTimestamp.IsZero() && m.Status.CurrentStatus.Phase != machinev1.MachineFailed &&
		m.Status.CurrentStatus.Phase != machinev1.MachineTerminating
}

// markMachines brings the marks of all machines in line with the choices, and says
// whether one was changed.
func (s *scope) markMachines(ctx context.Context, open []deletionRequest) (bool, error) {
	chosen := map[string]string{}
	for _, c := range open {
		chosen[c.name] = c.requestedAt
	}
	changed := false
	for _, o := range s.sets {
		for _, m := range o.live() {
			wanted := s.deletionMarked(m, chosen[m.Name])
			if wanted == nil {
				continue
			}
			changed = true
			if err := s.confirmNotHeld(ctx); err != nil {
				return changed, err
			}
			if err := s.Client.Patch(ctx, wanted, client.MergeFrom(m)); client.IgnoreNotFound(err) != nil {
				return changed, fmt.Errorf("mark machine %s: %w", m.Name, err)
			}
		}
	}
	return changed, nil
}

// deletionMarked returns the machine with its marks as they shall be, nil if they are.
// since is when it was chosen, empty if it is not. Only marks that have a time
// are taken back: a priority alone may be somebody else's. Failed machines keep
// theirs; they are off the list because they go anyway.
func (s *scope) deletionMarked(m *machinev1.Machine, since string) *machinev1.Machine {
	chosen := since != ""
	_, timed := m.Annotations[machinev1.MarkedForDeletionAnnotation]
	marked := timed && m.Annotations[machinev1.PriorityAnnotation] == machinev1.HighestPriority
	if chosen == marked || !chosen && m.Status.CurrentStatus.Phase == machinev1.MachineFailed {
		return nil
	}
	wanted := m.DeepCopy()
	if chosen {
		setAnnotation(wanted, machinev1.PriorityAnnotation, machinev1.HighestPriority)
		if !timed {
			setAnnotation(wanted, machinev1.MarkedForDeletionAnnotation, since)
		}
		return wanted
	}
	priority, ok := s.d.Spec.Template.Annotations[machinev1.PriorityAnnotation]
	if !ok {
		priority = machinev1.DefaultPriority
	}
	setAnnotation(wanted, machinev1.PriorityAnnotation, priority)
	delete(wanted.Annotations, machinev1.MarkedForDeletionAnnotation)
	return wanted
}

// keepRequests puts the open choices back into the annotation. The sets compare
// them with the time of the last scaling, so there must be one.
func (s *scope) keepRequests(open []deletionRequest) {
	if len(open) == 0 {
		delete(s.desired.Annotations, machinev1.TriggerDeletionAnnotation)
		return
	}
	entries := make([]string, len(open))
	for i, c := range open {
		entries[i] = c.String()
	}
	setAnnotation(s.desired, machinev1.TriggerDeletionAnnotation, strings.Join(entries, ","))
	if s.d.Annotations[machinev1.LastReplicaChangeByScalerAnnotation] == "" {
		setAnnotation(s.desired, machinev1.LastReplicaChangeByScalerAnnotation, s.now.UTC().Format(time.RFC3339))
	}
}
