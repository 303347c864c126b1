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

// A choice is a machine that a scaler wants to be deleted first, and since when.
type choice struct{ name, since string }

func (c choice) String() string { return c.name + "~" + c.since }

// parseChoices reads the annotation trigger-deletion: entries "name~time", or
// only names from scalers of old, which get the time legacy. malformed are the
// others.
func parseChoices(value string, legacy time.Time) (choices []choice, malformed []string) {
	for entry := range strings.SplitSeq(value, ",") {
		entry = strings.TrimSpace(entry)
		name, since, timed := strings.Cut(entry, "~")
		switch {
		case entry == "":
		case !timed:
			choices = append(choices, choice{name, legacy.UTC().Format(time.RFC3339)})
		case name == "" || !isTime(since):
			malformed = append(malformed, entry)
		default:
			choices = append(choices, choice{name, since})
		}
	}
	return choices, malformed
}

// choose marks the machines that a scaler has chosen, so that their sets delete
// them first, takes marks back from machines that it no longer wants to go, and
// drops entries from its list that are done. It is not ready in a pass that has
// marked: the sets may only shrink when the marks are in the cache that their
// controller reads too, or they would delete others.
func (p *pass) choose(ctx context.Context) (bool, error) {
	choices, malformed := parseChoices(p.d.Annotations[machinev1.TriggerDeletionAnnotation], p.scaledAt())
	for _, entry := range malformed {
		p.warn(machinev1.ReasonInvalidSpec, "Annotation %s: entry %q is dropped; entries are machine~2006-01-02T15:04:05Z",
			machinev1.TriggerDeletionAnnotation, shorten(entry))
	}
	machines := p.ours()
	open := slices.DeleteFunc(choices, func(c choice) bool { return !p.due(ctx, c, machines[c.name]) })
	marked, err := p.mark(ctx, open)
	if err != nil {
		return false, err
	}
	p.writeChoices(open)
	if err := p.saveDeployment(ctx); err != nil {
		return false, err
	}
	if marked {
		p.wait = behindRetry // the machines' own events come sooner
	}
	return !marked, nil
}

// scaledAt is when the scaler last changed the replicas; now if that is unknown.
func (p *pass) scaledAt() time.Time {
	at, err := time.Parse(time.RFC3339, p.d.Annotations[machinev1.LastReplicaChangeByScalerAnnotation])
	if err != nil {
		return p.now
	}
	return at
}

// ours returns the machines of the deployment by name.
func (p *pass) ours() map[string]*machinev1.Machine {
	all := map[string]*machinev1.Machine{}
	for _, o := range p.pools {
		for _, m := range o.machines {
			all[m.Name] = m
		}
	}
	return all
}

// due says that a chosen machine is still to go. m is nil if the deployment has
// no such machine; MCM marks it even if it is another's.
func (p *pass) due(ctx context.Context, c choice, m *machinev1.Machine) bool {
	if m == nil {
		err := p.Client.Get(ctx, client.ObjectKey{Namespace: p.d.Namespace, Name: c.name}, &machinev1.Machine{})
		if err == nil {
			p.warn(machinev1.ReasonInvalidSpec, "Annotation %s: machine %q is dropped; it does not belong to this deployment",
				machinev1.TriggerDeletionAnnotation, c.name)
		}
		return false // without it, it is just gone
	}
	return m.DeletionTimestamp.IsZero() && m.Status.CurrentStatus.Phase != machinev1.MachineFailed &&
		m.Status.CurrentStatus.Phase != machinev1.MachineTerminating
}

// mark brings the marks of all machines in line with the choices, and says
// whether one was changed.
func (p *pass) mark(ctx context.Context, open []choice) (bool, error) {
	chosen := map[string]string{}
	for _, c := range open {
		chosen[c.name] = c.since
	}
	changed := false
	for _, o := range p.pools {
		for _, m := range o.live() {
			wanted := p.marks(m, chosen[m.Name])
			if wanted == nil {
				continue
			}
			changed = true
			if err := p.released(ctx); err != nil {
				return changed, err
			}
			if err := p.Client.Patch(ctx, wanted, client.MergeFrom(m)); client.IgnoreNotFound(err) != nil {
				return changed, fmt.Errorf("mark machine %s: %w", m.Name, err)
			}
		}
	}
	return changed, nil
}

// marks returns the machine with its marks as they shall be, nil if they are.
// since is when it was chosen, empty if it is not. Only marks that have a time
// are taken back: a priority alone may be somebody else's. Failed machines keep
// theirs; they are off the list because they go anyway.
func (p *pass) marks(m *machinev1.Machine, since string) *machinev1.Machine {
	chosen := since != ""
	_, timed := m.Annotations[machinev1.MarkedForDeletionAnnotation]
	marked := timed && m.Annotations[machinev1.PriorityAnnotation] == machinev1.HighestPriority
	if chosen == marked || !chosen && m.Status.CurrentStatus.Phase == machinev1.MachineFailed {
		return nil
	}
	wanted := m.DeepCopy()
	if chosen {
		annotate(wanted, machinev1.PriorityAnnotation, machinev1.HighestPriority)
		if !timed {
			annotate(wanted, machinev1.MarkedForDeletionAnnotation, since)
		}
		return wanted
	}
	priority, ok := p.d.Spec.Template.Annotations[machinev1.PriorityAnnotation]
	if !ok {
		priority = machinev1.DefaultPriority
	}
	annotate(wanted, machinev1.PriorityAnnotation, priority)
	delete(wanted.Annotations, machinev1.MarkedForDeletionAnnotation)
	return wanted
}

// writeChoices puts the open choices back into the annotation. The sets compare
// them with the time of the last scaling, so there must be one.
func (p *pass) writeChoices(open []choice) {
	if len(open) == 0 {
		delete(p.want.Annotations, machinev1.TriggerDeletionAnnotation)
		return
	}
	entries := make([]string, len(open))
	for i, c := range open {
		entries[i] = c.String()
	}
	annotate(p.want, machinev1.TriggerDeletionAnnotation, strings.Join(entries, ","))
	if p.d.Annotations[machinev1.LastReplicaChangeByScalerAnnotation] == "" {
		annotate(p.want, machinev1.LastReplicaChangeByScalerAnnotation, p.now.UTC().Format(time.RFC3339))
	}
}
