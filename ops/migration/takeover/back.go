package takeover

import (
	"fmt"
	"strings"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/objects"
)

// backForms is about providerIDs. MCM's orphan collector compares its own form with
// what Machines say: it would delete the VM of a Machine that has another one.
func backForms(s *migration.Namespace) []migration.Finding {
	var out []migration.Finding
	for i := range s.Deployments {
		if d := &s.Deployments[i]; d.Annotations[machinev1.ProviderIDFormAnnotation] == machinev1.ProviderIDFormNode {
			out = append(out, migration.Finding{
				Level: migration.Blocked, Object: objects.Name(machinev1.MachineDeploymentKind, d), Field: "metadata.annotations[" +
					machinev1.ProviderIDFormAnnotation + "]",
				Text: "its Machines have the Node's form of providerIDs", Remedy: "remove the annotation",
			})
		}
	}
	var formed []string
	for i := range s.Machines {
		if _, there := s.Machines[i].Annotations[machinev1.ProviderIDFormAnnotation]; there {
			formed = append(formed, s.Machines[i].Name)
		}
	}
	if len(formed) > 0 {
		out = append(out, migration.Finding{
			Level: migration.Blocked, Object: firstNames(machinev1.MachineKind, formed), Field: "spec.providerID",
			Text: "they have, or may have, another form than MCM's, which would take their VMs for orphans",
			Remedy: "wait until the native API has restored it and taken annotation " + machinev1.ProviderIDFormAnnotation +
				" away",
		})
	}
	return out
}

// backMoves is about pools that are between APIs, or on the other one. MCM knows
// neither holds nor MCMMachines.
func backMoves(s *migration.Namespace, m *Managers) []migration.Finding {
	var out []migration.Finding
	for _, r := range m.records {
		if r.Phase != migration.PhaseFinished {
			out = append(out, migration.Finding{
				Level: migration.Blocked, Object: r.Pool.String(),
				Text: fmt.Sprintf("it is being moved to %s (%s); MCM would act on its Machines although they are held",
					r.To.Title(), r.Phase),
				Remedy: "roll it back, or finish the move and let the pool stay on Cluster API with its own namespace " +
					"and cluster tag",
			})
		}
	}
	var held []string
	for i := range s.Machines {
		if _, there := s.Machines[i].Annotations[machinev1.MigrationHoldAnnotation]; there {
			held = append(held, s.Machines[i].Name)
		}
	}
	if len(held) > 0 && len(out) == 0 {
		out = append(out, migration.Finding{
			Level: migration.Blocked, Object: firstNames(machinev1.MachineKind, held),
			Field: "metadata.annotations[" +
				machinev1.MigrationHoldAnnotation + "]", Text: "they are held, and MCM knows no holds",
			Remedy: "find out who holds them; remove the annotation if nobody does",
		})
	}
	var foreign []string
	for i := range s.MCMMachines {
		if o := &s.MCMMachines[i]; o.Spec.ProviderID != "" {
			foreign = append(foreign, o.Name)
		}
	}
	if len(foreign) > 0 {
		out = append(out, migration.Finding{
			Level: migration.Blocked, Object: firstNames(objects.KindMCMMachine, foreign),
			Text: "MCM does not know them: VMs that carry the tags of one of its MachineClasses and have no Machine are " +
				"orphans to it, and deleted",
			Remedy: "move them to the native API first: kubectl mcm migrate apply --to native",
		})
	}
	return out
}

// backMarks is about what the native API was told by annotations that MCM ignores.
func backMarks(s *migration.Namespace) []migration.Finding {
	var out []migration.Finding
	var making, kept []string
	for i := range s.Machines {
		m := &s.Machines[i]
		if m.Annotations[machinev1.CreateAttemptAnnotation] != "" && m.Spec.ProviderID == "" {
			making = append(making, m.Name)
		}
		if _, there := m.Annotations[machinev1.HoldAnnotation]; there {
			kept = append(kept, m.Name)
		}
	}
	if len(making) > 0 {
		out = append(out, migration.Finding{
			Level: migration.Blocked, Object: firstNames(machinev1.MachineKind, making),
			Text:   "a VM was asked for and is not on record yet; MCM may make a second one",
			Remedy: "wait until they have a providerID, or delete them",
		})
	}
	if len(kept) > 0 {
		out = append(out, migration.Finding{
			Level: migration.Blocked, Object: firstNames(machinev1.MachineKind, kept),
			Field: "metadata.annotations[" +
				machinev1.HoldAnnotation + "]", Text: "it keeps the orphan collector from their VMs, which MCM's does not know",
			Remedy: "end what it was set for, and remove it",
		})
	}
	for _, name := range objects.Keys(s.Classes) {
		class := s.Classes[name]
		if _, there := class.Annotations[machinev1.ReportOrphansAnnotation]; there {
			out = append(out, migration.Finding{
				Level: migration.Lost, Object: objects.Name(machinev1.MachineClassKind, class),
				Field: "metadata.annotations[" + machinev1.ReportOrphansAnnotation +
					"]", Text: "orphans of this class are only told about; MCM deletes them",
			})
		}
	}
	if len(s.Machines) > 0 {
		out = append(out, migration.Finding{
			Level: migration.Kept, Object: fmt.Sprintf("%d Machines", len(s.Machines)),
			Text: "annotations and status fields of this project mean nothing to MCM and do no harm; phases, steps and labels " +
				"are MCM's own",
		})
	}
	return out
}

// firstNames names the first of many objects.
func firstNames(kind string, names []string) string {
	const most = 3
	text := kind + " " + strings.Join(names[:min(most, len(names))], ", ")
	if more := len(names) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
