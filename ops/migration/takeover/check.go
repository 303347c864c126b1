// Package takeover reports whether a namespace of Machine Controller Manager's can be given
// to the native API, and whether it could be given back.
package takeover

import (
	"fmt"
	"slices"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/objects"
)

// Report reports whether a namespace of Machine Controller Manager's can be given to
// the native API, and whether it could be given back.
type Report struct {
	Namespace string              `json:"namespace"`
	There     []migration.Finding `json:"there"`
	Back      []migration.Finding `json:"back"`
	Machines  int                 `json:"machines"`
}

// Safe reports whether nothing is in the way of the native API.
func (t Report) Safe() bool { return !anyBlocked(t.There) }

// BackSafe reports whether nothing is in the way of MCM, now.
func (t Report) BackSafe() bool { return !anyBlocked(t.Back) }

func anyBlocked(all []migration.Finding) bool {
	return slices.ContainsFunc(all, func(f migration.Finding) bool {
		return f.Level == migration.Blocked ||
			f.Level == migration.Lost
	})
}

// Check judges a namespace at a time. It reads nothing and changes nothing.
func Check(s *migration.Namespace, m *Managers, now time.Time) Report {
	t := Report{
		Namespace: s.Namespace, Machines: len(s.Machines), There: []migration.Finding{}, Back: []migration.Finding{},
	}
	t.There = append(t.There, takeoverLeases(s, now)...)
	t.There = append(t.There, takeoverManagers(m)...)
	t.There = append(t.There, takeoverKinds(m)...)
	t.There = append(t.There, takeoverObjects(s)...)
	t.There = append(t.There, takeoverClouds(s, m)...)
	t.There = append(t.There, takeoverSecretTypes(m.SecretTypes)...)
	t.Back = append(t.Back, backForms(s)...)
	t.Back = append(t.Back, backMoves(s, m)...)
	t.Back = append(t.Back, backMarks(s)...)
	return t
}

// takeoverLeases says who works now.
func takeoverLeases(s *migration.Namespace, now time.Time) []migration.Finding {
	out := s.ForeignLeases(now)
	for i := range out {
		out[i].Remedy = "scale its Deployment to 0 and wait until the Lease is free: the native API begins when it has both"
	}
	ours := 0
	for i := range s.Leases {
		if migration.HolderOf(&s.Leases[i], now) == migration.HolderOurs {
			ours++
		}
	}
	if ours > 0 {
		out = append(out, migration.Kept.Finding("Lease", "", "a manager of this project holds MCM's leases already", ""))
	}
	return out
}

// takeoverManagers refuses Deployments of MCM's that would come back.
func takeoverManagers(m *Managers) []migration.Finding {
	var out []migration.Finding
	for i := range m.deployments {
		d := &m.deployments[i]
		f := migration.Kept.Finding(objects.Name("Deployment", d), "", "it runs "+mcmImage(d)+", and is scaled to 0",
			"")
		if d.Spec.Replicas == nil || *d.Spec.Replicas > 0 {
			f.Level, f.Text = migration.Blocked, "it runs "+mcmImage(d)
			f.Remedy = "scale it to 0, and see that nobody scales it up again: a dependency watchdog, an operator, GitOps"
		}
		out = append(out, f)
	}
	return out
}

// takeoverKinds is about the CustomResourceDefinitions: those of MCM do, but forget
// what it does not know.
func takeoverKinds(m *Managers) []migration.Finding {
	var out []migration.Finding
	have := map[string]bool{}
	for i := range m.crds {
		crd := &m.crds[i]
		have[crd.Spec.Names.Plural] = true
		if crd.Spec.Names.Plural == "machines" && !keepsField(crd, "status", "nodeRef") {
			out = append(out, migration.Replaced.Finding("CustomResourceDefinition "+crd.Name, "status.nodeRef",
				"it is MCM's and drops fields that the native API adds: status.nodeRef, status.progress, status.phase. Nothing "+
					"is decided from them, but upstream's autoscaler reads nodeRef; it needs this project's "+
					"CustomResourceDefinitions", ""))
		}
	}
	for _, kind := range nativePlurals {
		if !have[kind] {
			out = append(out, migration.Blocked.Finding("CustomResourceDefinition "+kind+"."+
				machinev1.GroupVersion.Group, "", "it does not exist", "apply config/native, or MCM's"))
		}
	}
	return out
}

// keepsField reports whether the API server keeps a field of the first version.
func keepsField(crd *apiextensionsv1.CustomResourceDefinition, path ...string) bool {
	if len(crd.Spec.Versions) == 0 || crd.Spec.Versions[0].Schema == nil {
		return true // nothing is pruned
	}
	at := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
	for _, name := range path {
		if at == nil || objects.Value(at.XPreserveUnknownFields) {
			return true
		}
		next, there := at.Properties[name]
		if !there {
			return false
		}
		at = &next
	}
	return true
}

// takeoverClouds is about classes of clouds that the manager may not reach: their
// machines would be left alone, not even deleted. Only the manager knows its drivers.
func takeoverClouds(s *migration.Namespace, m *Managers) []migration.Finding {
	var out []migration.Finding
	for _, name := range objects.Keys(s.Classes) {
		provider := s.Classes[name].Provider
		named := slices.ContainsFunc(m.Drivers, func(d string) bool { return strings.EqualFold(d, provider) })
		f := migration.Finding{Object: "MachineClass " + name, Field: "provider"}
		switch {
		case m.Drivers == nil && provider != "":
			f.Level = migration.Kept
			f.Text = fmt.Sprintf("the manager of the native API needs a driver named %q; without one the machines of this "+
				"class stay as they are, also when they are to be deleted", provider)
			f.Remedy = "name the drivers that the manager logs when it starts with --drivers to have this checked"
		case !named:
			f.Level = migration.Blocked
			f.Text = fmt.Sprintf("the native API has no driver for %q", provider)
			f.Remedy = "run a manager with such a driver, leave the namespace to MCM, or move these pools to a namespace of " +
				"their own first"
		default:
			continue
		}
		out = append(out, f)
	}
	return out
}

// takeoverObjects is about objects in the middle of something.
func takeoverObjects(s *migration.Namespace) []migration.Finding {
	var going, unmade, inPlace int
	for i := range s.Machines {
		m := &s.Machines[i]
		switch phase := m.Status.CurrentStatus.Phase; {
		case !m.DeletionTimestamp.IsZero():
			going++
		case m.Spec.ProviderID == "":
			unmade++
		case phase == machinev1.MachineInPlaceUpdating:
			inPlace++
		}
	}
	var out []migration.Finding
	for _, c := range []struct {
		count int
		text  string
	}{
		{going, "are being deleted; the native API goes on at the step that status.lastOperation.description tells"},
		{unmade, "have no VM on record; the native API looks in the cloud for one that MCM may have made before it makes " +
			"one"},
		{inPlace, "are being updated in place; the native API goes on"},
	} {
		if c.count > 0 {
			out = append(out, migration.Kept.Finding(fmt.Sprintf("%d of %d Machines", c.count, len(s.Machines)), "", c.text,
				""))
		}
	}
	for i := range s.Deployments {
		if d := &s.Deployments[i]; d.Spec.Selector == nil {
			out = append(out, migration.Kept.Finding(objects.Name(machinev1.MachineDeploymentKind, d), "spec.selector",
				"it has none, which crashes MCM; the native API says so and does nothing for it", ""))
		}
	}
	return out
}

// backForms is about providerIDs. MCM's orphan collector compares its own form with
// what Machines say: it would delete the VM of a Machine that has another one.
func backForms(s *migration.Namespace) []migration.Finding {
	var out []migration.Finding
	for i := range s.Deployments {
		if d := &s.Deployments[i]; d.Annotations[machinev1.ProviderIDFormAnnotation] == machinev1.ProviderIDFormNode {
			out = append(out, migration.Blocked.Finding(objects.Name(machinev1.MachineDeploymentKind, d),
				"metadata.annotations["+machinev1.ProviderIDFormAnnotation+"]", "its Machines have the Node's form of "+
					"providerIDs", "remove the annotation"))
		}
	}
	var formed []string
	for i := range s.Machines {
		if _, there := s.Machines[i].Annotations[machinev1.ProviderIDFormAnnotation]; there {
			formed = append(formed, s.Machines[i].Name)
		}
	}
	if len(formed) > 0 {
		out = append(out, migration.Blocked.Finding(firstNames(machinev1.MachineKind, formed), "spec.providerID",
			"they have, or may have, another form than MCM's, which would take their VMs for orphans", "wait until the "+
				"native API has restored it and taken annotation "+machinev1.ProviderIDFormAnnotation+" away"))
	}
	return out
}

// backMoves is about pools that are between APIs, or on the other one. MCM knows
// neither holds nor MCMMachines.
func backMoves(s *migration.Namespace, m *Managers) []migration.Finding {
	var out []migration.Finding
	for _, r := range m.records {
		if r.Phase != migration.PhaseFinished {
			out = append(out, migration.Blocked.Finding(r.Pool.String(), "", fmt.Sprintf("it is being moved to %s (%s); MCM "+
				"would act on its Machines although they are held", r.To.Title(), r.Phase), "roll it back, or finish the move "+
				"and let the pool stay on Cluster API with its own namespace and cluster tag"))
		}
	}
	var held []string
	for i := range s.Machines {
		if _, there := s.Machines[i].Annotations[machinev1.MigrationHoldAnnotation]; there {
			held = append(held, s.Machines[i].Name)
		}
	}
	if len(held) > 0 && len(out) == 0 {
		out = append(out, migration.Blocked.Finding(firstNames(machinev1.MachineKind, held), "metadata.annotations["+
			machinev1.MigrationHoldAnnotation+"]", "they are held, and MCM knows no holds", "find out who holds them; "+
			"remove the annotation if nobody does"))
	}
	var foreign []string
	for i := range s.MCMMachines {
		if o := &s.MCMMachines[i]; o.Spec.ProviderID != "" {
			foreign = append(foreign, o.Name)
		}
	}
	if len(foreign) > 0 {
		out = append(out, migration.Blocked.Finding(firstNames(objects.KindMCMMachine, foreign), "", "MCM does not know "+
			"them: VMs that carry the tags of one of its MachineClasses and have no Machine are orphans to it, and deleted",
			"move them to the native API first: kubectl mcm migrate apply --to native"))
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
		out = append(out, migration.Blocked.Finding(firstNames(machinev1.MachineKind, making), "", "a VM was asked for "+
			"and is not on record yet; MCM may make a second one", "wait until they have a providerID, or delete them"))
	}
	if len(kept) > 0 {
		out = append(out, migration.Blocked.Finding(firstNames(machinev1.MachineKind, kept), "metadata.annotations["+
			machinev1.HoldAnnotation+"]", "it keeps the orphan collector from their VMs, which MCM's does not know",
			"end what it was set for, and remove it"))
	}
	for _, name := range objects.Keys(s.Classes) {
		class := s.Classes[name]
		if _, there := class.Annotations[machinev1.ReportOrphansAnnotation]; there {
			out = append(out, migration.Lost.Finding(objects.Name(machinev1.MachineClassKind, class), "metadata.annotations["+
				machinev1.ReportOrphansAnnotation+"]", "orphans of this class are only told about; MCM deletes them", ""))
		}
	}
	if len(s.Machines) > 0 {
		out = append(out, migration.Kept.Finding(fmt.Sprintf("%d Machines", len(s.Machines)), "", "annotations and "+
			"status fields of this project mean nothing to MCM and do no harm; phases, steps and labels are MCM's own", ""))
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
